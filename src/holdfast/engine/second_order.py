"""Attention kernels that can be differentiated twice."""

from collections.abc import Iterator
from contextlib import contextmanager

from torch.nn.attention import SDPBackend, sdpa_kernel


@contextmanager
def second_order(enabled: bool = True) -> Iterator[None]:
    """Use the plain attention kernel inside the block; the fused kernels cannot be differentiated twice."""
    if not enabled:
        yield
        return
    with sdpa_kernel(SDPBackend.MATH):
        yield
