"""Which layers of a network stop a derivative of its gradient.

Attacking or training an explanation differentiates a gradient. Most layers allow that; fused kernels, hand-written
autograd functions and `detach` do not. The audit finds the layers by running the network once, remembering what each
module was given, and asking each module in turn, from the inside out, for a derivative of its gradient.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from weakref import WeakSet

import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.utils._pytree import tree_flatten, tree_map

from holdfast.engine.modes import evaluating
from holdfast.engine.second_order import second_order
from holdfast.errors import expected
from holdfast.models.surrogate import softplus_surrogate
from holdfast.types import Model

CUT = "its output does not depend differentiably on its input (detached or computed without gradient)"
NO_SECOND = "its gradient was computed without a graph and has no derivative"


@dataclass(frozen=True)
class Obstacle:
    """A layer through which a second derivative does not pass, and what PyTorch said."""

    name: str
    kind: str
    reason: str

    def __str__(self) -> str:
        return f"{self.name} ({self.kind}): {self.reason}"


@dataclass(frozen=True)
class _Call:
    args: tuple[Any, ...]
    kwargs: dict[str, Any]


def double_backward_audit(model: nn.Module, x: Tensor) -> list[Obstacle]:
    """Name the layers of `model` through which double backward does not work; empty when all is well.

    The innermost module that fails by itself is named; a module whose parts all pass, but which fails as a whole
    (a functional call in its `forward`), is named itself. Mode, buffers and gradients are left as found.

    >>> double_backward_audit(nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2)), torch.zeros(1, 3))
    []
    """
    with torch.enable_grad(), evaluating(model), second_order():
        calls = _record_calls(model, x)
        obstacles = _blame("", model, calls)
        if not obstacles or _why_not(model, calls[model]) == CUT:
            return obstacles
    # a part that ignores its input (a table of positions, a mask) is no obstacle while the whole does not
    return [obstacle for obstacle in obstacles if obstacle.reason != CUT]


_SOUND: WeakSet[nn.Module] = WeakSet()


def require_second_order(model: Model, x: Tensor) -> None:
    """Refuse a network that cannot be differentiated twice, naming the layers; asked once for each network.

    Without this an attack on such a network would climb a wrong gradient in silence and call the network robust.
    """
    if not isinstance(model, nn.Module) or model in _SOUND:
        return
    obstacles = double_backward_audit(model, x)
    if obstacles:
        fix = "replace these layers, or explain a part of the network without them"
        raise expected("a network that can be differentiated twice", got="; ".join(map(str, obstacles)), fix=fix)
    _SOUND.add(model)


def _record_calls(model: nn.Module, x: Tensor) -> dict[nn.Module, _Call]:
    calls: dict[nn.Module, _Call] = {}

    def remember(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        if module not in calls:
            calls[module] = _Call(*tree_map(_copy, (args, kwargs)))

    hooks = [m.register_forward_pre_hook(remember, with_kwargs=True) for m in model.modules()]
    try:
        with torch.no_grad():
            model(x)
    finally:
        for hook in hooks:
            hook.remove()
    return calls


def _copy(leaf: Any) -> Any:
    return leaf.detach().clone() if isinstance(leaf, Tensor) else leaf


def _blame(name: str, module: nn.Module, calls: dict[nn.Module, _Call]) -> list[Obstacle]:
    inner = [o for child, m in module.named_children() for o in _blame(f"{name}.{child}".lstrip("."), m, calls)]
    if inner or module not in calls:
        return inner
    reason = _why_not(module, calls[module])
    return [Obstacle(name or "(the network)", type(module).__name__, reason)] if reason else []


def _why_not(module: nn.Module, call: _Call) -> str | None:
    """What keeps the second derivative of `module` from being computed, or None."""
    args, kwargs = tree_map(_track, (call.args, call.kwargs))
    inputs = [t for t in tree_flatten((args, kwargs))[0] if isinstance(t, Tensor) and t.requires_grad]
    if not inputs:  # works on indices or masks only: nothing to differentiate here
        return None
    # copies of the parameters, so that a full backward pass can be made without leaving gradients behind
    parameters = {name: p.detach().requires_grad_(p.is_floating_point()) for name, p in module.named_parameters()}
    args, kwargs = tree_map(_fresh, (args, kwargs))
    return _try_twice(lambda: functional_call(module, parameters, args, kwargs), inputs)


def _track(leaf: Any) -> Any:
    floating = isinstance(leaf, Tensor) and leaf.is_floating_point()
    return leaf.detach().clone().requires_grad_() if floating else leaf


def _fresh(leaf: Any) -> Any:
    # a view of the leaf that an in-place layer may overwrite
    return leaf * 1 if isinstance(leaf, Tensor) and leaf.requires_grad else leaf


def _try_twice(forward: Callable[[], Any], inputs: list[Tensor]) -> str | None:
    # The surrogate makes the second derivative of ReLU networks non-trivial, so that it is really computed.
    try:
        with softplus_surrogate():
            outputs = [t for t in tree_flatten(_tensors(forward()))[0] if isinstance(t, Tensor) and t.requires_grad]
            if not outputs:
                return CUT
            total = torch.stack([(out * out).sum() for out in outputs]).sum()
            first = torch.autograd.grad(total, inputs, create_graph=True, allow_unused=True)
            if all(g is None for g in first):
                return CUT
            squares = [(g * g).sum() for g in first if g is not None and g.requires_grad]
            if not squares:
                return NO_SECOND
            # a full backward pass, not `grad`: it also reaches the nodes that PyTorch plants to refuse it
            torch.stack(squares).sum().backward()
    except RuntimeError as error:
        return str(error).strip().splitlines()[0]
    return None


def _tensors(output: Any) -> Any:
    # model outputs such as those of `transformers` are mappings that are not registered as trees
    return dict(output) if hasattr(output, "keys") else output
