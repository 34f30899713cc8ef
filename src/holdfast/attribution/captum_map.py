"""Attribution methods of captum as maps that can be evaluated and scored."""

import inspect
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from holdfast.attribution.base import GradientMap
from holdfast.attribution.gradcam import enlarged
from holdfast.attribution.gradient import Gradient
from holdfast.attribution.input_x_gradient import InputXGradient
from holdfast.attribution.integrated import IntegratedGradients
from holdfast.attribution.scores import score_of, true_logit
from holdfast.engine.features import find_layer
from holdfast.engine.gradients import check_chunk, check_logits, images_per_pass
from holdfast.engine.parallel import slices
from holdfast.engine.passes import add_passes
from holdfast.errors import expected
from holdfast.types import Model, Score

Attribute = Callable[[Tensor, Tensor], Tensor]
"""`(images, labels) -> map`."""

HOOKS_WARNING = "Setting (forward, backward|backward) hooks"
"""What captum says each time it sets hooks, which it removes afterwards."""


STAND_INS: dict[str, Callable[..., GradientMap]] = {
    "Saliency": Gradient,
    "GuidedBackprop": Gradient,
    "Deconvolution": Gradient,
    "InputXGradient": InputXGradient,
}
"""Class of captum -> the map that attacks ascend in its place; integrated gradients for all others."""


def from_captum(
    attribution_class: Callable[..., Any],
    /,
    *,
    score: str | Score = true_logit,
    search_map: GradientMap | None = None,
    seed: int = 0,
    chunk: int | None = None,
    **options: Any,
) -> "CaptumMap":
    """An attribution method of captum as a map to be evaluated and scored.

    `attribution_class` is a class of `captum.attr`, or a function that takes the network and returns an object of one.
    `options` are passed to the constructor or to `attribute`, whichever has the parameter; a `layer` may be given by
    its name. The map explains `score`. Maps of a layer are upsampled to the size of the image.

    These maps are not differentiable to second order, so an attack cannot ascend them. It ascends `search_map` instead,
    by default integrated gradients (the gradient for methods close to it) of the same score. The map itself selects the
    best iterate and gives the scores. The notes of the result say so.

    Methods that draw random numbers compute one image at a time, each with the numbers of `seed`, so that the map of an
    image does not depend on the batch. `chunk` limits the images per call of captum.

    >>> from captum.attr import Saliency
    >>> saliency = from_captum(Saliency, abs=False)
    >>> net = nn.Sequential(nn.Flatten(), nn.Linear(2, 2, bias=False))
    >>> _ = net[1].weight.data.copy_(torch.tensor([[3.0, -1.0], [0.0, 2.0]]))
    >>> saliency(net, torch.ones(1, 1, 1, 2), torch.tensor([0])).flatten().tolist()
    [3.0, -1.0]
    """
    _check(attribution_class, options)
    explained = score_of(score)
    stand_in = STAND_INS.get(_name(attribution_class), IntegratedGradients)
    return CaptumMap(
        method=attribution_class,
        options=tuple(sorted(options.items())),
        score=explained,
        search_map=stand_in(score=explained) if search_map is None else search_map,
        seed=seed,
        chunk=chunk,
    )


@dataclass(frozen=True, kw_only=True)
class CaptumMap:
    """An attribution method of captum as a map; made by `from_captum`."""

    method: Callable[..., Any]
    options: tuple[tuple[str, Any], ...] = ()
    score: Score = true_logit
    search_map: GradientMap = field(default_factory=IntegratedGradients)
    """The map that an attack ascends in place of this one."""
    seed: int = 0
    chunk: int | None = None

    def __post_init__(self) -> None:
        check_chunk(self.chunk)

    def __call__(self, model: Model, x: Tensor, y: Tensor, *, create_graph: bool = False) -> Tensor:
        """The map for labels y [B], shaped like x."""
        if create_graph:
            fix = "captum's maps are not differentiable to second order; attack or train with a map of holdfast"
            raise expected("create_graph=False for a map of captum", got="create_graph=True", fix=fix)
        if x.shape[0] == 0:
            return torch.zeros_like(x)
        with torch.enable_grad(), warnings.catch_warnings():
            warnings.filterwarnings("ignore", message=HOOKS_WARNING)
            attribute = self._prepared(model)
            return torch.cat(list(self._in_parts(attribute, x.detach(), y)))

    @property
    def points(self) -> int:
        """Images per example that pass through the network in one step of a search."""
        return self.search_map.points

    def _prepared(self, model: Model) -> Attribute:
        """captum's `attribute` for this network, as a function of images and labels."""
        own = {name: value for name, value in self.options if name in _parameters(self.method)}
        rest = {name: value for name, value in self.options if name not in own}
        if isinstance(own.get("layer"), str):
            own["layer"] = find_layer(model, own["layer"])
        made = self.method(_Score(model, self.score), **own)
        bounded = "internal_batch_size" in _parameters(made.attribute)

        def attribute(x: Tensor, y: Tensor) -> Tensor:
            bound = {"internal_batch_size": max(len(x), images_per_pass(x))} if bounded else {}
            found = made.attribute(x.clone().requires_grad_(), additional_forward_args=(y,), **(bound | rest))
            return _like(found, x, self.method)

        return attribute

    def _in_parts(self, attribute: Attribute, x: Tensor, y: Tensor) -> Iterator[Tensor]:
        for part in slices(len(x), self.chunk or images_per_pass(x)):
            found, random = _seeded(self.seed, attribute, x[part], y[part])
            if random and len(found) > 1:
                yield from (_seeded(self.seed, attribute, x[i : i + 1], y[i : i + 1])[0] for i in range(len(x))[part])
            else:
                yield found


class _Score(nn.Module):
    """The explained score [B] of images and labels: the function that captum differentiates or evaluates."""

    def __init__(self, model: Model, score: Score) -> None:
        super().__init__()
        self.model, self.score = model, score
        self.training = False

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        add_passes(x.shape[0], 2 if torch.is_grad_enabled() else 1)
        return self.score(check_logits(self.model(x), x), y)


def _seeded(seed: int, attribute: Attribute, x: Tensor, y: Tensor) -> tuple[Tensor, bool]:
    """A map computed with global random numbers from `seed`, and whether any were drawn; their state is restored."""
    before = np.random.get_state()
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        np.random.seed(seed)
        start = _random_states(x)
        try:
            found = attribute(x, y)
            return found, any(not np.array_equal(a, b) for a, b in zip(start, _random_states(x), strict=True))
        finally:
            np.random.set_state(before)


def _random_states(x: Tensor) -> list[Any]:
    _, words, place, *_ = np.random.get_state()
    device = [torch.cuda.get_rng_state(x.device)] if x.is_cuda else []
    return [words, place, torch.get_rng_state(), *device]


def _check(method: Callable[..., Any], options: dict[str, Any]) -> None:
    if not callable(method):
        raise expected("a class of captum.attr, or a function of the network that makes one", got=repr(method))
    if inspect.isclass(method):
        parameters = [*_parameters(method)[1:], *_parameters(getattr(method, "attribute", None))]
        known = [name for name in parameters if name not in ("self", "inputs", "target", "additional_forward_args")]
        unknown = sorted(set(options) - set(known))
        if unknown and "kwargs" not in known:
            raise expected(f"options of captum's {_name(method)} ({', '.join(known)})", got=", ".join(unknown))


def _parameters(function: Any) -> list[str]:
    return [] if function is None else list(inspect.signature(function).parameters)


def _name(method: Callable[..., Any]) -> str:
    return getattr(method, "__name__", type(method).__name__)


def _like(found: Any, x: Tensor, method: Callable[..., Any]) -> Tensor:
    """A map of captum shaped like x, detached; maps of a layer are upsampled."""
    found = found[0] if isinstance(found, tuple) and len(found) == 1 else found
    if isinstance(found, Tensor) and found.dim() == 4 and found.shape[1] in (1, x.shape[1]):
        found = found.detach().to(x.dtype)
        return found if found.shape == x.shape else enlarged(found, x)
    got = f"shape {list(found.shape)}" if isinstance(found, Tensor) else type(found).__name__
    raise expected(f"one map [B, C, H, W] from captum's {_name(method)}", got=got)
