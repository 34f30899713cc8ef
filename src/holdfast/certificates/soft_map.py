"""A differentiable stand-in for the smoothed map, for attacks on it."""

from dataclasses import dataclass

import torch
from torch import Tensor

from holdfast import rng
from holdfast.attribution.saliency import saliency_map
from holdfast.engine.ops import flatten
from holdfast.types import Attribution, Model


@dataclass(frozen=True, kw_only=True)
class SoftSmoothedMap:
    """The smoothed map with a soft threshold, as an attribution [B, 1, H, W] that can be differentiated.

    The mean over `draws` noisy copies of sigmoid((s_i - t) / w): s is the map of the copy, t its k-th largest value and
    w `temperature` times its standard deviation. For a small temperature this is the share of copies that have pixel i
    in their top k. All examples share the noise images, drawn from `seed`.

    >>> from holdfast.attribution import Gradient
    >>> linear = lambda x: x.flatten(1) @ torch.tensor([[1.0], [3.0], [2.0]])
    >>> soft = SoftSmoothedMap(attribution=Gradient(), sigma=0.25, k=1, temperature=1e-3)
    >>> soft(linear, torch.rand(1, 1, 1, 3), torch.tensor([0])).flatten().tolist()
    [0.0, 0.5, 0.0]
    """

    attribution: Attribution
    sigma: float
    k: int
    draws: int = 16
    temperature: float = 0.5
    seed: int = 0

    @property
    def points(self) -> int:
        """Images per example that pass through the network."""
        return self.draws * int(getattr(self.attribution, "points", 1))

    def __call__(self, model: Model, x: Tensor, y: Tensor, *, create_graph: bool = False) -> Tensor:
        keys = rng.make_keys(self.seed, torch.arange(self.draws, device=x.device))
        noise = self.sigma * rng.normal(keys, x[:1].detach().expand(self.draws, *x.shape[1:]))
        copies = (x[:, None] + noise).flatten(0, 1)
        found = self.attribution(model, copies, y.repeat_interleave(self.draws), create_graph=create_graph)
        maps = flatten(saliency_map(found))
        threshold = maps.detach().topk(self.k, dim=1).values[:, -1:]
        width = self.temperature * maps.detach().std(1, keepdim=True, correction=0) + 1e-12
        soft = torch.sigmoid((maps - threshold) / width)
        return soft.reshape(x.shape[0], self.draws, *x.shape[2:]).mean(1, keepdim=True)
