"""A network with softplus activations in place of its ReLUs, in training and in evaluation."""

import torch
from torch import Tensor, nn

from holdfast.errors import expected
from holdfast.models.surrogate import softplus_surrogate


class SoftplusNetwork(nn.Module):
    """`net` with every ReLU, leaky ReLU, PReLU and ReLU6 replaced by its softplus form of sharpness `beta`.

    The weights are those of `net`. Dombrowski et al. (2019) smooth networks in this way, so that their gradients change
    less under small perturbations. The sharpness is a buffer: it is saved with the weights. The attacks' surrogate
    leaves this network as it is, since it is smooth already.

    >>> net = SoftplusNetwork(nn.Sequential(nn.Flatten(), nn.ReLU()), beta=1.0)
    >>> net(torch.zeros(1, 1, 1, 2)).round(decimals=4).tolist()
    [[0.6930999755859375, 0.6930999755859375]]
    """

    beta: Tensor

    def __init__(self, net: nn.Module, beta: float) -> None:
        super().__init__()
        if not 0 < beta < float("inf"):
            raise expected("a sharpness beta > 0", got=beta, fix="a larger beta is closer to the ReLU; LGA uses 3")
        self.net = net
        self.register_buffer("beta", torch.tensor(float(beta)))

    @property
    def scale_invariant(self) -> bool | None:
        """Whether f(a x) = f(x) for every a > 0, as declared by the network; None if it declares nothing."""
        declared: bool | None = getattr(self.net, "scale_invariant", None)
        return declared

    def forward(self, x: Tensor) -> Tensor:
        with softplus_surrogate(float(self.beta)):
            logits: Tensor = self.net(x)
        return logits
