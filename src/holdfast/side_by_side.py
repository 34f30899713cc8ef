"""Chunks of a batch in threads of their own, one chunk a thread.

Two chunks that each run on one thread are done 7 to 15 % earlier than the same two one after the other on two
threads: small operations do not divide well, and between them somebody always waits. PyTorch lets go of the
interpreter while it computes, so Python's own threads are enough.

A network that keeps something between two lines of its `forward` must not run twice at the same time. Only networks
made of PyTorch's and our own layers are known not to; all others work chunk after chunk, as do those on a GPU.
"""

import threading
from collections.abc import Callable
from concurrent.futures import wait
from contextlib import ExitStack
from typing import TypeVar

import torch
from torch import Tensor, nn
from torch.overrides import _get_current_function_mode_stack
from torch.utils._python_dispatch import _get_current_dispatch_mode_stack

from holdfast.meter import metered, spend
from holdfast.pools import lasting_pool
from holdfast.types import Model

Result = TypeVar("Result")

MOST = 4
"""Chunks at the same time; the threads of a larger machine are divided among them."""

WORTH_A_THREAD = 2**16
"""Entries of the input in one chunk; with less, one chunk on all threads is done earlier."""

WORKER = "holdfast-chunk"
"""What the names of our threads begin with."""

NEVER_TWICE_THE_SAME = (nn.FractionalMaxPool2d, nn.FractionalMaxPool3d)
DIFFERENT_IN_TRAINING = (
    nn.utils.parametrizations._SpectralNorm,
    nn.modules.batchnorm._NormBase,
    nn.modules.dropout._DropoutNd,
    nn.MultiheadAttention,
    nn.RNNBase,
    nn.RReLU,
)
"""Layers that mix the examples of a batch, or draw random numbers, in training mode."""


def map_chunks(
    model: Model, like: Tensor, total: int, most: int, work: Callable[[slice], Result], *, points: int = 1
) -> list[Result]:
    """`work` on consecutive slices of at most `most` out of `total` examples, in their order.

    `like` is a batch of images that tells the device and the size of an example, each of which goes through the
    network at `points` points. The slices are of equal size, so that no thread waits long for another.
    """
    ways = _ways(model, like, total, points)
    if ways == 1:
        return [work(part) for part in slices(total, most)]
    chunks = -(-total // (most * ways)) * ways
    parts = slices(total, -(-total // chunks))
    grad, modes, threads = torch.is_grad_enabled(), _get_current_function_mode_stack(), torch.get_num_threads()

    def alone(part: slice) -> tuple[Result, int]:
        with ExitStack() as stack:  # what PyTorch remembers for each thread
            stack.enter_context(torch.set_grad_enabled(grad))
            for mode in modes:
                stack.enter_context(mode)
            meter = stack.enter_context(metered())
            return work(part), meter.passes

    pool = lasting_pool(WORKER, ways, _settle, threads // ways)
    futures = [pool.submit(alone, part) for part in parts]
    try:
        found = [future.result() for future in futures]
    finally:  # after an error or Ctrl-C nobody may still be at work when the network's modes are put back
        for future in futures:
            future.cancel()
        wait(futures)
        torch.set_num_threads(threads)  # a new thread that sets its own number also sets it for threads yet to come
    spend(sum(passes for _, passes in found), 1)
    return [result for result, _ in found]


def slices(total: int, size: int) -> list[slice]:
    """Consecutive slices of at most `size` that cover `total`."""
    return [slice(start, min(start + size, total)) for start in range(0, total, size)]


def may_share(model: Model, like: Tensor) -> bool:
    """Whether the chunks of a batch are independent of each other, and may go through the network at the same time."""
    own_rules = (
        like.device.type != "cpu"
        or torch.is_autocast_enabled("cpu")
        or torch.is_inference_mode_enabled()
        or torch.compiler.is_compiling()
        or bool(_get_current_dispatch_mode_stack())
    )
    return not own_rules and isinstance(model, nn.Module) and all(map(_keeps_nothing, model.modules()))


def _ways(model: Model, like: Tensor, total: int, points: int) -> int:
    """How many chunks may and should run at the same time."""
    if threading.current_thread().name.startswith(WORKER):  # a worker that waited for its own pool would wait forever
        return 1
    ways = min(torch.get_num_threads(), MOST, total, total * points * like[:1].numel() // WORTH_A_THREAD)
    return ways if ways > 1 and may_share(model, like) else 1


def _keeps_nothing(layer: nn.Module) -> bool:
    """Whether a layer is known to be a function of each example alone, without hooks."""
    hooks = (layer._forward_hooks, layer._forward_pre_hooks, layer._backward_hooks, layer._backward_pre_hooks)
    return (
        type(layer).__module__.startswith(("torch.nn.", "holdfast."))
        and not isinstance(layer, NEVER_TWICE_THE_SAME)
        and not (layer.training and isinstance(layer, DIFFERENT_IN_TRAINING))
        and not any(hooks)
    )


def _settle(threads: int) -> None:
    torch.get_num_threads()  # the first question sets a new thread to the number of the process: ask before setting
    torch.set_num_threads(threads)
