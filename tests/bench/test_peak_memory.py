"""The peak memory of a process is its own, not that of the process that started it."""

import multiprocessing
from concurrent.futures import ProcessPoolExecutor

import pytest
import torch

from holdfast.bench import peak_memory
from holdfast.bench.machine import STATUS


@pytest.mark.skipif(not STATUS.exists(), reason="no /proc here: only Linux tells the two apart")
def test_the_peak_is_that_of_the_process_itself() -> None:
    before = peak_memory()
    large = torch.ones(2**28)  # 1 GiB, written to
    assert peak_memory() >= before
    assert peak_memory() > 2**30
    del large
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        assert pool.submit(peak_memory).result() < 2**30
