"""Run jobs on a Slurm cluster: send them as an array, watch them, send those that ended early again.

A job that is cancelled, killed, preempted or out of time goes on from its checkpoint and its rows when it is sent
again. A job that raises an error is not. Whether a run is finished is read from its run directory, never from Slurm.
"""

import contextlib
import io
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from holdfast.errors import HoldfastError, expected
from holdfast.experiment.jobs import Job, unfinished, work_done
from holdfast.experiment.slurm_job import SentJob, SlurmSettings, run_on_node
from holdfast.experiment.slurm_queue import JobState, check_slurm, has_accounting, job_states, why_ended
from holdfast.storage.json_files import read_json, write_json_atomic

MOST_IN_VAIN = 3
"""Times a job may end early without having got any further; one more and it counts as failed."""

LONGEST_PAUSE = 30.0
"""Most seconds between two questions to Slurm. In the first minutes they are closer together."""

SENT = "sent.json"
"""File that remembers the Slurm job of each run directory, for a command that is started again."""


def run_slurm(
    jobs: Sequence[Job],
    *,
    cores: int,
    logs: Path,
    settings: SlurmSettings | None = None,
    watch: Callable[[], None] = lambda: None,
    tell: Callable[[str], None] = lambda text: None,
) -> list[Path]:
    """Run all unfinished jobs on a Slurm cluster, wait for them, and call `watch` about once per second.

    `logs` is the folder for submitit's files and the logs of the jobs; it must be visible to all nodes. `tell` gets a
    sentence whenever something happens to a job. One failed job does not stop the others; at the end, HoldfastError
    names all failed ones with their logs. Ctrl-C stops the waiting, not the jobs.
    """
    todo = unfinished(jobs)
    if todo:
        cluster = _Cluster(cores=cores, logs=logs, settings=settings or SlurmSettings(), tell=tell)
        try:
            cluster.run(todo, watch)
        except KeyboardInterrupt:
            raise _stopped_waiting(cluster.waiting) from None
    return [job.folder for job in jobs]


@dataclass(kw_only=True)
class _Cluster:
    cores: int
    logs: Path
    settings: SlurmSettings
    tell: Callable[[str], None]
    waiting: list[SentJob] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        try:
            import submitit
        except ImportError as error:
            raise expected("the package submitit", got="none", fix="pip install 'holdfast[slurm]'") from error
        check_slurm()
        self.logs = self.logs.resolve()
        self.executor = submitit.SlurmExecutor(folder=self.logs)
        self.executor.update_parameters(**self.settings.parameters(self.cores))
        if not has_accounting():
            self.tell(
                "warning: this Slurm keeps no accounting; if it forgets a job before this command has seen its end, "
                "the reason why the job ended is not known. The run is sent again."
            )

    def run(self, todo: Sequence[Job], watch: Callable[[], None]) -> None:
        self.waiting = self._still_there(todo)
        known = {sent.job.folder for sent in self.waiting}
        fresh = [SentJob(job, None, work_done(job)) for job in todo if job.folder not in known]
        self._send(fresh)
        started = asked = time.monotonic()
        while self.waiting:
            time.sleep(1)
            watch()
            now = time.monotonic()
            if now - asked >= min(LONGEST_PAUSE, max(2.0, (now - started) / 10)):
                asked = now
                self._look(job_states())
            self._collect()
        if self.failed:
            raise HoldfastError(f"expected every run to finish, got {'; '.join(self.failed)}.")

    def _still_there(self, todo: Sequence[Job]) -> list[SentJob]:
        """Jobs that an earlier call sent and that Slurm still has."""
        import submitit

        sent, states = self._remembered(), job_states() or {}
        found = []
        for job in todo:
            state = states.get(sent.get(str(job.folder.resolve()), ""))
            if state is not None and not state.over:
                tasks = range(self.settings.processes)
                handle = submitit.SlurmJob(folder=self.logs, job_id=sent[str(job.folder.resolve())], tasks=tasks)
                found.append(SentJob(job, handle, work_done(job)))
                self.tell(f"{job.label}: still in Slurm as job {handle.job_id}")
        return found

    def _remembered(self) -> dict[str, str]:
        file = self.logs / SENT
        return dict(read_json(file)) if file.exists() else {}

    def _send(self, some: list[SentJob]) -> None:
        import submitit

        if not some:
            return
        self.logs.mkdir(parents=True, exist_ok=True)
        try:
            with contextlib.redirect_stderr(io.StringIO()):  # submitit prints what sbatch says, and raises it
                handles = self.executor.map_array(run_on_node, [s.job for s in some], [self.cores] * len(some))
        except submitit.core.utils.FailedJobError as error:
            fix = "check --slurm.partition, --slurm.account, --slurm.gpus, --slurm.memory, --slurm.hours and --workers"
            raise expected("Slurm to accept the jobs", got=" ".join(str(error).split()), fix=fix) from error
        for sent, handle in zip(some, handles, strict=True):
            sent.handle, sent.before, sent.looks_over = handle, work_done(sent.job), 0
            sent.state = JobState("PENDING", reason="None")
        self.waiting += some
        folders = {str(sent.job.folder.resolve()): sent.id for sent in some}
        write_json_atomic(self.logs / SENT, self._remembered() | folders)
        if len(some) > 1:
            self.tell(f"sent {len(some)} runs to Slurm as job {some[0].id.split('_')[0]}; logs in {self.logs}")
        else:
            self.tell(f"{some[0].job.label}: sent to Slurm as job {some[0].id}; log: {some[0].handle.paths.stderr}")

    def _look(self, states: dict[str, JobState] | None) -> None:
        """Note the states. If Slurm does not answer, nothing changes."""
        if states is None:
            return
        for sent in self.waiting:
            state = states.get(sent.id) or why_ended(sent.id)
            if str(state) != str(sent.state) and not state.over:
                self.tell(f"{sent.job.label}: {state} as job {sent.id}")
            sent.state, sent.looks_over = state, sent.looks_over + 1 if state.over else 0

    def _collect(self) -> None:
        """Take finished and failed jobs out of the list; send those that ended early again."""
        early = []
        for sent in list(self.waiting):
            if error := sent.error:
                self.waiting.remove(sent)
                self._fail(sent, error)
            elif sent.ended or (sent.looks_over and sent.job.finished):
                self.waiting.remove(sent)
                if not sent.job.finished:
                    self._fail(sent, "it ended without a result")
            elif sent.looks_over >= 2:  # a result may reach this machine later than the news that the job is over
                self.waiting.remove(sent)
                sent.in_vain = sent.in_vain + 1 if work_done(sent.job) == sent.before else 0
                if sent.in_vain > MOST_IN_VAIN:
                    self._fail(sent, f"it {sent.state}, {sent.in_vain} times in a row without getting any further")
                else:
                    self.tell(f"{sent.job.label}: job {sent.id} {sent.state}; it is sent again and resumes")
                    early.append(sent)
        self._send(early)

    def _fail(self, sent: SentJob, why: str) -> None:
        self.failed.append(f"{sent.job.label} (job {sent.id}): {why.rstrip('.')}, see {sent.handle.paths.stderr}")
        self.tell(f"failed: {self.failed[-1]}")


def _stopped_waiting(waiting: Sequence[SentJob]) -> Exception:
    from holdfast.training import Interrupted

    ids = " ".join(sorted({sent.id.split("_")[0] for sent in waiting}))
    message = f"stopped waiting; {len(waiting)} runs go on in Slurm (scancel {ids} ends them)"
    return Interrupted(f"{message}; run the same command again to wait for them", signal="SIGINT")
