"""Finds the layers of a network that do not support double backward.

Attacking or training an explanation differentiates a gradient. Most layers allow that; fused kernels, hand-written
autograd functions and `detach` do not. The audit runs the network once and records the input of each module. Then it
differentiates the gradient of each module, inner modules first.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from weakref import WeakSet

import torch
from torch import Tensor, nn
from torch.func import functional_call

from holdfast.engine.modes import evaluating
from holdfast.engine.second_order import second_order
from holdfast.errors import expected
from holdfast.models.surrogate import softplus_surrogate
from holdfast.types import Model

CUT = "its output does not depend differentiably on its input (detached or computed without gradient)"
NO_SECOND = "its gradient was computed without a graph and has no derivative"


@dataclass(frozen=True)
class Obstacle:
    """A layer that blocks the second derivative, and the reason."""

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
    """Name the layers of `model` through which double backward does not work; empty if there are none.

    The innermost module that fails on its own is named. If all parts of a module pass but the module fails as a whole
    (a functional call in its `forward`), the module is named. Mode, buffers and gradients are left unchanged.

    >>> double_backward_audit(nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2)), torch.zeros(1, 3))
    []
    """
    with torch.enable_grad(), evaluating(model), second_order():
        calls = _record_calls(model, x)
        obstacles = _blame("", model, calls)
        if not obstacles or _why_not(model, calls[model]) == CUT:
            return obstacles
    # a part that ignores its input (a table of positions, a mask) is no obstacle if the whole network uses its input
    return [obstacle for obstacle in obstacles if obstacle.reason != CUT]


_SOUND: WeakSet[nn.Module] = WeakSet()


def require_second_order(model: Model, x: Tensor) -> None:
    """Reject a network that cannot be differentiated twice, naming the layers; each network is audited once.

    Without this check an attack would silently ascend a wrong gradient and report the network as robust.
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
            calls[module] = _Call(*_map(_copy, (args, kwargs)))

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
    """The reason why the second derivative of `module` cannot be computed, or None."""
    args, kwargs = _map(_track, (call.args, call.kwargs))
    inputs = [t for t in _leaves((args, kwargs)) if isinstance(t, Tensor) and t.requires_grad]
    if not inputs:  # the inputs are only indices or masks: nothing to differentiate
        return None
    # copies of the parameters, so that a full backward pass leaves no gradients behind
    parameters = {name: p.detach().requires_grad_(p.is_floating_point()) for name, p in module.named_parameters()}
    args, kwargs = _map(_fresh, (args, kwargs))
    return _try_twice(lambda: functional_call(module, parameters, args, kwargs), inputs)


def _track(leaf: Any) -> Any:
    floating = isinstance(leaf, Tensor) and leaf.is_floating_point()
    return leaf.detach().clone().requires_grad_() if floating else leaf


def _fresh(leaf: Any) -> Any:
    # a non-leaf copy that an in-place layer may overwrite
    return leaf * 1 if isinstance(leaf, Tensor) and leaf.requires_grad else leaf


def _try_twice(forward: Callable[[], Any], inputs: list[Tensor]) -> str | None:
    # With the surrogate the second derivative of ReLU networks is not trivially zero, so that it is really computed.
    try:
        with softplus_surrogate():
            outputs = [t for t in _leaves(forward()) if isinstance(t, Tensor) and t.requires_grad]
            if not outputs:
                return CUT
            total = torch.stack([(out * out).sum() for out in outputs]).sum()
            first = torch.autograd.grad(total, inputs, create_graph=True, allow_unused=True)
            if all(g is None for g in first):
                return CUT
            squares = [(g * g).sum() for g in first if g is not None and g.requires_grad]
            if not squares:
                return NO_SECOND
            # a full backward pass, not `grad`: it also reaches the nodes with which PyTorch forbids double backward
            torch.stack(squares).sum().backward()
    except RuntimeError as error:
        return str(error).strip().splitlines()[0]
    return None


def _map(function: Callable[[Any], Any], tree: Any) -> Any:
    """The function applied to every leaf of nested tuples, lists and mappings."""
    if isinstance(tree, tuple) and hasattr(tree, "_fields"):
        return type(tree)(*(_map(function, part) for part in tree))
    if isinstance(tree, tuple | list):
        return type(tree)(_map(function, part) for part in tree)
    return {key: _map(function, part) for key, part in tree.items()} if isinstance(tree, dict) else function(tree)


def _leaves(tree: Any) -> list[Any]:
    """All leaves of nested tuples, lists and mappings, such as the outputs of `transformers` models."""
    if isinstance(tree, tuple | list):
        return [leaf for part in tree for leaf in _leaves(part)]
    return [leaf for part in tree.values() for leaf in _leaves(part)] if hasattr(tree, "keys") else [tree]
