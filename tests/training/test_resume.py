"""Killed anywhere and resumed, a run ends bit for bit where it would have ended."""

import random
from pathlib import Path

import pytest
from tests.training.stand_in import digits, in_process, plain_net, same_weights, train, train_and_die, train_and_report

from holdfast.errors import DataError, InputError
from holdfast.training import SGD, Adam, Cosine, read_log
from holdfast.training.logbook import Logbook

BEST = {"keep_best_by": "-total"}
SHORT = {"steps": 4, "log_every": 2, **BEST}


def untimed(path: Path) -> list[dict]:
    return [
        {key: value for key, value in record.items() if key != "seconds"} for record in read_log(path / "log.jsonl")
    ]


class CrashError(Exception):
    """Ends a run from inside, as a crash would."""


def crash_at(calls: int):
    def at_step(objective) -> None:
        if objective.calls == calls:
            raise CrashError

    return at_step


@pytest.mark.parametrize("settings", [Adam(lr=0.01), SGD(lr=0.1, momentum=0.9, nesterov=True, weight_decay=1e-2)])
@pytest.mark.parametrize("steps_done", [0, 1, 7, 11])
def test_resume_is_bit_exact(tmp_path: Path, settings, steps_done: int) -> None:
    options = {"settings": settings, "steps": 12, "schedule": Cosine(lr=0.05, steps=12), "max_grad_norm": 0.5}
    whole, expected = train(tmp_path / "whole", **options)
    with pytest.raises(CrashError):
        train(tmp_path / "cut", at_step=crash_at(steps_done), **options)
    resumed, result = train(tmp_path / "cut", resume=True, **options)
    assert same_weights(whole, resumed)
    assert untimed(tmp_path / "cut") == untimed(tmp_path / "whole")
    assert (result.parts, result.example_passes, result.step) == (expected.parts, expected.example_passes, 12)
    assert resumed.example_passes == whole.example_passes
    assert (tmp_path / "cut" / "weights.safetensors").read_bytes() == (
        tmp_path / "whole" / "weights.safetensors"
    ).read_bytes()


def contents(run_dir: Path) -> dict[str, bytes]:
    """All weights under their final names."""
    paths = run_dir.rglob("weights.safetensors")
    return {str(path.relative_to(run_dir)): path.read_bytes() for path in paths if ".part-" not in str(path)}


def test_killed_at_every_call_that_changes_the_disk(tmp_path: Path) -> None:
    whole, expected = train(tmp_path / "whole", **SHORT)
    for at in range(1, 500):
        run_dir = tmp_path / str(at)
        process = in_process(train_and_die, run_dir, at, **SHORT)
        process.join()
        if process.exitcode == 0:
            break
        assert process.exitcode == -9
        sizes = {len(weights) for weights in contents(run_dir).values()}
        assert sizes <= {len(weights) for weights in contents(tmp_path / "whole").values()}  # nothing half
        resumed, result = train(run_dir, resume=True, **SHORT)
        assert same_weights(whole, resumed), at
        assert result.best == expected.best, at
        assert untimed(run_dir) == untimed(tmp_path / "whole"), at
        assert contents(run_dir) == contents(tmp_path / "whole"), at
        assert not list(run_dir.rglob(".part-*")), at
    assert at > 40


def test_killed_at_random_moments(tmp_path: Path) -> None:
    options = {"steps": 600, "checkpoint_every": 7, **BEST}
    whole, _ = train(**(options | {"keep_best_by": None}))
    moments, kills = random.Random(0), 0
    while True:
        process = in_process(train_and_report, tmp_path, resume=True, **options)
        process.join(moments.uniform(0.05, 0.5) if kills < 6 else None)
        if process.exitcode is not None:
            break
        process.kill()
        process.join()
        kills += 1
    assert process.exitcode == 0
    assert kills >= 2
    resumed, result = train(tmp_path, resume=True, **options)  # finished: nothing to do but load
    assert same_weights(whole, resumed)
    assert [record["step"] for record in read_log(tmp_path / "log.jsonl")] == list(range(1, 601))
    assert result.step == 600


def test_a_finished_run_can_be_made_longer(tmp_path: Path) -> None:
    whole, _ = train(warm_up=0.0, steps=8)
    train(tmp_path, warm_up=0.0, steps=6)
    resumed, _ = train(tmp_path, warm_up=0.0, steps=8, resume=True)
    assert same_weights(whole, resumed)


def test_a_run_cannot_be_made_shorter(tmp_path: Path) -> None:
    train(tmp_path, warm_up=0.0)
    with pytest.raises(InputError, match="steps >= 6, the steps already done, got 4"):
        train(tmp_path, warm_up=0.0, steps=4, resume=True)


def test_a_run_is_not_written_over(tmp_path: Path) -> None:
    train(tmp_path)
    with pytest.raises(InputError, match="resume=True"):
        train(tmp_path)


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"seed": 6}, "seed"),
        ({"warm_up": 0.0}, "warm_up_steps"),
        ({"settings": Adam(lr=0.02, weight_decay=1e-3)}, "lr"),
        ({"settings": SGD(lr=0.01)}, "class"),
        ({"loader": "wider"}, "batch"),
    ],
)
def test_another_setting_is_not_the_same_run(tmp_path: Path, change: dict, named: str) -> None:
    if "loader" in change:
        change = {"loader": digits(batch_size=20)}
    train(tmp_path)
    with pytest.raises(InputError, match=f"expected.*{named}"):
        train(tmp_path, resume=True, **change)


def test_another_network_is_refused(tmp_path: Path) -> None:
    train(tmp_path, settings=SGD(lr=0.1))
    with pytest.raises((DataError, InputError)):
        train(tmp_path, resume=True, net=plain_net, settings=SGD(lr=0.1))


def test_log_keeps_whole_lines_up_to_the_checkpoint(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    path.write_text('{"step": 1}\n{"step": 2}\n{"step": 3}\n{"step": 4, "par')
    assert [record["step"] for record in read_log(path)] == [1, 2, 3]
    Logbook(path, after=2).close()
    assert [record["step"] for record in read_log(path)] == [1, 2]
    assert path.read_text().count("\n") == 2


def test_damage_inside_the_log_is_not_swallowed(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    path.write_text('{"step": 1}\n{"st\n{"step": 3}\n')
    with pytest.raises(DataError, match="line 2"):
        read_log(path)
    assert read_log(tmp_path / "none.jsonl") == []
