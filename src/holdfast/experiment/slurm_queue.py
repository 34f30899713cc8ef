"""What Slurm says about jobs: their state while it knows them, and why they ended.

`squeue` needs no accounting. It also lists ended jobs, for a few minutes (MinJobAge). After that only the accounting
(`sacct`) knows why a job ended.
"""

import shutil
import subprocess
from dataclasses import dataclass

from holdfast.errors import expected

NAME = "holdfast"
"""Name of the jobs in the queue."""

ORDINARY = ("None", "Priority", "Resources", "BeginTime")
"""Reasons for which a job in the queue starts sooner or later without anybody doing anything."""

_ENDED = {
    "BOOT_FAIL": "lost its node",
    "CANCELLED": "was cancelled",
    "COMPLETED": "ended",
    "DEADLINE": "ran out of time",
    "FAILED": "was killed or stopped early",
    "NODE_FAIL": "lost its node",
    "OUT_OF_MEMORY": "ran out of memory",
    "PREEMPTED": "was preempted",
    "REVOKED": "was revoked",
    "TIMEOUT": "ran out of time",
}
"""State of a job that is over -> words."""


@dataclass(frozen=True)
class JobState:
    """State of one job in Slurm's words, the node it runs on, and why it waits."""

    state: str
    node: str = ""
    reason: str = ""

    @property
    def over(self) -> bool:
        """Whether the job has ended and will not start again."""
        return self.state in _ENDED

    def __str__(self) -> str:
        if self.over:
            return _ENDED[self.state]
        if self.state == "PENDING":
            return "queued" if self.reason in ORDINARY else f"queued ({self.reason})"
        return f"{self.state.lower()} on {self.node}" if self.node else self.state.lower()


def check_slurm() -> None:
    """Raise InputError if no Slurm cluster can be reached from here."""
    fix = "run this on a login node, or use --launcher local"
    if not shutil.which("sbatch"):
        raise expected("a Slurm cluster", got="a machine without sbatch", fix=fix)
    done = _ask("sinfo", "--noheader", "--format=%P")
    if done.returncode:
        raise expected("a Slurm cluster that answers", got=_last_line(done.stderr), fix=fix)


def job_states() -> dict[str, JobState] | None:
    """State of every job called `NAME` of this user that Slurm knows, by id; None if Slurm does not answer."""
    done = _ask("squeue", "--me", "--array", "--noheader", "--states=all", f"--name={NAME}", "--format=%i|%T|%N|%r")
    if done.returncode:
        return None
    rows = [line.split("|") for line in done.stdout.splitlines() if line.count("|") == 3]
    return {job: JobState(state, node, reason) for job, state, node, reason in rows}


def why_ended(job_id: str) -> JobState:
    """State of a job that `squeue` no longer lists, from the accounting; COMPLETED if that does not know it either."""
    done = _ask("sacct", "--allocations", "--noheader", "--parsable2", f"--jobs={job_id}", "--format=State")
    state = done.stdout.split()[:1] if not done.returncode else []  # "CANCELLED by 1000" is one of them
    return JobState(state[0] if state else "COMPLETED")


def has_accounting() -> bool:
    """Whether the cluster records jobs beyond their end."""
    done = _ask("scontrol", "show", "config")
    kinds = [
        line.split("=")[1].strip() for line in done.stdout.splitlines() if line.startswith("AccountingStorageType")
    ]
    return not kinds or kinds[0] not in ("accounting_storage/none", "(null)", "")


def _ask(*words: str) -> "subprocess.CompletedProcess[str]":
    try:
        return subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return subprocess.CompletedProcess(words, returncode=1, stdout="", stderr=str(error))


def _last_line(text: str) -> str:
    return (text.strip().splitlines() or ["no answer"])[-1]
