"""One job of a Slurm cluster: what it asks for, what the node executes, and what is known of it here."""

import os
import signal
import sys
from dataclasses import dataclass, field
from typing import Any

from holdfast.errors import expected
from holdfast.experiment.jobs import Job, run_job
from holdfast.experiment.slurm_queue import NAME, JobState

SAVE_SECONDS = 120
"""Seconds before its time limit at which a job is told to save and stop; less if the limit is short."""


@dataclass(frozen=True, kw_only=True)
class SlurmSettings:
    """What every job asks Slurm for; only with --launcher submitit."""

    partition: str | None = None
    """Partition (queue); by default that of the cluster."""
    account: str | None = None
    """Account to charge; by default that of the user."""
    gpus: int = 0
    """Number of GPUs per run. With several, a run has one process per GPU, each with --workers cores."""
    hours: float = 24.0
    """Time limit per job. A run that takes longer is sent again and resumes."""
    memory: float | None = None
    """Memory per run in GB; by default as the cluster decides."""

    @property
    def processes(self) -> int:
        """Number of processes per run."""
        return max(1, self.gpus)

    def parameters(self, cores: int) -> dict[str, Any]:
        """The parameters of `submitit.SlurmExecutor`."""
        if not self.hours > 0:
            raise expected("--slurm.hours > 0", got=self.hours)
        if self.gpus < 0:
            raise expected("--slurm.gpus >= 0", got=self.gpus)
        minutes = max(1, round(60 * self.hours))
        wanted = {
            "job_name": NAME,
            "partition": self.partition,
            "account": self.account,
            "time": minutes,
            "cpus_per_task": cores,
            "gpus_per_node": self.gpus or None,
            "ntasks_per_node": self.processes,
            "mem": None if self.memory is None else f"{round(1024 * self.memory)}M",
            "signal_delay_s": min(SAVE_SECONDS, 15 * minutes),
            # A login node has other cores than a job; srun no longer takes the number of cores from sbatch.
            "setup": [f"export OMP_NUM_THREADS={cores} SRUN_CPUS_PER_TASK={cores}", "unset MKL_NUM_THREADS"],
        }
        return {name: value for name, value in wanted.items() if value is not None}


def run_on_node(job: Job, threads: int) -> str:
    """What a node executes, once per process of the run.

    If it is told to stop, or another process is lost, it leaves no result, so that Slurm's state says why it ended.
    """
    from submitit.helpers import TorchDistributedEnvironment

    from holdfast.training import Interrupted, LostProcessError

    if int(os.environ.get("SLURM_NTASKS", "1")) > 1:
        TorchDistributedEnvironment().export(set_cuda_visible_devices=False, overwrite=True)
    for number in (signal.SIGTERM, signal.SIGUSR2):  # training saves first; the rows of an evaluation are on disk
        signal.signal(number, lambda *_: sys.exit(130))
    try:
        return str(run_job(job, threads))
    except (Interrupted, LostProcessError) as stop:
        print(f"holdfast: {stop}", file=sys.stderr)
        sys.exit(130)


@dataclass
class SentJob:
    """A job in Slurm: its id there, what was done before it was sent, and how often it ended early in vain."""

    job: Job
    handle: Any
    before: tuple[int, ...]
    in_vain: int = 0
    state: JobState = field(default_factory=lambda: JobState("PENDING", reason="None"))
    looks_over: int = 0

    @property
    def id(self) -> str:
        return str(self.handle.job_id)

    @property
    def error(self) -> str:
        """The last line of the traceback of a process that raised an error; empty if none has."""
        for task in map(self.handle.task, range(self.handle.num_tasks)):
            if task.paths.result_pickle.exists() and (error := task.exception()):
                trace = str(error).split("-" * 22)[1:2] or [str(error)]  # submitit's message has it between two lines
                return trace[0].strip().splitlines()[-1]
        return ""

    @property
    def ended(self) -> bool:
        """Whether the run has a result, which is not the case if it was told to stop."""
        return bool(self.handle.task(0).paths.result_pickle.exists())
