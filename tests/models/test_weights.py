"""Weights as people have them: every suffix, nested checkpoints, prefixes of wrappers, and a clear no for the rest."""

import argparse
import zipfile
from collections import Counter, OrderedDict, defaultdict
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import save_file
from torch import Tensor, nn

import holdfast as hf
from holdfast.errors import DataError, HoldfastError, InputError
from holdfast.experiment.weights import put_weights
from holdfast.models import weight_files
from holdfast.models.plain_globals import NumberType, scalar
from holdfast.models.precision import in_float32
from holdfast.models.weight_files import STATE_KEYS, SUFFIXES, TORCH_SUFFIXES, find_weights, read_torch_file
from holdfast.models.weight_names import PREFIXES, compare, fit_weights

X = torch.rand(4, 3, 6, 6, generator=torch.Generator().manual_seed(0))


def small(classes: int = 3, channels: int = 3) -> nn.Sequential:
    body = [nn.Conv2d(channels, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten()]
    return nn.Sequential(*body, nn.Linear(4, classes)).eval()


@pytest.fixture
def trained() -> nn.Sequential:
    """A network whose every tensor differs from that of a new one."""
    net = small()
    with torch.no_grad():
        for tensor in net.state_dict().values():
            tensor.add_(1)
    return net


def logits(path: Path, **options: object) -> Tensor:
    return hf.load(path, network=small(), **options)(X)


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_every_suffix(tmp_path: Path, trained: nn.Module, suffix: str) -> None:
    path = tmp_path / f"w{suffix}"
    (save_file if suffix == ".safetensors" else torch.save)(trained.state_dict(), path)
    assert torch.equal(logits(path), trained(X))
    assert torch.equal(logits(path.rename(tmp_path / f"w{suffix.upper()}")), trained(X))


@pytest.mark.parametrize(
    "wrap",
    [
        lambda state: {"state_dict": state, "epoch": 3, "best": torch.tensor(0.5)},
        lambda state: {"model": state, "optimizer": {"state": {0: {"step": torch.tensor(1.0)}}}},
        lambda state: {"model_state_dict": state, "args": argparse.Namespace(lr=0.1)},
        lambda state: {"state_dict": state, "best_acc": np.float64(0.5), "last": np.float32(1), "n": np.int64(3)},
        lambda state: {
            "state_dict": state,
            "log": defaultdict(list, loss=[0.5]),
            "n": Counter(),
            "o": OrderedDict(a=1),
        },
        lambda state: {"state_dict": state, "by_class": defaultdict(float, {0: np.bool_(True)})},
        lambda state: {"net": state},
        lambda state: {"ema": state},
        lambda state: {"model": {"state_dict": state}},
        lambda state: {"checkpoint": {"ema": {"net": state}}},
        lambda state: {"my_name": state, "epoch": 1},
        lambda state: {"model": {"name": "resnet"}, **state},
    ],
)
def test_nested_checkpoints(tmp_path: Path, trained: nn.Module, wrap) -> None:
    torch.save(wrap(trained.state_dict()), tmp_path / "last.ckpt")
    assert torch.equal(logits(tmp_path / "last.ckpt"), trained(X))


@pytest.mark.parametrize("suffix", [".th", ".pt"])
def test_files_of_old_versions_of_pytorch(tmp_path: Path, trained: nn.Module, suffix: str) -> None:
    content = {"state_dict": trained.state_dict(), "best_prec1": np.float64(91.5), "log": defaultdict(list)}
    torch.save(content, tmp_path / f"old{suffix}", _use_new_zipfile_serialization=False)
    assert not zipfile.is_zipfile(tmp_path / f"old{suffix}")
    assert torch.equal(logits(tmp_path / f"old{suffix}"), trained(X))


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize("value", [0.5, -3, True, 2 - 1j])
def test_numbers_of_numpy_are_read_as_plain_numbers(tmp_path: Path, value: complex, order: str) -> None:
    number = np.array(value).astype(np.array(value).dtype.newbyteorder(order))[()]
    torch.save({"best": number, "w": torch.zeros(1)}, tmp_path / "w.pt")
    found = weight_files._loaded(tmp_path / "w.pt")["best"]
    assert (found, type(found)) == (value, type(value))


def test_a_crafted_type_of_numpy_reaches_no_code_of_numpy() -> None:
    kind = NumberType("f8")
    kind.__setstate__((3, "<", None, ("a",), {"a": 1}, 8, 8, 63))  # flags that claim Python objects in memory
    assert kind.to_numpy() == np.dtype("<f8")
    for code in ("O", "V8", "S4", "O8", "f8,f8", "M8", "(2,)f8"):
        with pytest.raises(ValueError, match="not a number"):
            NumberType(code).to_numpy()
    with pytest.raises(ValueError, match="buffer"):
        scalar(NumberType("f8"), b"1234")


def test_of_several_sets_the_plain_one_is_taken_and_said(tmp_path: Path, trained: nn.Module) -> None:
    averaged = {name: value.clone() * 2 for name, value in trained.state_dict().items()}
    torch.save({"ema": averaged, "state_dict": trained.state_dict()}, tmp_path / "last.pt")
    model = hf.Classifier(small())
    (note,) = put_weights(model, tmp_path / "last.pt")
    assert "'state_dict' is used, not 'ema'" in note
    assert torch.equal(model(X), trained(X))
    assert put_weights(model, tmp_path / "last.pt", "ema") == ()
    assert torch.equal(model.net[0].weight, averaged["0.weight"])
    with pytest.raises(InputError, match=r"weights under 'swa' .* under 'state_dict', 'ema'"):
        put_weights(model, tmp_path / "last.pt", "swa")


@pytest.mark.parametrize("prefix", ["module.", "model.", "module._orig_mod.", "model.module.", "my.own.", "a"])
def test_prefixes_come_off(tmp_path: Path, trained: nn.Module, prefix: str) -> None:
    torch.save({prefix + name: value for name, value in trained.state_dict().items()}, tmp_path / "w.pt")
    if prefix == "a":  # no wrapper that anybody uses
        with pytest.raises(DataError, match="no name agrees"):
            logits(tmp_path / "w.pt")
    else:
        assert torch.equal(logits(tmp_path / "w.pt"), trained(X))


@given(st.lists(st.sampled_from(PREFIXES), max_size=4))
def test_any_stack_of_wrappers(prefixes: list[str]) -> None:
    net, other = small(), small()
    saved = {"".join(prefixes) + name: value for name, value in other.state_dict().items()}
    fit_weights([net], saved, "w.pt")
    assert torch.equal(net(X), other(X))


def test_wrappers_of_single_layers_and_of_the_network_itself() -> None:
    whole = nn.ModuleDict({"model": nn.Sequential(nn.Linear(3, 2), nn.Linear(2, 2))})
    plain = {
        "0.weight": torch.ones(2, 3),
        "0.bias": torch.ones(2),
        "1.weight": torch.ones(2, 2),
        "1.bias": torch.ones(2),
    }
    fit_weights([whole], plain, "w.pt")  # the network has a wrapper that the file has not
    assert all(bool((value == 1).all()) for value in whole.state_dict().values())
    compiled = {name.replace("0.", "0._orig_mod.").replace("1.", "1.module."): 2 * v for name, v in plain.items()}
    fit_weights([whole], compiled, "w.pt")
    assert all(bool((value == 2).all()) for value in whole.state_dict().values())


def test_absent_counters_of_batch_norm_pass(tmp_path: Path, trained: nn.Module) -> None:
    state = {name: value for name, value in trained.state_dict().items() if "num_batches" not in name}
    assert len(state) == len(trained.state_dict()) - 1
    torch.save(state, tmp_path / "old.pth")
    assert torch.equal(logits(tmp_path / "old.pth"), trained(X))


def test_a_mismatch_names_everything(tmp_path: Path, trained: nn.Module) -> None:
    state = dict(trained.state_dict())
    state["5.weight"] = torch.zeros(7, 4)
    for name in ("1.running_mean", "1.running_var"):
        del state[name]
    state |= {f"aux.{number}": torch.zeros(1) for number in range(7)}
    torch.save(state, tmp_path / "w.pt")
    with pytest.raises(DataError) as found:
        logits(tmp_path / "w.pt")
    told = str(found.value)
    assert "2 missing (1.running_mean, 1.running_var)" in told
    assert "7 left over (aux.0, aux.1, aux.2, aux.3, aux.4, ...)" in told
    assert "1 of another shape (5.weight is 7 x 4 in the file and 3 x 4 in the network)" in told


@pytest.mark.parametrize(
    ("file", "network", "fix"),
    [
        (small(classes=10), small(), "10 classes: build with num_classes=10"),
        (small(channels=1), small(), "takes 1 channels: build with in_channels=1"),
        (nn.Sequential(nn.Linear(2, 2)), small(), "check that the file belongs to this network"),
        (hf.Classifier(small(), mean=0.5, std=0.2), hf.Classifier(small()), "pass the same mean and std"),
    ],
)
def test_the_nearest_fix(file: nn.Module, network: nn.Module, fix: str) -> None:
    with pytest.raises(DataError, match=fix):
        fit_weights([network], file.state_dict(), "w.pt")


def test_quantised_weights_are_not_taken_for_numbers() -> None:
    state = {name: value.to(torch.int8) for name, value in small().state_dict().items()}
    assert {pair.name for pair in compare(small().state_dict(), state).unlike} >= {"0.weight", "5.bias"}
    with pytest.raises(DataError, match="quantised"):
        fit_weights([small()], state, "w.pt")


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_other_precisions_are_computed_in_float32(tmp_path: Path, trained: nn.Module, dtype: torch.dtype) -> None:
    torch.save({name: value.to(dtype) for name, value in trained.state_dict().items()}, tmp_path / "w.pt")
    model = hf.Classifier(small())
    (note,) = put_weights(model, tmp_path / "w.pt")
    assert str(dtype).removeprefix("torch.") in note
    assert "float32" in note
    assert model(X).dtype == torch.float32
    torch.testing.assert_close(model(X), trained(X), rtol=0.05, atol=0.05)
    net = small().to(dtype)
    assert len(in_float32(net)) == 1
    assert net(X).dtype == torch.float32
    assert in_float32(net) == ()


# ---- what is not a state dict ----


class Foreign(nn.Module):
    """Saved as a whole it needs its class, so it cannot be read without running code."""


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (Foreign(), r"a pickled object \(.*Foreign\), which could execute code; save the weights alone"),
        ({"state_dict": small().state_dict(), "out": Path("runs")}, r"pickled object \(pathlib.*PosixPath\)"),
        ({"state_dict": small().state_dict(), "best": np.ones(2)}, r"pickled object \(numpy.*_reconstruct\)"),
        ({"state_dict": small().state_dict(), "best": np.str_("a")}, "cannot read w.pt .*not a number"),
        ({"state_dict": small().state_dict(), "day": np.datetime64(1, "D")}, "cannot read w.pt .*not a number"),
        ({"state_dict": small().state_dict(), "f": defaultdict(small)}, "could execute code|cannot read w.pt"),
        (torch.zeros(3), "a state dict in w.pt, got an object of type Tensor"),
        ({"epoch": 3}, "tensors in w.pt, got only epoch"),
        ({}, "tensors in w.pt, got only nothing"),
    ],
)
def test_what_is_no_state_dict(tmp_path: Path, content: object, message: str) -> None:
    torch.save(content, tmp_path / "w.pt")
    with pytest.raises(HoldfastError, match=message):
        read_torch_file(tmp_path / "w.pt")


@pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning")
def test_torchscript_and_damaged_files(tmp_path: Path) -> None:
    torch.jit.save(torch.jit.trace(small(), X), tmp_path / "w.pt")
    with pytest.raises(DataError, match="a TorchScript archive; save the weights alone"):
        read_torch_file(tmp_path / "w.pt")
    torch.save(small().state_dict(), tmp_path / "cut.pt")
    (tmp_path / "cut.pt").write_bytes((tmp_path / "cut.pt").read_bytes()[:-200])
    for name, content in (("cut.pt", None), ("empty.pt", b""), ("text.pt", b"hello")):
        if content is not None:
            (tmp_path / name).write_bytes(content)
        with pytest.raises(DataError, match=f"cannot read {name} with torch.load"):
            read_torch_file(tmp_path / name)


def test_paths_that_are_no_weights(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"expected weights at .*missing\.pt, got no such file; check the path"):
        logits(tmp_path / "missing.pt")
    (tmp_path / "w.onnx").touch()
    with pytest.raises(InputError, match=r"weights as \.safetensors, \.pt.* got w\.onnx"):
        logits(tmp_path / "w.onnx")
    save_file(small().state_dict(), tmp_path / "w.safetensors")
    with pytest.raises(InputError, match="a key only for a checkpoint"):
        put_weights(hf.Classifier(small()), tmp_path / "w.safetensors", "ema")


def test_search_stops_in_endless_nesting() -> None:
    nested: dict = {"state_dict": small().state_dict()}
    for _ in range(9):
        nested = {STATE_KEYS[0]: nested}
    with pytest.raises(InputError, match=r"tensors in deep\.pt"):
        find_weights(nested, "deep.pt")
    assert set(TORCH_SUFFIXES) < set(SUFFIXES)
