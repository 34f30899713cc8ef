"""Threads: one a usable core unless somebody says otherwise; the allocator keeps what a step gives back."""

import json
import os
import subprocess
import sys

import pytest

from holdfast.cli import main
from holdfast.engine.process import usable_cores

ASK = "import torch, json, os; print(json.dumps([torch.get_num_threads(), os.environ['OMP_NUM_THREADS']]))"


def threads_of(words: str, **environment: str) -> list[object]:
    """What PyTorch uses in a process that first ran the command line's preparation."""
    code = f"from holdfast.cli import main; main({words.split()!r}); {ASK}"
    clean = {k: v for k, v in os.environ.items() if k not in ("OMP_NUM_THREADS", "MKL_NUM_THREADS")}
    done = subprocess.run(
        [sys.executable, "-c", code], env=clean | environment, capture_output=True, text=True, check=True
    )
    found: list[object] = json.loads(done.stdout.splitlines()[-1])
    return found


def test_threads_are_the_usable_cores_the_environments_or_those_asked_for() -> None:
    assert threads_of("--version") == [usable_cores(), str(usable_cores())]
    assert threads_of("--version", OMP_NUM_THREADS="1") == [1, "1"]
    assert threads_of("--version --threads 1", OMP_NUM_THREADS="2") == [1, "1"]


@pytest.mark.parametrize(
    ("words", "got"), [("bench --threads", "''"), ("--threads two bench", "'two'"), ("--threads 0", "0")]
)
def test_a_wrong_number_of_threads_is_refused(words: str, got: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words.split()) == 2
    assert f"got {got}" in capsys.readouterr().err


def test_steps_do_not_ask_the_system_for_the_same_memory_again() -> None:
    code = """
import ctypes, resource, sys
from holdfast.engine.process import keep_memory
ctypes.CDLL(None).mallopt(-3, 128 * 1024)  # glibc's first threshold, which it moves by itself sooner or later
if sys.argv[1] == "keep": keep_memory()
import torch
def step(): return [torch.ones(4_000_000) for _ in range(12)]
for _ in range(3): step()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(5): step()
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""
    faults = {
        how: int(subprocess.run([sys.executable, "-c", code, how], capture_output=True, text=True, check=True).stdout)
        for how in ("keep", "leave")
    }
    assert faults["keep"] < 0.2 * faults["leave"]


def test_a_library_call_leaves_the_allocator_alone() -> None:
    """A block of 20 MB is fetched from the system before and after a rank correlation, as glibc does by itself."""
    code = """
import ctypes
import torch, holdfast as hf
class Info(ctypes.Structure):
    _fields_ = [(name, ctypes.c_size_t) for name in "arena ordblks smblks hblks hblkhd u f uord ford keep".split()]
libc = ctypes.CDLL(None)
libc.mallinfo2.restype = Info
libc.malloc.restype = ctypes.c_void_p
def large_blocks(): return libc.mallinfo2().hblks
def fetched():
    before = large_blocks()
    libc.malloc(ctypes.c_size_t(20 << 20))
    return large_blocks() - before
first = fetched()
hf.metrics.kendall_tau(torch.rand(4, 28, 28), torch.rand(4, 28, 28))
hf.metrics.spearman_rho(torch.rand(4, 28, 28), torch.rand(4, 28, 28))
print(first, fetched())
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    if "mallinfo2" in done.stderr:
        pytest.skip("this C library does not tell how it allocates")
    assert done.stdout.split() == ["1", "1"], done.stderr
