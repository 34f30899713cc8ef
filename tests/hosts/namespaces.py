"""Two "hosts" on this machine: network namespaces joined by a virtual cable, each with its own address and loopback."""

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

TORCHRUN = [sys.executable, "-m", "torch.distributed.run", "--nnodes", "2", "--nproc-per-node", "1"]


def missing() -> str:
    """Why two hosts cannot be made here; empty if they can."""
    if not shutil.which("ip"):
        return "the command ip is not installed (Debian: iproute2)"
    name = f"hf{os.getpid()}x"
    if subprocess.run(["ip", "netns", "add", name], capture_output=True, check=False).returncode:
        return "network namespaces cannot be made here (they need root)"
    subprocess.run(["ip", "netns", "del", name], check=True)
    return ""


class TwoHosts:
    """Two namespaces with the addresses 10.77.0.1 and 10.77.0.2. They share nothing but the cable and the disk."""

    def __init__(self) -> None:
        self.names = [f"hf{os.getpid()}{letter}" for letter in "ab"]
        self.addresses = ["10.77.0.1", "10.77.0.2"]
        self._started: list[subprocess.Popen[str]] = []

    def __enter__(self) -> "TwoHosts":
        a, b = self.names
        for name in self.names:
            _ip("netns", "add", name)
        _ip("link", "add", f"{a}v", "netns", a, "type", "veth", "peer", "name", f"{b}v", "netns", b)
        for name, address in zip(self.names, self.addresses, strict=True):
            _ip("-n", name, "addr", "add", f"{address}/24", "dev", f"{name}v")
            _ip("-n", name, "link", "set", f"{name}v", "up")
            _ip("-n", name, "link", "set", "lo", "up")
        return self

    def __exit__(self, *_: object) -> None:
        for process in self._started:
            process.terminate()  # torchrun ends its workers, which are in sessions of their own
        for process in self._started:
            try:
                process.wait(60)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        for name in self.names:
            _ip("netns", "del", name)

    def start(self, host: int, words: list[str], said: Path, **environment: str) -> "subprocess.Popen[str]":
        """Start a program on one host; what it says goes into a file."""
        name = self.names[host]
        everything = {**os.environ, "GLOO_SOCKET_IFNAME": f"{name}v", "TP_SOCKET_IFNAME": f"{name}v", **environment}
        with said.open("w") as file:
            options: Any = {"env": everything, "stdout": file, "stderr": file, "text": True}
            self._started.append(subprocess.Popen(["ip", "netns", "exec", name, *words], **options))
        return self._started[-1]

    def torchrun(self, folder: Path, *words: str, port: int = 29500) -> list["subprocess.Popen[str]"]:
        """`torchrun -m holdfast WORDS` on both hosts, one process each; rank 0 is on the first."""
        folder.mkdir(parents=True, exist_ok=True)
        meet = ["--master-addr", self.addresses[0], "--master-port", str(port)]
        path = os.pathsep.join(["", *sys.path])
        return [
            self.start(
                host,
                [*TORCHRUN, "--node-rank", str(host), *meet, "-m", "holdfast", *words],
                folder / f"host-{host}.txt",
                OMP_NUM_THREADS="1",
                PYTHONPATH=path,
            )
            for host in (0, 1)
        ]


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True)
