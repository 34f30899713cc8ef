"""Runs sent to a real Slurm of one node: an array, interruptions of every kind, failures, options, no accounting."""

import os
import re
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.slurm.cluster import Cluster, missing, on_loopback

import holdfast as hf
from holdfast.cli import main
from holdfast.experiment import tables
from holdfast.experiment.jobs import Job, progress_of, work_done
from holdfast.experiment.layout import LOG
from holdfast.experiment.local import run_local
from holdfast.experiment.slurm import MOST_IN_VAIN, run_slurm
from holdfast.experiment.slurm_job import SlurmSettings
from holdfast.runs import read_json
from holdfast.training import Interrupted

pytest.importorskip("submitit", reason="the package submitit is not installed (pip install 'holdfast[slurm]')")
pytestmark = [
    pytest.mark.slurm,
    pytest.mark.skipif(bool(missing()), reason=missing()),
    pytest.mark.timeout(600),
]

STEPS = {"ifia": 2, "ensemble": 1, "pgd": 2, "apgd": 2}
SMALL = tuple((f"evaluate.{attack}.steps", str(steps)) for attack, steps in STEPS.items())
FEW = {"limit": 6, "pgd_limit": 8}
PATIENCE = 400.0

long = pytest.mark.skipif(
    not os.environ.get("HOLDFAST_LONG"), reason="minutes of a real Slurm: HOLDFAST_LONG=1 (make test-long) runs it"
)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with Cluster(tmp_path_factory.mktemp("slurm")) as found:
        yield found


@pytest.fixture
def on(monkeypatch: pytest.MonkeyPatch) -> Callable[[Cluster], None]:
    """Make a cluster known to this process and to the jobs."""

    def use(cluster: Cluster) -> None:
        for name in ("PATH", "SLURM_CONF"):
            monkeypatch.setenv(name, cluster.environment[name])
        monkeypatch.setenv("PYTHONPATH", os.pathsep.join(["src", ".", os.environ.get("PYTHONPATH", "")]))

    return use


def job(folder: Path, method: str = "madry", steps: int = 10, **more: Any) -> Job:
    changes = (("train.steps", str(steps)), ("train.log_every", "1"), *SMALL, *more.pop("changes", ()))
    return Job(preset=f"digits/{method}:cpu", folder=folder, changes=changes, options=FEW, **more)


class Sending:
    """`run_slurm` in a thread: what it told, and how it ended. `stop` is Ctrl-C."""

    def __init__(self, jobs: list[Job], logs: Path, **options: Any) -> None:
        self.told: list[str] = []
        self.looks = 0
        self.error: BaseException | None = None
        self._stop = False
        self._arguments = {"logs": logs, "cores": 1, "tell": self.told.append, "watch": self._watch, **options}
        self._jobs = jobs
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _watch(self) -> None:
        self.looks += 1
        if self._stop:
            raise KeyboardInterrupt

    def _run(self) -> None:
        try:
            run_slurm(self._jobs, **self._arguments)
        except BaseException as error:
            self.error = error

    def end(self) -> str:
        self._thread.join(PATIENCE)
        assert not self._thread.is_alive(), f"it hangs: {self.told}"
        return "\n".join(self.told)

    def stop(self) -> str:
        self._stop = True
        return self.end()

    def until(self, true: Callable[[], object]) -> None:
        deadline = time.monotonic() + PATIENCE
        while not true():
            assert self._thread.is_alive(), f"it ended: {self.told} {self.error!r}"
            assert time.monotonic() < deadline, f"waited in vain: {self.told}"
            time.sleep(0.1)

    def job_id(self) -> str:
        return re.findall(r" as job (\S+?)[;,]", "\n".join(self.told) + ";")[-1]


def same_result(one: Path, two: Path) -> bool:
    return all(
        (one / name).read_bytes() == (two / name).read_bytes() for name in ("weights.safetensors", "examples.csv")
    )


def test_reproduce_sends_an_array(cluster: Cluster, on, tmp_path: Path, monkeypatch, capsys) -> None:
    on(cluster)
    original = tables.PaperTable._job
    small = (("train.steps", "12"), *SMALL)
    monkeypatch.setattr(tables.PaperTable, "_job", lambda *a: replace(original(*a), changes=small))
    words = ["reproduce", "digits", "--methods", "natural", "madry", "--limit", "6", "--pgd-limit", "8"]
    slurm = ["--slurm.partition", "other", "--slurm.account", "lab", "--slurm.gpus", "1", "--slurm.hours", "0.5"]
    options = ["--launcher", "submitit", *slurm, "--slurm.memory", "0.5", "--out", str(tmp_path / "there")]
    assert main([*words, *options]) == 0
    said = capsys.readouterr().out
    array = re.search(r"sent 2 runs to Slurm as job (\d+)", said)
    assert array is not None, said
    for line in ("digits/madry:cpu: running on", "digits/madry:cpu: done", "Results on digits"):
        assert line in said
    asked = cluster.run("squeue", "-h", "-r", "-t", "all", "-j", array[1], "-o", "%K %P %a %b %l %m %j")
    rows = sorted(line.split() for line in asked.splitlines())
    assert rows == [[task, "other", "lab", "gres:gpu:1", "30:00", "512M", "holdfast"] for task in ("0", "1")]
    assert main([*words, "--out", str(tmp_path / "here")]) == 0
    for method in ("natural", "madry"):
        assert same_result(tmp_path / "there" / "digits" / method, tmp_path / "here" / "digits" / method)
    assert list((tmp_path / "there" / "submitit").glob("*_log.err"))


@pytest.mark.skipif(not on_loopback(), reason="the name of this machine is not that of 127.0.0.1")
def test_the_daemons_listen_on_loopback_only(cluster: Cluster) -> None:
    conf = "".join((cluster.folder / name).read_text() for name in ("slurm.conf", "slurmdbd.conf"))
    ports = {int(port) for port in re.findall(r"^(?:Slurmctld|Slurmd|Dbd)Port=(\d+)", conf, re.MULTILINE)}
    rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    listening = [row[1].split(":") for row in rows if row[3] == "0A"]
    found = {int(port, 16): address for address, port in listening if int(port, 16) in ports}
    assert found == dict.fromkeys(ports, "0100007F")  # 127.0.0.1 with its bytes reversed
    assert len(ports) == 3


def cancel(cluster: Cluster, sending: Sending, folder: Path) -> None:
    cluster.run("scancel", sending.job_id())


def kill(cluster: Cluster, sending: Sending, folder: Path) -> None:
    os.kill(int((folder / "lock.owner").read_text().split()[0]), signal.SIGKILL)


@pytest.mark.parametrize(
    ("end", "words"), [(cancel, "was cancelled"), pytest.param(kill, "was killed or stopped early", marks=long)]
)
def test_a_job_that_ends_early_is_sent_again_and_resumes(
    cluster: Cluster, on, tmp_path: Path, end: Callable[..., None], words: str
) -> None:
    on(cluster)
    sent = job(tmp_path / "run", steps=60, changes=[("train.checkpoint_every", "1")])
    sending = Sending([sent], tmp_path / "submitit")
    sending.until(lambda: work_done(sent)[0] >= 3)
    end(cluster, sending, sent.folder)
    told = sending.end()
    assert sending.error is None
    assert re.search(rf"digits/madry:cpu: job \d+ {words}; it is sent again and resumes", told)
    assert len(read_json(sent.folder / "provenance.json")["resumed"]) == 1
    assert sending.looks > 3
    alone = replace(sent, folder=tmp_path / "alone")
    run_local([alone], workers=1)
    assert same_result(sent.folder, alone.folder)
    assert {path.name for path in tmp_path.iterdir()} == {"run", "alone", "submitit"}
    assert not (sent.folder / "submitit").exists()


@long
def test_a_job_out_of_time_saves_and_is_sent_again(cluster: Cluster, on, tmp_path: Path) -> None:
    on(cluster)
    sent = job(tmp_path / "run", "natural", steps=10**6)
    sending = Sending([sent], tmp_path / "submitit", settings=SlurmSettings(hours=1 / 60))
    # it saves because it is told before its time is up: no checkpoint is due. On a busy machine the first job may end
    # before its first step.
    sending.until(lambda: any("sent again" in line for line in sending.told) and work_done(sent)[0])
    saved = work_done(sent)[0]
    before = (sent.folder / LOG).read_bytes()
    sending.until(lambda: progress_of(sent, 1).steps_done > saved + 5 and work_done(sent)[0] >= saved)
    told = sending.stop()
    assert "ran out of time" in told or "stopped early" in told
    logged = (sent.folder / LOG).read_bytes()
    assert logged.startswith(before)
    steps = [int(step) for step in re.findall(rb'"step": ?(\d+)', logged)]
    assert steps == list(range(steps[0], steps[0] + len(steps)))  # no step was repeated or left out
    assert isinstance(sending.error, Interrupted)
    assert f"scancel {sending.job_id()} ends them" in str(sending.error)
    cluster.run("scancel", sending.job_id())


@long
def test_the_same_command_waits_for_jobs_that_are_still_there(cluster: Cluster, on, tmp_path: Path) -> None:
    on(cluster)
    sent = job(tmp_path / "run", steps=50)
    first = Sending([sent], tmp_path / "submitit")
    first.until(lambda: progress_of(sent, 1).steps_done)
    first.stop()
    assert isinstance(first.error, Interrupted)
    second = Sending([sent], tmp_path / "submitit")
    told = second.end()
    assert f"digits/madry:cpu: still in Slurm as job {first.job_id()}" in told
    assert "sent" not in told
    assert second.error is None
    assert sent.finished


def test_a_failing_job_is_named_with_its_log_and_stops_no_other(cluster: Cluster, on, tmp_path: Path) -> None:
    on(cluster)
    broken = job(tmp_path / "broken", changes=[("train.init", "nowhere.safetensors")])
    whole = job(tmp_path / "whole", "natural", seed=1)
    with pytest.raises(hf.HoldfastError) as failure:
        run_slurm([broken, whole], cores=1, logs=tmp_path / "submitit")
    assert whole.finished
    found = re.search(r"digits/madry:cpu \(job \S+\): (.*), see (\S+)\.$", str(failure.value))
    assert found is not None, str(failure.value)
    assert "expected initial weights" in found[1]
    assert "nowhere.safetensors" in Path(found[2]).read_text()


@long
def test_a_job_that_never_gets_any_further_is_given_up(cluster: Cluster, on, tmp_path: Path) -> None:
    on(cluster)
    sent = job(tmp_path / "run", steps=10**6)
    sending = Sending([sent], tmp_path / "submitit")
    for number in range(1 + MOST_IN_VAIN):
        sending.until(lambda n=number: sum("running on" in line or "sent to" in line for line in sending.told) > n)
        sending.until(lambda: "RUNNING" in cluster.run("squeue", "-h", "-j", sending.job_id(), "-o", "%T", check=False))
        cluster.run("scancel", "--signal=KILL", sending.job_id())
        count = len(sending.told)
        if number < MOST_IN_VAIN:
            sending.until(lambda c=count: any("sent to Slurm" in line for line in sending.told[c:]))
    sending.end()
    assert isinstance(sending.error, hf.HoldfastError)
    assert f"{1 + MOST_IN_VAIN} times in a row without getting any further" in str(sending.error)


@long
def test_threads_and_memory_reach_the_job(cluster: Cluster, on, tmp_path: Path) -> None:
    on(cluster)
    sent = job(tmp_path / "run", "natural", steps=1, measured=False)
    run_slurm([sent], cores=2, logs=tmp_path / "submitit")
    assert read_json(sent.folder / "provenance.json")["threads"] == 2


def test_a_run_with_two_gpus_has_two_processes(cluster: Cluster, on, tmp_path: Path) -> None:
    on(cluster)
    sent = job(tmp_path / "run", steps=4, changes=[("evaluate.batch_size", "2")])
    run_slurm([sent], cores=1, logs=tmp_path / "submitit", settings=SlurmSettings(gpus=2))
    logs = [path.read_text() for path in (tmp_path / "submitit").glob("*_log.out")]
    assert sorted(re.search(r"global_rank=(\d)\(2\)", log)[1] for log in logs) == ["0", "1"]  # type: ignore[index]
    alone = replace(sent, folder=tmp_path / "alone")
    shutil.copytree(sent.folder, alone.folder, ignore=shutil.ignore_patterns("*.csv", "measured.json", "summary.json"))
    run_local([alone], workers=1)
    assert same_result(sent.folder, alone.folder)  # the rows of two processes equal those of one


def test_what_slurm_refuses_is_said(cluster: Cluster, on, tmp_path: Path) -> None:
    on(cluster)
    with pytest.raises(hf.InputError, match=r"Slurm to accept the jobs, got .*invalid partition.*--slurm\.partition"):
        run_slurm([job(tmp_path / "run")], cores=1, logs=tmp_path / "logs", settings=SlurmSettings(partition="none"))


@long
def test_without_accounting_there_is_a_warning_and_no_hang(on, tmp_path: Path) -> None:
    with Cluster(tmp_path / "cluster", accounting=False) as bare:
        on(bare)
        sent = job(tmp_path / "run", steps=60, changes=[("train.checkpoint_every", "1")])
        sending = Sending([sent], tmp_path / "submitit")
        sending.until(lambda: work_done(sent)[0] >= 3)
        bare.run("scancel", sending.job_id())
        told = sending.end()
    assert "warning: this Slurm keeps no accounting" in told
    assert "was cancelled; it is sent again and resumes" in told
    assert sending.error is None
    assert sent.finished


def test_a_cluster_that_does_not_answer(cluster: Cluster, on, tmp_path: Path, monkeypatch) -> None:
    on(cluster)
    gone = tmp_path / "slurm.conf"
    gone.write_text("ClusterName=gone\nSlurmctldHost=nowhere(127.0.0.1)\nSlurmctldPort=1\nNodeName=nowhere\n")
    monkeypatch.setenv("SLURM_CONF", str(gone))
    with pytest.raises(hf.InputError, match="a Slurm cluster that answers"):
        run_slurm([job(tmp_path / "run")], cores=1, logs=tmp_path / "logs")


def test_the_script_starts_and_stops_a_cluster(tmp_path: Path) -> None:
    import sys

    words = [sys.executable, "-m", "tests.slurm.cluster", str(tmp_path / "c"), "--no-accounting"]
    environment = {**os.environ, "PYTHONPATH": "."}
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True, env=environment) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line == f"export SLURM_CONF={tmp_path / 'c' / 'slurm.conf'}\n"
        conf = line.strip().partition("=")[2]
        answer = subprocess.run(["sinfo", "-h"], env={**os.environ, "SLURM_CONF": conf}, capture_output=True, text=True)
        assert "idle" in answer.stdout
        pids = [int((tmp_path / "c" / f"{name}.pid").read_text()) for name in ("slurmctld", "slurmd")]
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)
