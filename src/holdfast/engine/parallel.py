"""Chunks of a batch in threads, one chunk per thread.

Two chunks that each run on one thread finish 7 to 15 % earlier than the same two one after the other on two threads:
small operations do not divide well, and between them a thread always waits. PyTorch releases the interpreter while it
computes, so Python's own threads are enough.

A network that keeps something between two lines of its `forward` must not run twice at the same time. Only networks
made of PyTorch's and our own layers are known not to; all others run chunk after chunk, as do those on a GPU. So does
everything on a version of PyTorch that lacks the private names this module needs.
"""

import threading
from collections.abc import Callable
from concurrent.futures import wait
from contextlib import ExitStack
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from holdfast.engine.passes import add_passes, count_passes
from holdfast.engine.threads import shared_pool
from holdfast.types import Model

Result = TypeVar("Result")
ModeStack = Callable[[], list[Any]]

MAX_THREADS = 4
"""Chunks at the same time; the threads of a larger machine are divided among them."""

WORTH_A_THREAD = 2**16
"""Entries of the input in one chunk; with less, one chunk on all threads is faster."""

WORKER = "holdfast-chunk"
"""What the names of our threads begin with."""

RANDOM_LAYERS = (nn.FractionalMaxPool2d, nn.FractionalMaxPool3d)
_HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")


def _private_names() -> tuple[ModeStack, ModeStack, tuple[type, ...]] | None:
    """The stacks of function and dispatch modes, and the layers that mix examples or draw numbers in training mode.

    These are private to PyTorch. None where one of them is missing: then nothing runs in parallel.
    """
    try:
        from torch.overrides import _get_current_function_mode_stack
        from torch.utils._python_dispatch import _get_current_dispatch_mode_stack

        layers = (
            nn.utils.parametrizations._SpectralNorm,
            nn.modules.batchnorm._NormBase,
            nn.modules.dropout._DropoutNd,
            nn.MultiheadAttention,
            nn.RNNBase,
            nn.RReLU,
        )
    except (ImportError, AttributeError):
        return None
    return _get_current_function_mode_stack, _get_current_dispatch_mode_stack, layers


_PRIVATE = _private_names()


def map_chunks(
    model: Model, like: Tensor, total: int, most: int, work: Callable[[slice], Result], *, points: int = 1
) -> list[Result]:
    """`work` on consecutive slices of at most `most` out of `total` examples, in their order.

    `like` is a batch of images that tells the device and the size of an example, each of which goes through the
    network at `points` points. The slices are of equal size, so that no thread waits long for another.
    """
    ways = _ways(model, like, total, points)
    if ways == 1 or _PRIVATE is None:
        return list(map(work, slices(total, most)))
    function_modes, _, _ = _PRIVATE
    chunks = -(-total // (most * ways)) * ways
    parts = slices(total, -(-total // chunks))
    grad, modes, threads = torch.is_grad_enabled(), function_modes(), torch.get_num_threads()

    def in_thread(part: slice) -> tuple[Result, int]:
        with ExitStack() as stack:  # settings that PyTorch keeps per thread
            stack.enter_context(torch.set_grad_enabled(grad))
            for mode in modes:
                stack.enter_context(mode)
            counter = stack.enter_context(count_passes())
            return work(part), counter.passes

    pool = shared_pool(WORKER, ways, _set_threads, threads // ways)
    futures = [pool.submit(in_thread, part) for part in parts]
    try:
        found = [future.result() for future in futures]
    finally:  # after an error or Ctrl-C no thread may still be at work when the network's modes are put back
        for future in futures:
            future.cancel()
        wait(futures)
        torch.set_num_threads(threads)  # a new thread that sets its own number also sets it for threads yet to come
    add_passes(sum(passes for _, passes in found), 1)
    return [result for result, _ in found]


def slices(total: int, size: int) -> list[slice]:
    """Consecutive slices of at most `size` that cover `total`."""
    return [slice(start, min(start + size, total)) for start in range(0, total, size)]


def examples_are_independent(model: Model, like: Tensor) -> bool:
    """Whether the chunks of a batch are independent of each other and may go through the network at the same time."""
    if _PRIVATE is None or not isinstance(model, nn.Module):
        return False
    _, dispatch_modes, mixing = _PRIVATE
    special = (
        like.device.type != "cpu"
        or torch.is_autocast_enabled("cpu")
        or torch.is_inference_mode_enabled()
        or torch.compiler.is_compiling()
        or bool(dispatch_modes())
    )
    return not special and all(_is_stateless(layer, mixing) for layer in model.modules())


def _ways(model: Model, like: Tensor, total: int, points: int) -> int:
    """How many chunks may and should run at the same time."""
    if threading.current_thread().name.startswith(WORKER):  # a worker that waited for its own pool would wait forever
        return 1
    ways = min(torch.get_num_threads(), MAX_THREADS, total, total * points * like[:1].numel() // WORTH_A_THREAD)
    return ways if ways > 1 and examples_are_independent(model, like) else 1


def _is_stateless(layer: nn.Module, mixing: tuple[type, ...]) -> bool:
    """Whether a layer is known to be a function of each example alone, without hooks."""
    return (
        type(layer).__module__.startswith(("torch.nn.", "holdfast."))
        and not isinstance(layer, RANDOM_LAYERS)
        and not (layer.training and isinstance(layer, mixing))
        and not any(getattr(layer, name, True) for name in _HOOKS)
    )


def _set_threads(threads: int) -> None:
    torch.get_num_threads()  # the first call sets a new thread to the number of the process: ask before setting
    torch.set_num_threads(threads)
