"""Checkpoint folders: whole or absent, verified, never executed."""

import errno
import json
import os
import pickle
from pathlib import Path

import pytest
import safetensors.torch
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.training.stand_in import in_process, same_weights, train, train_on_small_disk

from holdfast.errors import DataError, HoldfastError
from holdfast.training import RecoveryWarning, load_weights
from holdfast.training.checkpoint import Snapshot, pack, read_checkpoint, write_checkpoint
from holdfast.training.checkpoint_store import CheckpointStore


def snapshot(step: int = 3) -> Snapshot:
    tied = torch.arange(4.0)
    weights = {"a": tied, "b": tied, "half": torch.ones(2, dtype=torch.bfloat16), "n": torch.tensor(7)}
    transposed = torch.arange(6.0).reshape(2, 3).T
    return Snapshot(step=step, weights=weights, training={"m": transposed}, notes={"pi": 0.1 + 0.2, "list": [1, None]})


def test_round_trip(tmp_path: Path) -> None:
    write_checkpoint(tmp_path / "c", snapshot())
    back = read_checkpoint(tmp_path / "c")
    assert back.step == 3
    assert back.notes == snapshot().notes
    for name, value in {**snapshot().weights, **snapshot().training}.items():
        assert torch.equal({**back.weights, **back.training}[name], value)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["c"]


@pytest.mark.parametrize("name", ["weights.safetensors", "training.safetensors", "state.json"])
@pytest.mark.parametrize("damage", ["cut", "flip", "empty", "gone", "grown"])
def test_damage_is_named(tmp_path: Path, name: str, damage: str) -> None:
    write_checkpoint(tmp_path / "c", snapshot())
    path = tmp_path / "c" / name
    data = bytearray(path.read_bytes())
    if damage == "gone":
        path.unlink()
    else:
        data[len(data) // 2] ^= damage == "flip"
        path.write_bytes({"cut": data[:-3], "flip": data, "empty": b"", "grown": data + b"xx"}[damage])
    with pytest.raises(DataError, match=name):
        read_checkpoint(tmp_path / "c")


@given(position=st.integers(0, 10**6), bit=st.integers(0, 7))
@settings(max_examples=60)
def test_no_bit_goes_unnoticed(tmp_path_factory: pytest.TempPathFactory, position: int, bit: int) -> None:
    folder = tmp_path_factory.mktemp("flip") / "c"
    write_checkpoint(folder, snapshot())
    files = sorted(folder.iterdir())
    position %= sum(p.stat().st_size for p in files)
    for path in files:
        if position < path.stat().st_size:
            data = bytearray(path.read_bytes())
            data[position] ^= 1 << bit
            path.write_bytes(data)
            break
        position -= path.stat().st_size
    try:
        back = read_checkpoint(folder)
    except DataError as error:
        named = path.name in str(error)
    else:  # white space of the JSON
        named = back.notes == snapshot().notes
    assert named


@given(st.binary(max_size=200) | st.sampled_from([b"[]", b"{}", b'{"sha256": 1}', b"[" * 10000]))
@settings(max_examples=60)
def test_any_state_file_is_refused_in_words(tmp_path_factory: pytest.TempPathFactory, content: bytes) -> None:
    folder = tmp_path_factory.mktemp("fuzz") / "c"
    folder.mkdir()
    (folder / "state.json").write_bytes(content)
    with pytest.raises(DataError, match=r"state\.json"):
        read_checkpoint(folder)


def test_a_sealed_file_of_nonsense_is_refused(tmp_path: Path) -> None:
    from holdfast.storage.checked_json import sealed_json

    (tmp_path / "c").mkdir()
    for content in (
        {"format": 1},
        {"format": 2},
        {"format": 1, "step": 0, "notes": {}, "files": {"weights.safetensors": 3}},
    ):
        (tmp_path / "c" / "state.json").write_bytes(sealed_json(content))
        with pytest.raises(DataError, match=r"state\.json"):
            read_checkpoint(tmp_path / "c")


class Bomb:
    def __reduce__(self):
        return os.abort, ()


def test_a_planted_pickle_is_never_loaded(tmp_path: Path) -> None:
    train(tmp_path)
    for folder in (tmp_path / "checkpoints").iterdir():
        for path in folder.iterdir():
            path.write_bytes(pickle.dumps(Bomb()))
    with pytest.raises(DataError, match=r"state\.json"):
        load_weights(tmp_path)
    with pytest.raises(DataError, match=r"no other checkpoint is left"):
        train(tmp_path, resume=True)


def test_no_pickle_in_the_source() -> None:
    import holdfast.training

    for path in Path(holdfast.training.__file__).parent.glob("*.py"):
        text = path.read_text().replace("safetensors.torch.", "")
        assert not any(word in text for word in ("pickle", "torch.save", "torch.load", "eval(", "exec("))


def test_only_tensors_are_packed() -> None:
    with pytest.raises(HoldfastError, match="only tensors"):
        pack({"extra": "state"})


def test_the_last_two_and_the_best_are_kept(tmp_path: Path) -> None:
    keeper = CheckpointStore(tmp_path)
    for step in (0, 5, 10):
        keeper.save(snapshot(step))
        keeper.save(snapshot(step), "best")
    (keeper.folder / "step-strange").mkdir()
    assert [p.name for p in keeper.found()] == ["step-00000010", "step-00000005"]
    assert [p.name for p in keeper.found("best")] == ["best-00000010"]


def test_saving_the_same_step_again_replaces_it(tmp_path: Path) -> None:
    keeper = CheckpointStore(tmp_path)
    keeper.save(snapshot(5))
    (keeper.folder / "step-00000005" / "weights.safetensors").write_bytes(b"broken")
    keeper.save(snapshot(5))
    assert keeper.load() is not None


def test_weights_load_on_their_own(tmp_path: Path) -> None:
    objective, _ = train(tmp_path)
    state = safetensors.torch.load_file(tmp_path / "weights.safetensors")
    assert state.keys() == objective.model.state_dict().keys()
    assert all(torch.equal(state[name], value) for name, value in objective.model.state_dict().items())
    assert all(torch.equal(state[name], value) for name, value in load_weights(tmp_path).items())
    with pytest.raises(DataError, match="no best"):
        load_weights(tmp_path, "best")
    with pytest.raises(DataError, match="no checkpoint"):
        load_weights(tmp_path / "elsewhere")


@pytest.mark.parametrize("name", ["weights.safetensors", "training.safetensors", "state.json"])
def test_a_damaged_checkpoint_has_a_substitute(tmp_path: Path, name: str) -> None:
    whole, _ = train()
    train(tmp_path)
    path = tmp_path / "checkpoints" / "step-00000006" / name
    path.write_bytes(path.read_bytes()[:-5])
    with pytest.warns(RecoveryWarning, match=f"{name}.*step-00000004"):
        resumed, result = train(tmp_path, resume=True)
    assert result.step == 6
    assert same_weights(whole, resumed)
    train(tmp_path, resume=True)  # and the damaged one is gone


@pytest.mark.parametrize(
    ("call", "good"),
    [("fsync", n) for n in (0, 2, 3, 8, 9, 11)]
    + [("rename", n) for n in (0, 1, 2, 4)]
    + [("write", 0), ("write", 4), ("replace", 0), ("replace", 1)],
)
def test_a_full_disk_is_said_and_costs_nothing(tmp_path: Path, monkeypatch, call: str, good: int) -> None:
    original, calls = getattr(os, call), 0

    def full(*arguments):
        nonlocal calls
        calls += 1
        if calls > good:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return original(*arguments)

    monkeypatch.setattr(os, call, full)
    with pytest.raises(DataError, match=r"cannot write .*: No space left on device"):
        train(tmp_path)
    monkeypatch.undo()
    assert not list(tmp_path.rglob(".part-*"))
    resumed, _ = train(tmp_path, resume=True)
    assert same_weights(train()[0], resumed)


def test_the_log_is_on_disk_before_the_checkpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Or a power cut could leave a checkpoint whose log lines are lost for good."""
    events: list[str] = []
    fsync, rename, write = os.fsync, os.rename, os.write

    def is_log(handle: int) -> bool:
        return os.readlink(f"/proc/self/fd/{handle}").endswith("/log.jsonl")

    monkeypatch.setattr(
        os, "fsync", lambda handle: (events.append("sync") if is_log(handle) else None, fsync(handle))[1]
    )
    monkeypatch.setattr(os, "write", lambda handle, data: (events.append("line"), write(handle, data))[1])
    monkeypatch.setattr(os, "rename", lambda old, new: (events.append(Path(new).name), rename(old, new))[1])
    train(tmp_path)
    kept = [event for event in events if not event.startswith(".part-")]
    between = ["line", "line", "sync"]
    assert kept == [
        "sync",
        "step-00000000",
        *between,
        "step-00000002",
        *between,
        "step-00000004",
        *between,
        "step-00000006",
    ]


def test_a_real_limit_on_file_size(tmp_path: Path) -> None:
    process = in_process(train_on_small_disk, tmp_path, 6000)
    process.join()
    assert process.exitcode == 0
    assert "step-00000002: File too large" in (tmp_path / "message").read_text()
    assert same_weights(train()[0], train(tmp_path, resume=True)[0])


def test_state_is_plain_json(tmp_path: Path) -> None:
    train(tmp_path)
    state = json.loads((tmp_path / "checkpoints" / "step-00000006" / "state.json").read_text())
    assert state["step"] == 6
    assert set(state["files"]) == {"weights.safetensors", "training.safetensors"}
