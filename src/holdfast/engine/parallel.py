"""Chunks of a batch in parallel threads, one chunk per thread.

Two chunks that run in parallel on one thread each finish 7 to 15 % earlier than one after the other on two threads:
small operations do not parallelise well, and threads wait between them. PyTorch releases the GIL while it computes, so
Python threads are enough.

A network that keeps state between two lines of its `forward` must not run twice at the same time. Only networks made of
PyTorch's and holdfast's own layers are known to be safe. All other networks, and networks on a GPU, process one chunk
after the other. So does every network on a version of PyTorch that lacks the private names this module needs.
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
"""Maximum number of chunks at the same time; on a larger machine each chunk uses several threads."""

WORTH_A_THREAD = 2**17
"""Minimum number of input entries per chunk; with fewer, one chunk on all threads is faster."""

WORKER = "holdfast-chunk"
"""Prefix of the names of the worker threads."""

RANDOM_LAYERS = (nn.FractionalMaxPool2d, nn.FractionalMaxPool3d)
_HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")


def _private_names() -> tuple[ModeStack, ModeStack, tuple[type, ...]] | None:
    """The stacks of function and dispatch modes, and the layers that mix examples or use randomness in training mode.

    These are private to PyTorch. Returns None if one of them is missing; then nothing runs in parallel.
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
    """Apply `work` to consecutive slices of at most `most` out of `total` examples; results are in order.

    `like` is a batch of images that provides the device and the size of an example. Each example passes through the
    network at `points` points. The slices have equal size, so that no thread waits long for another.
    """
    ways = _ways(model, like, total, points)
    if ways == 1 or _PRIVATE is None:
        return list(map(work, slices(total, _equal(total, -(-total // most)))))
    function_modes, _, _ = _PRIVATE
    chunks = -(-total // (most * ways)) * ways
    parts = slices(total, _equal(total, chunks))
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
    finally:  # after an error or Ctrl-C no thread may still be running when the network's modes are restored
        for future in futures:
            future.cancel()
        wait(futures)
        torch.set_num_threads(threads)  # setting the number in a new thread also sets it for future threads
    add_passes(sum(passes for _, passes in found), 1)
    return [result for result, _ in found]


def _equal(total: int, chunks: int) -> int:
    """The size of a chunk if `total` examples are divided into that many equal chunks."""
    return -(-total // max(1, chunks)) or 1


def slices(total: int, size: int) -> list[slice]:
    """Consecutive slices of at most `size` that cover `total`."""
    return [slice(start, min(start + size, total)) for start in range(0, total, size)]


def examples_are_independent(model: Model, like: Tensor) -> bool:
    """Whether the chunks of a batch are independent and may pass through the network at the same time."""
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
    """Number of chunks to run at the same time."""
    if threading.current_thread().name.startswith(WORKER):  # a worker that waits for its own pool would deadlock
        return 1
    ways = min(torch.get_num_threads(), MAX_THREADS, total, total * points * like[:1].numel() // WORTH_A_THREAD)
    return ways if ways > 1 and examples_are_independent(model, like) else 1


def _is_stateless(layer: nn.Module, mixing: tuple[type, ...]) -> bool:
    """Whether a layer is known to treat each example independently, and has no hooks."""
    return (
        type(layer).__module__.startswith(("torch.nn.", "holdfast."))
        and not isinstance(layer, RANDOM_LAYERS)
        and not (layer.training and isinstance(layer, mixing))
        and not any(getattr(layer, name, True) for name in _HOOKS)
    )


def _set_threads(threads: int) -> None:
    torch.get_num_threads()  # the first call resets a new thread to the process-wide number, so call it before setting
    torch.set_num_threads(threads)
