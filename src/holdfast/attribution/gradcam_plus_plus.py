"""Grad-CAM++ (Chattopadhay et al. 2018)."""

from dataclasses import dataclass

import torch  # noqa: F401 - for the doctest
from torch import Tensor

from holdfast.attribution.gradcam import GradCAM


@dataclass(frozen=True, kw_only=True)
class GradCAMPlusPlus(GradCAM):
    """Grad-CAM with w_c = sum_ij max(0, g_ij) / (2 + g_ij sum_ab A_ab), g = ds/dA_c, which also finds small objects.

    This is the weight of the paper for the score exp(s), with its powers of g cancelled; the factor exp(s) is the same
    for the whole map and left out. The weights suit features that are not negative, such as those after a ReLU.

    >>> net = torch.nn.Sequential(torch.nn.Identity(), torch.nn.Flatten(), torch.nn.Linear(2, 1, bias=False))
    >>> _ = net[2].weight.data.copy_(torch.tensor([[1.0, -1.0]]))
    >>> GradCAMPlusPlus()(net, torch.tensor([[[[1.0, 2.0]]]]), torch.tensor([0])).flatten().tolist()  # w = 1 / (2 + 3)
    [0.20000000298023224, 0.4000000059604645]
    """

    def channel_weights(self, features: Tensor, gradient: Tensor) -> Tensor:
        """The weights w [B, C] of the channels, from features and gradient [B, C, h, w]."""
        amount = features.sum((2, 3), keepdim=True)
        return (gradient.clamp(min=0) / (2 + gradient * amount)).sum((2, 3))
