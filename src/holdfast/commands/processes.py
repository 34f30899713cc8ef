"""What a command has to know about the processes that `torchrun` started."""

import os


def leads() -> bool:
    """Whether this process prints and writes: the only one, or the one of rank 0."""
    return os.environ.get("RANK", "0") == "0"


def program() -> str:
    """The words before the arguments of this command, to be shown in messages.

    Several hosts have no short form of their command; the options of `torchrun` for one host are shown.
    """
    processes = os.environ.get("LOCAL_WORLD_SIZE", "1")
    return "holdfast" if processes == "1" else f"torchrun --nproc-per-node {processes} -m holdfast"
