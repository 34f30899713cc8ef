"""Ctrl-C, SIGTERM and SIGUSR2 as requests that the training loop handles between two steps.

Batch systems send SIGUSR2 before a job's time is up if they are asked to (`sbatch --signal=USR2@120`).
"""

import os
import signal
import threading
from types import FrameType, TracebackType
from typing import Any

from holdfast.errors import HoldfastError

SIGNALS = (signal.SIGINT, signal.SIGTERM, *([signal.SIGUSR2] if hasattr(signal, "SIGUSR2") else []))


class Interrupted(HoldfastError):  # noqa: N818 - not an error
    """A run stopped on request, after `step` steps; `signal` is the name of the signal."""

    def __init__(self, message: str, step: int = 0, signal: str = "") -> None:
        super().__init__(message, step, signal)  # all arguments, so that pickling to another process keeps them
        self.step, self.signal = step, signal

    def __str__(self) -> str:
        return str(self.args[0])


class StopRequest:
    """Inside the block, a signal only sets `asked` to its name; the previous handlers are restored afterwards.

    Outside the main thread, where Python does not allow handlers, signals keep their previous handlers.
    """

    def __init__(self, *, say: bool = True) -> None:
        self.asked = ""
        self._say = say
        self._previous: dict[signal.Signals, Any] = {}

    def __enter__(self) -> "StopRequest":
        if threading.current_thread() is threading.main_thread():
            self._previous = {number: signal.signal(number, self._ask) for number in SIGNALS}
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, signal.SIG_DFL if handler is None else handler)

    def _ask(self, number: int, frame: FrameType | None) -> None:
        if not self.asked and self._say:
            os.write(2, b"\nholdfast: finishing this step, then saving\n")  # print is not safe in a signal handler
        self.asked = self.asked or signal.Signals(number).name
