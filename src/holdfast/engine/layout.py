"""The memory layout in which the convolutions of a network are computed, chosen once per network."""

from weakref import WeakKeyDictionary

import torch
from torch import nn

from holdfast.types import Model

THIN = 4
"""Up to this many input channels a convolution counts as thin: a first layer, with kernels of its own."""

MANY = 3
"""Networks with at least this many convolutions that are not thin have no other layer that decides the layout."""

_CHOSEN: WeakKeyDictionary[nn.Module, torch.memory_format] = WeakKeyDictionary()


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
