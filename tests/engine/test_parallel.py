"""Chunks in threads of their own change nothing but the time."""

import os
import threading
import time
from collections.abc import Iterator

import pytest
import torch
from torch import Tensor, nn

import holdfast as hf
from holdfast.engine import parallel
from holdfast.engine.gradients import images_per_pass
from holdfast.engine.parallel import map_chunks
from holdfast.engine.passes import add_passes, count_passes
from holdfast.losses import CrossEntropy, IGNorm
from holdfast.recipes import ifia


@pytest.fixture(params=(2, 3))
def threads(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    monkeypatch.setattr(parallel, "WORTH_A_THREAD", 2**14)  # a hundred small images are shared out
    before = torch.get_num_threads()
    torch.set_num_threads(request.param)
    yield request.param
    torch.set_num_threads(before)


def network() -> nn.Module:
    return hf.models.build("paper-cnn", num_classes=10, in_channels=1, image_size=28, seed=0).eval()


def images(count: int) -> tuple[Tensor, Tensor, Tensor]:
    x = torch.rand(count, 1, 28, 28, generator=torch.Generator().manual_seed(0))
    return x, torch.arange(count) % 10, hf.make_keys(0, torch.arange(count))


def on_one_thread(work):
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        return work()
    finally:
        torch.set_num_threads(before)


ATTACKS = {
    "pgd": hf.PGD(CrossEntropy(), ball=hf.Linf(0.1), steps=3, step_size=0.05, random_start=True),
    "erar": hf.PGD(CrossEntropy() + IGNorm(steps=4), ball=hf.Linf(0.1), steps=2, step_size=0.05, best_by=hf.LAST),
    "ifia": ifia(eps=0.1, step_size=0.05, steps=2, k=50, eval_k=50, ig_steps=6),
}


@pytest.mark.parametrize("name", ATTACKS)
def test_attacks_find_the_same_and_cost_the_same(name, threads):
    model, (x, _, keys) = network(), images(45)
    y = model(x).argmax(1)

    def work():
        with count_passes() as meter:
            return ATTACKS[name](model, x, y, keys=keys), meter.passes

    found, passes = work()
    alone, passes_alone = on_one_thread(work)
    assert passes == passes_alone
    # a sign of a gradient near zero may fall either way when a sum is taken in another order
    assert ((found - alone).abs() > 1e-5).double().mean() < 0.01


def test_maps_are_the_same(threads):
    model, (x, y, _) = network(), images(45)
    explain = hf.IntegratedGradients(steps=5)
    with hf.softplus_surrogate(beta=1.0) as surrogate:
        found = explain(model, x, y)
    assert surrogate.swapped > 3  # the mode went along into the threads
    assert found.requires_grad is False
    with hf.softplus_surrogate(beta=1.0):
        alone = on_one_thread(lambda: explain(model, x, y))
    torch.testing.assert_close(found, alone, rtol=1e-4, atol=1e-7)
    assert (found - explain(model, x, y)).abs().max() > 1e-4  # the twin's map is not the network's


def test_chunks_are_in_order_and_run_in_other_threads(threads):
    def work(part: slice) -> tuple[int, int, bool, int]:
        add_passes(part.stop - part.start, 2)
        return part.start, part.stop, torch.is_grad_enabled(), threading.get_ident()

    x = torch.zeros(100, 1, 28, 28)
    with count_passes() as meter, torch.no_grad():
        found = map_chunks(network(), x, 100, 30, work)
    assert [start for start, *_ in found] == [0, *(stop for _, stop, *_ in found[:-1])]
    assert found[-1][1] == 100
    assert len(found) % threads == 0
    assert max(stop - start for start, stop, *_ in found) <= 30
    assert not any(grad for _, _, grad, _ in found)
    assert threading.get_ident() not in {ident for *_, ident in found}
    assert meter.passes == 200
    assert torch.get_num_threads() == threads


def test_a_new_thread_has_the_threads_of_the_process(threads):
    map_chunks(network(), torch.zeros(100, 1, 28, 28), 100, 30, lambda part: None)
    seen: list[int] = []
    other = threading.Thread(target=lambda: seen.append(torch.get_num_threads()))
    other.start()
    other.join()
    assert seen == [threads]


class Remembers(nn.Module):
    """Keeps its input between two lines of `forward`; two at a time would mix up their images."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = network()

    def forward(self, x: Tensor) -> Tensor:
        self.seen = x
        logits: Tensor = self.inner(x)
        return logits + self.seen.flatten(1).sum(1, keepdim=True)


@pytest.mark.parametrize("kind", ["own layer", "hook", "dropout in training", "function"])
def test_whoever_may_keep_something_works_alone(kind, threads):
    model: object = Remembers().eval() if kind == "own layer" else network()
    if kind == "hook":
        model.register_forward_hook(lambda *_: None)
    if kind == "dropout in training":
        model = nn.Sequential(nn.Flatten(), nn.Dropout(), nn.Linear(784, 10))
    if kind == "function":
        model = model.forward
    found = map_chunks(model, torch.zeros(100, 1, 28, 28), 100, 30, lambda part: threading.get_ident())
    assert set(found) == {threading.get_ident()}
    assert len(found) == 4


def test_little_work_stays_where_it_is(threads):
    found = map_chunks(network(), torch.zeros(100, 1, 2, 2), 100, 30, lambda part: threading.get_ident())
    assert set(found) == {threading.get_ident()}


def test_an_error_in_a_chunk_arrives(threads):
    def work(part: slice) -> None:
        raise hf.HoldfastError("expected nothing")

    with pytest.raises(hf.HoldfastError):
        map_chunks(network(), torch.zeros(100, 1, 28, 28), 100, 30, work)


def test_a_chunk_that_maps_chunks_does_not_wait_for_itself(threads):
    model, x = network(), torch.zeros(100, 1, 28, 28)

    def work(part: slice) -> set[int]:
        torch.ones(4).sum()  # an operation, so that a fresh thread has set itself up
        return set(map_chunks(model, x, 100, 30, lambda part: threading.get_ident()))

    for seen in map_chunks(model, x, 100, 30, work):
        assert len(seen) == 1


def test_after_an_error_nobody_is_still_at_work(threads):
    running: list[int] = []

    def work(part: slice) -> None:
        if part.start == 0:
            raise hf.HoldfastError("expected nothing")
        running.append(part.start)
        time.sleep(0.2)
        running.remove(part.start)

    with pytest.raises(hf.HoldfastError):
        map_chunks(network(), torch.zeros(100, 1, 28, 28), 100, 100, work)
    assert running == []


def test_attention_kernels_of_the_process_are_as_before(threads):
    before = torch.backends.cuda.flash_sdp_enabled()
    layer = nn.TransformerEncoderLayer(28, 2, 32, batch_first=True)
    model = nn.Sequential(nn.Flatten(1, 2), layer, nn.Flatten(), nn.Linear(784, 10)).eval()
    x, y, _ = images(45)
    for _ in range(3):
        hf.IntegratedGradients(steps=2)(model, x, y, create_graph=True).sum().backward()
    assert torch.backends.cuda.flash_sdp_enabled() == before


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_makes_its_own_threads(threads):
    model, x, work = network(), torch.zeros(100, 1, 28, 28), lambda part: part.start
    expected = map_chunks(model, x, 100, 30, work)
    child = os.fork()
    if child == 0:
        os._exit(0 if map_chunks(model, x, 100, 30, work) == expected else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_without_pytorchs_private_names_chunks_run_one_after_the_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(torch.overrides, "_get_current_function_mode_stack")
    assert parallel._private_names() is None
    monkeypatch.setattr(parallel, "_PRIVATE", None)
    monkeypatch.setattr(parallel, "WORTH_A_THREAD", 1)
    torch.set_num_threads(2)
    net, seen = nn.Sequential(nn.Flatten(), nn.Linear(4, 2)), []
    parallel.map_chunks(net, torch.rand(6, 1, 2, 2), 6, 2, lambda part: seen.append(threading.current_thread().name))
    torch.set_num_threads(1)
    assert seen == [threading.current_thread().name] * 3
    assert not parallel.examples_are_independent(net, torch.rand(1, 1, 2, 2))


def test_chunks_have_equal_size_and_large_images_still_pass_together() -> None:
    sizes = map_chunks(network(), torch.empty(1, 1, 2, 2), 16, 5, lambda part: part.stop - part.start)
    assert sizes == [4, 4, 4, 4]
    assert map_chunks(network(), torch.empty(1, 1, 2, 2), 0, 5, lambda part: part) == []
    assert [images_per_pass(torch.empty(1, 3, side, side)) for side in (32, 128, 224, 1024)] == [85, 8, 6, 1]
