"""Networks of another precision than float32, in which holdfast computes."""

from collections.abc import Iterator
from contextlib import contextmanager

from torch import nn


def in_float32(net: nn.Module) -> tuple[str, ...]:
    """Convert a network of another precision to float32, in place; returns a note if it was one."""
    notes = _notes(net)
    if notes:
        net.float()
    return notes


@contextmanager
def computing_in_float32(net: object) -> Iterator[tuple[str, ...]]:
    """`in_float32` inside the block; afterwards the parameters and buffers have their own values again.

    >>> net = nn.Linear(2, 1).half()
    >>> with computing_in_float32(net) as notes:
    ...     print(net.weight.dtype, notes)
    torch.float32 ('the network is built in float16; holdfast computes in float32',)
    >>> net.weight.dtype
    torch.float16
    """
    notes = _notes(net) if isinstance(net, nn.Module) else ()
    tensors = [*net.parameters(), *net.buffers()] if isinstance(net, nn.Module) and notes else []
    own = [(one, one.data) for one in tensors if one.is_floating_point()]
    for one, data in own:
        one.data = data.float()
    try:
        yield notes
    finally:
        for one, data in own:
            one.data = data.to(one.device)  # the network may have been moved


def _notes(net: nn.Module) -> tuple[str, ...]:
    kinds = {str(p.dtype).removeprefix("torch.") for p in net.parameters() if p.is_floating_point()} - {"float32"}
    return (f"the network is built in {', '.join(sorted(kinds))}; holdfast computes in float32",) if kinds else ()
