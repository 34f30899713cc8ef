"""Grad-CAM (Selvaraju et al. 2017)."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from holdfast.attribution.base import GradientMap, Maps
from holdfast.attribution.scores import true_logit
from holdfast.engine.features import folded_features
from holdfast.engine.gradients import check_chunk
from holdfast.models.spatial_layer import last_spatial_layer
from holdfast.types import Model, Score, Target


@dataclass(frozen=True, kw_only=True)
class GradCAM(GradientMap):
    """max(0, sum_c w_c A_c), w_c the mean of ds/dA_c over positions, for the features A of a layer [B, C, h, w].

    The map is upsampled to the size of the image by bilinear interpolation, and every channel of the result holds it.
    `layer` is the name of a module of the network; the end of the name is enough if it is unique. None takes the last
    layer with spatial features that nothing bypasses (see `layer_of`). The tokens of a transformer are read as a grid.
    The softplus surrogate also smooths the max(0, .) of the map, so that an attack finds a gradient where it is zero.

    >>> net = torch.nn.Sequential(torch.nn.Identity(), torch.nn.Flatten(), torch.nn.Linear(4, 2, bias=False))
    >>> _ = net[2].weight.data.copy_(torch.tensor([[1.0, 1.0, 0.0, 2.0], [0.0, 0.0, 0.0, 0.0]]))
    >>> GradCAM()(net, torch.tensor([[[[1.0, 2.0], [3.0, 4.0]]]]), torch.tensor([0])).flatten().tolist()
    [1.0, 2.0, 3.0, 4.0]
    """

    layer: str | None = None
    score: Score = true_logit
    chunk: int | None = None

    def __post_init__(self) -> None:
        check_chunk(self.chunk)

    def maps(self, model: Model, x: Tensor, targets: Sequence[Target], *, create_graph: bool = False) -> Maps:
        if x.shape[0] == 0:
            return Maps([torch.zeros_like(x) for _ in targets], None)
        layer = self.layer_of(model, x)
        found, logits = folded_features(
            model, x, targets, layer, self._weighted_sum, create_graph=create_graph, chunk=self.chunk
        )
        return Maps([enlarged(cam, x) for cam in found], logits)

    def layer_of(self, model: Model, x: Tensor) -> str:
        """The name of the layer whose features are used for images like x."""
        return last_spatial_layer(model, x) if self.layer is None else self.layer

    def channel_weights(self, features: Tensor, gradient: Tensor) -> Tensor:
        """The weights w [B, C] of the channels, from features and gradient [B, C, h, w]."""
        return gradient.mean((2, 3))

    def _weighted_sum(self, features: Tensor, gradient: Tensor) -> Tensor:
        cam = torch.einsum("bc,bchw->bhw", self.channel_weights(features, gradient), features)[:, None]
        scale = cam.abs().mean((2, 3), keepdim=True).clamp(min=torch.finfo(cam.dtype).tiny)
        # Equals relu(cam). In units of its own size, the ReLU of the surrogate is smooth at any scale of the logits.
        return torch.relu(cam / scale) * scale


def enlarged(cam: Tensor, x: Tensor) -> Tensor:
    """Maps [B, C or 1, h, w] in the size of x by bilinear interpolation, shaped like x."""
    return F.interpolate(cam, size=x.shape[2:], mode="bilinear", align_corners=False).expand_as(x)
