"""A real Slurm of one node on this machine: its daemons run on loopback, keep all files in one scratch folder, and end.

    PYTHONPATH=. python -m tests.slurm.cluster FOLDER

starts it, prints the line that makes it known to a shell (`export SLURM_CONF=...`) and stops it on Ctrl-C. It needs
root, and Debian's packages slurm-wlm and munge; with accounting also slurmdbd and mariadb-server.

Slurm can only be bound to the address of the machine's own name. Where that is not 127.0.0.1, the daemons listen on all
addresses; without the key of this cluster's munge they take no message.
"""

import ctypes
import getpass
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

NAME = "holdfast-test"
DAEMONS = ("munged", "slurmctld", "slurmd")
ACCOUNTING = ("slurmdbd", "mariadbd", "mariadb-install-db", "mariadb")
PLACES = os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin", "/usr/local/sbin"])

SLURM_CONF = """
ClusterName={name}
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={ctld}
SlurmdPort={slurmd}
{addresses}
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge/munge.sock,cred_expire=5
CryptoType=crypto/munge
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
MpiDefault=none
MailProg=/bin/true
JobAcctGatherType=jobacct_gather/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
ReturnToService=2
KillWait=5
MinJobAge=60
InactiveLimit=0
SchedulerParameters=sched_interval=1,batch_sched_delay=0
GresTypes=gpu
NodeName={host} NodeAddr=127.0.0.1 Sockets=1 CoresPerSocket={cores} ThreadsPerCore=1 RealMemory=2000 Gres=gpu:2
PartitionName=main Nodes={host} Default=YES MaxTime=INFINITE State=UP OverSubscribe=NO
PartitionName=other Nodes={host} Default=NO MaxTime=INFINITE State=UP OverSubscribe=NO
{accounting}
"""

WITH_ACCOUNTING = """
AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageHost=127.0.0.1
AccountingStoragePort={dbd}
AccountingStoragePass={folder}/munge/munge.sock
"""

SLURMDBD_CONF = """
AuthType=auth/munge
AuthInfo=socket={folder}/munge/munge.sock
DbdHost=localhost
DbdAddr=127.0.0.1
DbdPort={dbd}
{addresses}
SlurmUser=root
StorageType=accounting_storage/mysql
StorageUser=root
StorageLoc=slurm_acct_db
PidFile={folder}/slurmdbd.pid
"""


LOOPBACK_ONLY = "CommunicationParameters=NoCtldInAddrAny,NoInAddrAny"


def on_loopback() -> bool:
    """Whether the name of this machine is that of 127.0.0.1."""
    try:
        return socket.gethostbyname(socket.gethostname()) == "127.0.0.1"
    except OSError:
        return False


def missing(accounting: bool = True) -> str:
    """What is missing on this machine to start a cluster; empty if it can be started."""
    absent = [name for name in (*DAEMONS, *(ACCOUNTING if accounting else ())) if not shutil.which(name, path=PLACES)]
    if absent:
        return f"{', '.join(absent)} not installed (Debian: slurm-wlm munge slurmdbd mariadb-server)"
    return "" if os.geteuid() == 0 else "a Slurm on one machine is started as root"


class Cluster:
    """The daemons of one Slurm; `environment` is what a process needs to use it."""

    def __init__(self, folder: Path, *, accounting: bool = True, cores: int = 2) -> None:
        self.folder, self.accounting, self.cores = folder, accounting, cores
        self.host = socket.gethostname().partition(".")[0]
        self.environment = {**os.environ, "PATH": PLACES, "SLURM_CONF": str(folder / "slurm.conf")}
        self._daemons: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> "Cluster":
        try:
            self.start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> None:
        """Start the daemons and wait until the node takes jobs."""
        self._write()
        self._munge()
        if self.accounting:
            self._database()
        conf = str(self.folder / "slurm.conf")
        self._daemon("slurmctld", "-D", "-c", "-f", conf)
        self._daemon("slurmd", "-D", "-f", conf, "-N", self.host)
        self._until("the node is idle", lambda: "idle" in self.run("sinfo", "-h", "-o", "%t", check=False))

    def stop(self) -> None:
        """Cancel all jobs, then end the daemons by their pids, the last one first."""
        if len(self._daemons) > 2:
            self.run("scancel", "--full", "--signal=KILL", f"--user={getpass.getuser()}", check=False)
            self.run("scancel", f"--user={getpass.getuser()}", check=False)
        for daemon in reversed(self._daemons):
            daemon.send_signal(signal.SIGTERM)
            try:
                daemon.wait(20)
            except subprocess.TimeoutExpired:
                daemon.kill()
                daemon.wait()
        self._daemons.clear()

    def run(self, *words: str, check: bool = True, timeout: float = 60) -> str:
        """What one of Slurm's commands prints."""
        options = {"env": self.environment, "capture_output": True, "text": True, "timeout": timeout}
        done = subprocess.run(words, check=False, **options)  # type: ignore[call-overload]
        if check and done.returncode:
            raise RuntimeError(f"{' '.join(words)}: {done.stderr.strip()}")
        return str(done.stdout)

    def _write(self) -> None:
        for name in ("munge", "state", "spool", "db"):
            (self.folder / name).mkdir(parents=True, exist_ok=True)
        (self.folder / "munge").chmod(0o711)
        key = self.folder / "munge" / "munge.key"
        key.write_bytes(os.urandom(128))
        key.chmod(0o400)
        words = {"name": NAME, "host": self.host, "folder": self.folder, "cores": self.cores}
        words["addresses"] = LOOPBACK_ONLY if on_loopback() else ""
        words |= dict(zip(("ctld", "slurmd", "dbd"), map(str, _free_ports(3)), strict=True))
        accounting = WITH_ACCOUNTING.format(**words) if self.accounting else ""
        (self.folder / "slurm.conf").write_text(SLURM_CONF.format(**words, accounting=accounting))
        gpus = [f"NodeName={self.host} Name=gpu File={device}\n" for device in ("/dev/null", "/dev/zero")]
        (self.folder / "gres.conf").write_text("".join(gpus))  # two devices that exist on every machine stand in
        dbd = self.folder / "slurmdbd.conf"
        dbd.write_text(SLURMDBD_CONF.format(**words))
        dbd.chmod(0o600)

    def _munge(self) -> None:
        at = self.folder / "munge"
        files = {"socket": "munge.sock", "key-file": "munge.key", "pid-file": "pid", "log-file": "log"}
        options = [f"--{option}={at / name}" for option, name in {**files, "seed-file": "seed"}.items()]
        self._daemon("munged", "--foreground", "--force", *options)
        self._until("munge answers", (at / "munge.sock").exists)

    def _database(self) -> None:
        at, sock = self.folder / "db", self.folder / "db.sock"
        common = ("--no-defaults", "--user=root", f"--datadir={at}")
        self.run("mariadb-install-db", *common, "--auth-root-authentication-method=socket", "--skip-test-db")
        small = ("--skip-networking", "--innodb-buffer-pool-size=32M")
        self._daemon("mariadbd", *common, f"--socket={sock}", *small)
        ask = ("mariadb", "--no-defaults", f"--socket={sock}", "-e")
        self._until("the database answers", lambda: "1" in self.run(*ask, "select 1", check=False))
        self.run(*ask, "create database slurm_acct_db")
        self.environment["MYSQL_UNIX_PORT"] = str(sock)
        self._daemon("slurmdbd", "-D")
        self._until("the accounting answers", lambda: "Cluster" in self.run("sacctmgr", "show", "cluster", check=False))
        for what in (("cluster", NAME), ("account", "lab", f"cluster={NAME}"), ("user", "root", "account=lab")):
            self.run("sacctmgr", "-i", "add", *what)

    def _daemon(self, name: str, *options: str) -> None:
        program = shutil.which(name, path=PLACES) or name
        with (self.folder / f"{name}.log").open("wb") as log:
            streams = {"stdout": log, "stderr": log, "preexec_fn": _end_with_parent}
            self._daemons.append(subprocess.Popen([program, *options], env=self.environment, **streams))

    def _until(self, what: str, true: Callable[[], bool], seconds: float = 90) -> None:
        deadline = time.monotonic() + seconds
        while not true():
            dead = [d.args[0] for d in self._daemons if d.poll() is not None]  # type: ignore[index]
            if dead or time.monotonic() > deadline:
                logs = "\n".join(f"{p.name}: {p.read_text()[-1500:]}" for p in sorted(self.folder.glob("*.log")))
                raise RuntimeError(f"waited for this: {what}; ended: {dead}\n{logs}")
            time.sleep(0.2)


def _end_with_parent() -> None:
    """Ask Linux to end this process when the one that started it is killed (prctl PR_SET_PDEATHSIG)."""
    ctypes.CDLL(None).prctl(1, signal.SIGTERM)


def _free_ports(number: int) -> list[int]:
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(number)]
    ports = [int(one.getsockname()[1]) for one in sockets]
    for one in sockets:
        one.close()
    return ports


def main() -> None:
    folder = Path(sys.argv[1]).resolve()
    with Cluster(folder, accounting="--no-accounting" not in sys.argv) as cluster:
        print(f"export SLURM_CONF={cluster.environment['SLURM_CONF']}", flush=True)
        signal.signal(signal.SIGTERM, signal.default_int_handler)
        try:
            signal.pause()
        except KeyboardInterrupt:
            print("stopping", flush=True)


if __name__ == "__main__":
    main()
