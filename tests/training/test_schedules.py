"""Schedules by hand and against PyTorch's own."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from holdfast.errors import InputError
from holdfast.training import SCHEDULES, Constant, Cosine, OneCycle, Piecewise
from holdfast.training.schedules import budget_at


def test_constant() -> None:
    assert [Constant(lr=0.3)(step) for step in (0, 10**6)] == [0.3, 0.3]


def test_piecewise_values_of_the_paper() -> None:
    gtsrb = Piecewise(boundaries=(5000, 70000), values=(1e-5, 1e-4, 1e-5))
    assert [gtsrb(step) for step in (0, 4999, 5000, 69999, 70000, 10**6)] == [1e-5, 1e-5, 1e-4, 1e-4, 1e-5, 1e-5]


def test_cosine_by_hand() -> None:
    cosine = Cosine(lr=1.0, steps=100, floor=0.2)
    assert [cosine(step) for step in (0, 50, 100, 500)] == pytest.approx([1.0, 0.6, 0.2, 0.2])


def test_one_cycle_by_hand() -> None:
    cycle = OneCycle(lr=1.0, steps=11, rise=5 / 11, start_divisor=2, end_divisor=5)
    # up from 1/2 over steps 0 to 4, down to 1/10 over steps 4 to 10
    assert [cycle(step) for step in (0, 2, 4, 7, 10, 99)] == pytest.approx([0.5, 0.75, 1.0, 0.55, 0.1, 0.1])


@pytest.mark.parametrize("steps", [10, 37, 200])
def test_same_as_pytorch(steps: int) -> None:
    def rates(make) -> list[float]:
        optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=0.1)
        scheduler = make(optimizer)
        found = []
        for _ in range(steps):
            found.append(optimizer.param_groups[0]["lr"])
            optimizer.step()
            scheduler.step()
        return found

    cycle = rates(lambda o: torch.optim.lr_scheduler.OneCycleLR(o, 0.1, total_steps=steps + 1, cycle_momentum=False))
    ours = OneCycle(lr=0.1, steps=steps + 1)
    assert [ours(step) for step in range(steps)] == pytest.approx(cycle)
    cosine = rates(lambda o: torch.optim.lr_scheduler.CosineAnnealingLR(o, steps, eta_min=0.01))
    ours_too = Cosine(lr=0.1, steps=steps, floor=0.01)
    assert [ours_too(step) for step in range(steps)] == pytest.approx(cosine)


@given(st.integers(1, 50), st.floats(0, 1), st.integers(0, 200))
def test_one_cycle_stays_within_its_ends(steps: int, rise: float, step: int) -> None:
    cycle = OneCycle(lr=1.0, steps=steps, rise=rise)
    assert 1 / 25 / 1e4 - 1e-12 <= cycle(step) <= 1.0
    assert max(cycle(s) for s in range(steps)) > (0.5 if steps == 1 else 1 / 25)


def test_budget_grows_from_nothing_to_all() -> None:
    assert [budget_at(step, 10) for step in (0, 5, 10, 11)] == [0.0, 0.5, 1.0, 1.0]
    assert budget_at(0, 0) == 1.0


def test_all_are_registered() -> None:
    assert set(SCHEDULES) == {"constant", "piecewise", "cosine", "one-cycle"}


@pytest.mark.parametrize(
    "make",
    [
        lambda: Constant(lr=-1.0),
        lambda: Constant(lr=float("nan")),
        lambda: Piecewise(boundaries=(5,), values=(1.0,)),
        lambda: Piecewise(boundaries=(5, 5), values=(1.0, 2.0, 3.0)),
        lambda: Piecewise(boundaries=(0,), values=(1.0, 2.0)),
        lambda: Cosine(lr=1.0, steps=0),
        lambda: OneCycle(lr=1.0, steps=5, rise=1.5),
        lambda: OneCycle(lr=1.0, steps=5, start_divisor=0.5),
    ],
)
def test_bad_settings_are_refused(make) -> None:
    with pytest.raises(InputError, match="expected"):
        make()
