"""Hardening: settings, the division of the images, and what the minutes decide."""

import pytest
from tests.experiment.harden_material import FEW, net_with, trained_weights

import holdfast as hf
from holdfast.experiment.hardening import job
from holdfast.experiment.hardening.images import divide
from holdfast.experiment.hardening.plan import Plan, method_settings


def test_held_out_images_are_divided_without_overlap() -> None:
    images = divide(FEW, None, share=0.25, seed=3)
    parts = [set(part.ids.tolist()) for part in (images.train, images.watched, images.audited)]
    assert [len(part) for part in parts] == [150, 25, 25]
    assert set.union(*parts) == set(FEW.ids.tolist())
    with pytest.raises(hf.InputError, match="at least two held-out images"):
        divide(FEW, FEW.subset([0]), share=0.25, seed=3)


def test_settings_of_the_method_follow_from_eps_and_the_image() -> None:
    settings = hf.HardenSettings(eps=0.2, map="gradient", method_settings={"weight": 9.0})
    found = method_settings(settings, (3, 20, 10))
    assert (found["eps"], found["step_size"], found["map"], found["weight"]) == (0.2, 0.1, "gradient", 9.0)
    assert method_settings(hf.HardenSettings(method="r2et"), (3, 20, 10)) == {"k": 20}
    with pytest.raises(hf.InputError, match=r"settings of trades among eps, .* got lam"):
        method_settings(hf.HardenSettings(method="trades", method_settings={"lam": 1}), (1, 8, 8))


@pytest.mark.parametrize(
    ("wrong", "text"),
    [
        ({"eps": 8}, "did you mean 8/255"),
        ({"method": "best"}, "method to be one of natural, madry"),
        ({"map": "lime"}, "map to be one of ig"),
        ({"map": "gradcam", "method": "igr"}, "a method that takes map='gradcam', got method='igr'"),
        ({"max_accuracy_drop": 2}, "0.02 means two points"),
        ({"minutes": 0}, "minutes > 0"),
        ({"batch_norm": "train"}, "batch_norm to be one of fixed, update"),
        ({"holdout": 1}, "holdout as a share between 0 and 1"),
    ],
)
def test_settings_that_make_no_sense(wrong: dict[str, object], text: str) -> None:
    with pytest.raises(hf.InputError, match=text):
        hf.HardenSettings(**wrong)


def test_time_decides_on_the_steps_and_on_the_audits(monkeypatch) -> None:
    asked: list[float] = []

    def fitted(network, data, settings, minutes, **_):
        asked.append(minutes)
        return settings

    monkeypatch.setattr("holdfast.experiment.hardening.plan.fit_to_minutes", fitted)
    monkeypatch.setattr("holdfast.experiment.hardening.plan.try_steps", lambda *_: (2.0, 0.016))
    plans: list[Plan] = []
    monkeypatch.setattr(job.Job, "_audit", lambda self, plan, part: plans.append(plan) or 1 / 0)
    for minutes in (4.0, 0.1, 1000.0):
        with pytest.raises(ZeroDivisionError):
            hf.harden(net_with(trained_weights()), FEW, minutes=minutes, batch_size=16)
    assert [plan.steps for plan in plans] == [69, 20, 600]  # 3/4 of the time, 2.6 s each; at least 20; 60 epochs
    assert asked == [0.5, pytest.approx(0.0125), 125.0]
    assert (plans[0].every, plans[0].warm_up_steps) == (4, 21)
    assert plans[0].method["weight"] == 188.0  # a map term of size 3 at a distance of 0.016


@pytest.mark.parametrize(("each_audit", "steps"), [(0.25, 80), (0.5, 69), (1.5, 36)])
def test_training_gets_what_audits_of_a_given_size_leave(monkeypatch, each_audit: float, steps: int) -> None:
    """Of 4 minutes, with 2.6 s per step; never less than 0.4 of the time."""
    monkeypatch.setattr("holdfast.experiment.hardening.plan.minutes_needed", lambda *_, **__: each_audit)
    monkeypatch.setattr("holdfast.experiment.hardening.plan.try_steps", lambda *_: (2.0, 0.016))
    plans: list[Plan] = []
    monkeypatch.setattr(job.Job, "_audit", lambda self, plan, part: plans.append(plan) or 1 / 0)
    with pytest.raises(ZeroDivisionError):
        hf.harden(net_with(trained_weights()), FEW, minutes=4.0, batch_size=16, passes=900)
    assert (plans[0].steps, plans[0].depth) == (steps, 900)
