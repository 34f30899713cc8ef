"""The memory layout in which the convolutions of a network are computed, chosen once per network."""

from collections.abc import Iterator
from contextlib import contextmanager
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn

from holdfast.types import Model

THIN = 4
"""Up to this many input channels a convolution counts as thin: a first layer, with kernels of its own."""

MANY = 3
"""Networks with at least this many convolutions that are not thin have no other layer that decides the layout."""

_CHOSEN: WeakKeyDictionary[nn.Module, torch.memory_format] = WeakKeyDictionary()

Copies = dict[int, tuple[Tensor, int, Tensor]]
"""By the id of a weight: the weight, its version, and its copy in the layout of the network."""

_COPIES: WeakKeyDictionary[nn.Module, Copies] = WeakKeyDictionary()


def layout_of(model: Model) -> torch.memory_format:
    """channels_last for networks of small convolutions, such as residual networks; the usual layout for all others.

    With kernels of at most 3 x 3, channels_last is 1.1 to 1.7 times faster per convolution on a CPU; with the 5 x 5
    kernels of the small CNN it is slower. The rule looks at the network only: a choice by measured time could differ
    between two sittings of a run, and with it the last bits of the result.
    """
    if not isinstance(model, nn.Module):
        return torch.contiguous_format
    if model not in _CHOSEN:
        wide = [m for m in model.modules() if isinstance(m, nn.Conv2d) and m.in_channels > THIN]
        small = all(max(m.kernel_size) <= 3 and m.groups == 1 for m in wide)
        _CHOSEN[model] = torch.channels_last if len(wide) >= MANY and small else torch.contiguous_format
    return _CHOSEN[model]


def like_in_memory(t: Tensor, other: Tensor) -> Tensor:
    """The tensor t in channels_last if `other` is; an operation on tensors of both layouts takes three times as long.

    >>> image, features = torch.rand(2, 3, 4, 4), torch.rand(2, 3, 4, 4).to(memory_format=torch.channels_last)
    >>> like_in_memory(image, features).stride()
    (48, 1, 12, 3)
    """
    last = torch.channels_last
    if other.dim() != 4 or other.is_contiguous() or not other.is_contiguous(memory_format=last):
        return t
    return t.contiguous(memory_format=last) if t.shape == other.shape else t


@contextmanager
def kept_copies(model: Model) -> Iterator[None]:
    """Inside the block, in which the weights do not change, they are copied into the network's layout only once."""
    if not isinstance(model, nn.Module) or model in _COPIES:
        yield
        return
    _COPIES[model] = {}
    try:
        yield
    finally:
        _COPIES.pop(model, None)


def copies_of(model: Model) -> Copies | None:
    """The copies of the weights of a network; None outside of `kept_copies`."""
    return _COPIES.get(model) if isinstance(model, nn.Module) else None


def laid_out(weight: Tensor, layout: torch.memory_format, copies: Copies | None) -> Tensor:
    """The weight in that layout, from `copies` if it is there.

    The version of a tensor, which every change raises, is private to PyTorch; a weight without one is copied each time.
    """
    if weight.is_contiguous(memory_format=layout):
        return weight
    if copies is None or weight.requires_grad or weight.is_inference() or not isinstance(weight, nn.Parameter):
        return weight.contiguous(memory_format=layout)
    version: int | None = getattr(weight, "_version", None)
    if version is None:
        return weight.contiguous(memory_format=layout)
    known = copies.get(id(weight))
    if known is None or known[1] != version:
        known = weight, version, weight.detach().contiguous(memory_format=layout)
        copies[id(weight)] = known
    return known[2]
