"""Ctrl-C and SIGTERM as a request that the training loop answers between two steps."""

import os
import signal
import threading
from types import FrameType, TracebackType
from typing import Any

from holdfast.errors import HoldfastError

SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Interrupted(HoldfastError):  # noqa: N818 - nothing went wrong
    """A run that was asked to stop and did; `step` steps are done and `signal` says who asked."""

    def __init__(self, message: str, step: int = 0, signal: str = "") -> None:
        super().__init__(message, step, signal)  # all of it, so that it survives the way out of a worker process
        self.step, self.signal = step, signal

    def __str__(self) -> str:
        return str(self.args[0])


class StopRequest:
    """Inside the block a signal only leaves its name in `asked`; the handlers from before are restored after it.

    Outside the main thread, where Python takes no handlers, signals keep their meaning.
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
            os.write(2, b"\nholdfast: finishing this step, then saving\n")  # print is not safe in a handler
        self.asked = self.asked or signal.Signals(number).name
