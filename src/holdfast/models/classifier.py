"""A wrapper that makes any image network map pixels in [0, 1] to logits."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from holdfast.engine.checks import check_tensors
from holdfast.errors import InputError, expected


class OutputError(InputError):
    """A network that does not return logits [B, K]."""


class NormalisationError(InputError):
    """A mean or std whose number of values fits neither one number nor the channels of the images."""


Statistic = float | Sequence[float] | Tensor


class Classifier(nn.Module):
    """Pixels in [0, 1], [B, C, ...], to logits [B, K]: net((x - mean) / std).

    `mean` and `std` are one number for all channels or one per channel; they are buffers, so they follow the device
    and dtype of the module and are saved with its weights. The network may return the logits [B, K] themselves or an
    object with a tensor attribute `logits`. If it returns a tuple, list or dict, `output` is the index or key of the
    logits in it.

    >>> net = nn.Sequential(nn.Flatten(), nn.Linear(12, 10))
    >>> Classifier(net, mean=[0.5, 0.5, 0.5], std=0.25)(torch.rand(4, 3, 2, 2)).shape
    torch.Size([4, 10])
    """

    mean: Tensor | None
    std: Tensor | None

    def __init__(
        self,
        net: nn.Module,
        mean: Statistic | None = None,
        std: Statistic | None = None,
        *,
        output: int | str | None = None,
    ) -> None:
        super().__init__()
        if not isinstance(net, nn.Module):
            raise expected("net to be a torch.nn.Module", got=type(net).__name__)
        self.net = net
        self.output = output
        self.register_buffer("mean", _statistic("mean", mean))
        self.register_buffer("std", _statistic("std", std))
        if self.std is not None and not bool((self.std > 0).all()):
            raise expected("std > 0 in every channel", got=self.std.tolist())

    @property
    def scale_invariant(self) -> bool | None:
        """Whether f(a x) = f(x) for every a > 0, as declared by the network; None if it declares nothing.

        Dividing by `std` preserves the property. Subtracting a mean may break it, so with a mean the value is None.
        """
        declared: bool | None = getattr(self.net, "scale_invariant", None)
        return declared if self.mean is None else None

    def forward(self, x: Tensor) -> Tensor:
        check_tensors(x=x)
        if not x.is_floating_point() or x.dim() < 2:
            raise expected(
                "a float batch [B, C, H, W] of pixels in [0, 1]",
                got=f"{x.dtype} {list(x.shape)}",
                fix="add a batch dimension, and divide integer pixels by 255",
            )
        return _logits(self.net(self._normalised(x)), x.shape[0], self.output)

    def _normalised(self, x: Tensor) -> Tensor:
        if self.mean is not None:
            x = x - _per_channel("mean", self.mean, x)
        if self.std is not None:
            x = x / _per_channel("std", self.std, x)
        return x


def _statistic(name: str, value: Statistic | None) -> Tensor | None:
    """Copy a mean or std into a float vector; None stays None."""
    if value is None:
        return None
    try:
        vector = torch.as_tensor(value, dtype=torch.get_default_dtype()).detach().clone()
    except (TypeError, ValueError, RuntimeError):
        raise expected(f"{name} to be a number or one number per channel", got=repr(value)) from None
    vector = vector.reshape(1) if vector.dim() == 0 else vector
    if vector.dim() != 1 or not len(vector):
        raise expected(f"{name} to be a number or one number per channel", got=f"shape {list(vector.shape)}")
    if not bool(vector.isfinite().all()):
        raise expected(f"a finite {name}", got=vector.tolist())
    return vector


def _per_channel(name: str, values: Tensor, x: Tensor) -> Tensor:
    """Shape [C] or [1] values so that they broadcast against the channels of `x` [B, C, ...]."""
    if len(values) not in (1, x.shape[1]):
        what = f"{name} with 1 or {x.shape[1]} values for images {list(x.shape)}"
        raise NormalisationError(str(expected(what, got=len(values))))
    return values.reshape(-1, *([1] * (x.dim() - 2)))


def _logits(output: Any, batch: int, key: int | str | None) -> Tensor:
    """Extract the logits [B, K] from the output of a network."""
    chosen = output if key is None else _part(output, key)
    logits = chosen if isinstance(chosen, Tensor) else getattr(chosen, "logits", None)
    if isinstance(logits, Tensor) and logits.dim() == 2 and logits.shape[0] == batch:
        return logits
    fitting = [
        name for name, part in _parts(output) if isinstance(part, Tensor) and part.dim() == 2 and len(part) == batch
    ]
    fix = "wrap the network in a module that returns its logits"
    if fitting and key is None:
        fix = f"choose the logits with {' or '.join(f'output={name!r}' for name in fitting)}, or {fix}"
    what = f"the network to return logits [{batch}, K] or an object with such a tensor `logits`"
    raise OutputError(str(expected(what, got=_describe(chosen if logits is None else logits), fix=fix)))


def _part(output: Any, key: int | str) -> Any:
    """The part of an output with that index or key."""
    parts = dict(_parts(output))
    if key not in parts:
        have = ", ".join(map(repr, parts)) or "no parts"
        what = f"a network that returns a part {key!r}"
        raise OutputError(str(expected(what, got=_describe(output), fix=f"it has {have}")))
    return parts[key]


def _parts(output: Any) -> list[tuple[int | str, Any]]:
    """Index or key and value of each part of a tuple, list or dict."""
    if isinstance(output, Mapping):
        return [(str(key), value) for key, value in output.items()]
    return list(enumerate(output)) if isinstance(output, tuple | list) else []


def _describe(output: Any) -> str:
    """Describe the output of a network in a few words."""
    if isinstance(output, Tensor):
        return f"a tensor of shape {list(output.shape)}"
    if isinstance(output, dict):
        return f"a {type(output).__name__} with the keys {list(output)}"
    if isinstance(output, tuple | list):
        return f"a {type(output).__name__} of {', '.join(map(_describe, output)) or 'nothing'}"
    return f"an object of type {type(output).__name__}"
