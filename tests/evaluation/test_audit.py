"""The audit answers on one screen, for networks that nobody here wrote, and says what it took for granted."""

import json
import shlex
import sys
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import save_file
from tests.report.runs import write_doubtful_audit
from tests.trained import trained
from torch import nn

import holdfast as hf
from holdfast.cli import main
from holdfast.engine.passes import count_passes
from holdfast.evaluation.audit import audit
from holdfast.evaluation.audit_result import Audit
from holdfast.evaluation.audit_settings import AuditSettings
from holdfast.evaluation.protocol import Evaluation
from holdfast.runs.next_steps import next_steps

QUICK = AuditSettings(eps=0.1, steps=4, ig_steps=4, limit=12, batch_size=12)


@pytest.fixture(scope="module")
def digits() -> hf.data.Dataset:
    return hf.data.load("digits", split="test")


def test_three_lines(digits) -> None:
    answer = str(hf.audit(trained("digits-cnn", 8), digits, QUICK))
    assert len(answer.splitlines()) < 25
    for word in ("random noise", "strongest attack", "on the true logit", "Kendall", "cannot say", "next:"):
        assert word in answer


def test_steps_that_no_attack_takes_are_noted(digits) -> None:
    options = {"eps": 0.1, "ig_steps": 3, "limit": 2, "labels": "predicted"}
    said = " ".join(hf.audit(trained("digits-cnn", 8), digits, attacks=("random",), steps=3, **options).notes)
    assert "steps = 3 has no effect on these attacks: it is for the reference attack (strong=False" in said
    said = " ".join(hf.audit(trained("digits-cnn", 8), digits, strong=False, steps=3, **options).notes)
    assert "no effect" not in said
    uses = [AuditSettings(**one).uses_steps for one in ({}, {"strong": False}, {"attacks": ("strongest", "ifia-topk")})]
    assert uses == [False, True, True]
    assert not AuditSettings(maps=("ig", "gradcam")).uses_steps


@pytest.fixture(scope="module")
def quick(digits, tmp_path_factory: pytest.TempPathFactory) -> tuple[Audit, Path]:
    """A small audit from Python that writes its files."""
    out = tmp_path_factory.mktemp("audit")
    options = {"eps": 0.1, "steps": 2, "ig_steps": 3, "limit": 12, "batch_size": 12, "strong": False}
    named = replace(digits, file_names=tuple(f"{i}.png" for i in digits.ids.tolist()))
    return hf.audit(trained("digits-cnn", 8), named, out=out, model_name="my net", **options), out


def test_python_writes_the_page_too(quick: tuple[Audit, Path]) -> None:
    answer, out = quick
    page = (out / "report.html").read_text()
    assert "Audit of my net on digits" in page
    assert "hf.audit(model, data, limit=64)" in page
    stored = json.loads((out / "summary.json").read_text())
    assert stored["audit"]["verdict"]["sentence"] == answer.verdict
    assert stored["audit"]["settings"]["steps"] == 2
    assert stored["attacks"]["random"]["budget"] == {"norm": "Linf", "eps": 0.1, "k": 6, "map": "ig"}
    panels = answer.evaluation.panels
    assert panels is not None
    assert panels.attack == "ifia-topk"
    moved = [row for row in answer.evaluation.rows if (row.attack, row.outcome) == ("ifia-topk", "attacked")]
    worst = min(moved, key=lambda row: (row.score("top_k"), row.score("kendall")))
    assert panels.ids[0] == worst.id
    assert panels.names[0] == f"{worst.id}.png"
    assert f"<h3>{worst.id}.png, class" in page


def test_without_the_strongest_attack_nothing_names_it(digits, tmp_path: Path) -> None:
    options = {"eps": 0.2, "steps": 2, "ig_steps": 2, "limit": 24, "batch_size": 24, "strong": False}
    for maps in (("ig",), ("ig", "gradient")):
        out = tmp_path / "-".join(maps)
        answer = hf.audit(trained("digits-cnn", 8), digits, out=out, maps=maps, **options)
        assert answer.decisive.startswith("ifia-topk")
        assert "reference attack" in str(answer)
        page = (out / "report.html").read_text()
        assert "Kept under the reference attack (ifia-topk)" in page
        assert "strongest" not in (str(answer) + page).lower()


def test_representations_are_short(quick: tuple[Audit, Path], digits) -> None:
    answer, _ = quick
    assert repr(answer) == "Audit(my net on digits: cannot say, 12 images)"
    assert repr(answer.evaluation) == "Evaluation(digits: 12 examples under ifia-topk, random)"
    assert repr(digits) == "Dataset(digits, test: 360 images of 1 x 8 x 8, 10 classes)"


def test_data_frame(quick: tuple[Audit, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    answer, _ = quick
    pandas = pytest.importorskip("pandas", reason="no pandas here: `pip install pandas`")
    frame = answer.to_dataframe()
    assert isinstance(frame, pandas.DataFrame)
    assert len(frame) == 2 * 12
    attacked = frame[(frame.attack == "ifia-topk") & (frame.outcome != "misclassified")]
    assert attacked.top_k.fillna(1).median() == answer.summary["attacks"]["ifia-topk"]["top_k"]["median"]


def test_data_frame_without_pandas(quick: tuple[Audit, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(hf.InputError, match="pip install pandas"):
        quick[0].to_dataframe()


def test_options_are_those_of_the_settings(digits) -> None:
    with pytest.raises(hf.InputError, match=r"options of audit among eps, passes, steps.*got stepz"):
        hf.audit(trained("digits-cnn", 8), digits, stepz=3)
    with pytest.raises(hf.InputError, match="not both"):
        hf.audit(trained("digits-cnn", 8), digits, QUICK, steps=3)


def test_attacked_maps_move_more_than_noisy_ones(digits) -> None:
    settings = AuditSettings(eps=0.15, ig_steps=10, limit=32, batch_size=32)
    attacks = audit(trained("digits-cnn", 8), digits, settings).summary["attacks"]
    for name in ("strongest", "strongest-true-logit"):
        assert attacks[name]["kendall"]["median"] < attacks["random"]["kendall"]["median"] - 0.15


def test_the_default_audit_takes_at_most_2000_passes_per_image(digits) -> None:
    with count_passes() as counter:
        done = audit(trained("digits-cnn", 8), digits, AuditSettings(eps=0.15))
    assert len(done.evaluation.rows) == 3 * 64
    assert counter.passes / 64 <= 2000


def strangers() -> dict:
    def resnet() -> nn.Module:
        from pytorchcv.models.resnet_cifar import resnet20_cifar10

        return resnet20_cifar10()

    def medical() -> nn.Module:
        from monai.networks.nets import resnet10

        return resnet10(spatial_dims=2, n_input_channels=3, num_classes=10)

    def transformer() -> nn.Module:
        from transformers import ViTConfig, ViTForImageClassification

        sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
        return ViTForImageClassification(ViTConfig(**sizes, image_size=32, patch_size=8, num_labels=10))

    return {"pytorchcv": resnet, "monai": medical, "transformers": transformer}


@pytest.mark.parametrize("name", strangers())
def test_networks_nobody_here_wrote(name: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what these packages warn about while loading is theirs
        torch.manual_seed(0)
        net = strangers()[name]()
    mode = net.training
    state = {key: value.clone() for key, value in net.state_dict().items()}
    x = (torch.rand(6, 3, 32, 32) * 255).to(torch.uint8)
    data = hf.data.Dataset(
        x=x,
        y=torch.zeros(6, dtype=torch.int64),
        ids=torch.arange(6),
        name="noise",
        split="test",
        class_names=tuple("0123456789"),
        source="made here",
        checksum="",
    )
    settings = AuditSettings(eps=0.1, steps=3, ig_steps=2, limit=6, strong=False)
    answer = audit(net, data, settings, labels="predicted")
    assert answer.summary["natural_accuracy"] == 1.0  # every image explains its own prediction
    assert answer.summary["attacks"]["ifia-topk"]["outcomes"]["attacked"] >= 4
    assert all(torch.equal(value, state[key]) for key, value in net.state_dict().items())
    assert net.training == mode


def test_low_accuracy_is_questioned(digits) -> None:
    answer = audit(hf.models.build("digits-cnn", num_classes=10, seed=1), digits, QUICK)
    assert any("order of the network's outputs" in note for note in answer.notes)


class Moved(torch.nn.Sequential):
    """A network that remembers where it was moved to."""

    def to(self, *where, **more):  # type: ignore[no-untyped-def]
        self.places = [*getattr(self, "places", ()), *where]
        return super().to(*where, **more)


def test_the_network_is_moved_to_the_device(digits) -> None:
    few = digits.subset(range(8))
    options = {"labels": "predicted", "eps": 0.1, "steps": 1, "ig_steps": 2, "strong": False}
    net = hf.Classifier(Moved(torch.nn.Flatten(), torch.nn.Linear(64, 10)))
    moved: list[object] = []
    net.to = lambda where: moved.append(where) or net  # type: ignore[assignment, method-assign]
    hf.audit(net, few, device="cpu", **options)
    assert set(moved) == {torch.device("cpu")}
    plain = Moved(torch.nn.Flatten(), torch.nn.Linear(64, 10))
    attacks = hf.recipes.make_attacks(hf.recipes.AttackSettings(eps=0.1, steps=1, k=6, ig_steps=2), ["random"])
    protocol = hf.EvaluationProtocol(attacks=attacks, panels=0)
    hf.evaluate(plain, few, protocol, device="cpu")
    assert plain.places == [torch.device("cpu")]


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_a_device_that_is_not_there(digits) -> None:
    net = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(64, 10))
    for measure in (hf.audit, hf.evaluate):
        with pytest.raises(hf.InputError, match=r"^expected a device this machine has, got 'cuda' .*; 'auto' selects"):
            measure(net, digits.subset(range(4)), device="cuda")


def test_bad_labels_option(digits) -> None:
    with pytest.raises(hf.InputError, match="given"):
        audit(trained("digits-cnn", 8), digits, QUICK, labels="mine")


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, digits) -> Path:
    """What a stranger has: a module that builds the network, its weights, and a folder of images."""
    (tmp_path / "strangers_net.py").write_text(
        "import holdfast as hf\n\n\ndef build():\n    return hf.models.build('digits-cnn', num_classes=10, seed=3)\n"
    )
    save_file(trained("digits-cnn", 8).state_dict(), tmp_path / "w.safetensors")
    for i in range(20):
        folder = tmp_path / "images" / str(int(digits.y[i]))
        folder.mkdir(parents=True, exist_ok=True)
        Image.fromarray(np.asarray(digits.x[i, 0])).save(folder / f"{i}.png")
    for label in range(10):
        (tmp_path / "images" / str(label)).mkdir(exist_ok=True)
        if not any((tmp_path / "images" / str(label)).iterdir()):
            i = int((digits.y == label).nonzero()[0])
            Image.fromarray(np.asarray(digits.x[i, 0])).save(tmp_path / "images" / str(label) / f"{i}.png")
    monkeypatch.chdir(tmp_path)
    monkeypatch.delitem(sys.modules, "strangers_net", raising=False)
    return tmp_path


def words(*more: str) -> list[str]:
    quick = ["--eps", "0.1", "--steps", "3", "--ig-steps", "3", "--quiet"]
    return ["audit", "--model", "strangers_net:build", "--weights", "w.safetensors", "--data", "images", *quick, *more]


def test_command(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words("--out", "runs/mine")) == 0
    said = capsys.readouterr().out
    assert "normalisation before the network: none" in said
    assert "0 = 0, 1 = 1" in said
    summary = json.loads((project / "runs/mine/summary.json").read_text())
    assert summary["natural_accuracy"] > 0.8
    assert summary["audit"]["verdict"]["sentence"] in said
    page = (project / "runs/mine/report.html").read_text()
    assert "Audit of strangers_net:build on images" in page
    assert "not recorded" not in page


def test_the_recommended_commands_run(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    arguments = words("--no-strong", "--limit", "8", "--out", "runs/mine")
    monkeypatch.setattr("sys.argv", ["holdfast", *arguments])
    assert main(arguments) == 0
    summary = json.loads((project / "runs/mine/summary.json").read_text())
    summary["audit"]["verdict"] |= {"answer": "not robust", "reasons": {}}
    _, harden = next_steps(summary)
    quick = ["--steps", "2", "--passes", "1", "--limit", "4", "--no-strong", "--quiet"]
    assert main([*shlex.split(harden.command)[1:], *quick]) == 0
    assert (project / "runs/mine-hardened/report.html").exists()


def test_command_without_labels(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    flat = project / "flat"
    flat.mkdir()
    for number, image in enumerate((project / "images").rglob("*.png")):
        image.rename(flat / f"{number}.png")
    arguments = words("--labels", "predicted", "--no-strong", "--limit", "None", "--out", "runs/flat")
    arguments[arguments.index("--data") + 1] = "flat"
    assert main(arguments) == 0
    assert "labels: the classes that the network predicts" in capsys.readouterr().out
    summary = json.loads((project / "runs/flat/summary.json").read_text())
    assert summary["natural_accuracy"] == 1.0
    assert summary["provenance"]["torch"]


def test_normalisation_and_npz(project: Path, digits, capsys: pytest.CaptureFixture[str]) -> None:
    arrays = {
        f"{k}_{s}": v for s in ("train", "test") for k, v in (("x", digits.x[:8].numpy()), ("y", digits.y[:8].numpy()))
    }
    np.savez(project / "mine.npz", **arrays)
    arguments = words("--mean", "0.1", "--std", "0.5", "--no-strong", "--out", "runs/npz")
    arguments[arguments.index("--data") + 1] = "mine.npz"
    assert main(arguments) == 0
    assert "mean [0.1], std [0.5]" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (["--model", "strangers_net:nothing"], "package.module:function"),
        (["--model", "no_such_module:build"], "package.module:function"),
        (["--weights", "missing.safetensors"], "missing.safetensors"),
        (["--data", "nowhere"], "nowhere"),
        (["--eps", "-1"], "eps >= 0"),
        (["--model", "images"], "expected a run directory with config.toml at images"),
    ],
)
def test_command_refuses(project: Path, capsys: pytest.CaptureFixture[str], change: list[str], message: str) -> None:
    arguments = words()
    arguments[arguments.index(change[0]) + 1] = change[1]
    assert main(arguments) == 2
    assert message in capsys.readouterr().err


def test_several_maps_are_compared_on_the_same_images(digits, tmp_path: Path) -> None:
    options = {"eps": 0.1, "passes": 120, "ig_steps": 3, "search_ig_steps": 2, "limit": 8, "batch_size": 8}
    answer = hf.audit(trained("digits-cnn", 8), digits, maps=("gradient", hf.GradCAM()), out=tmp_path, **options)
    attacks = answer.summary["attacks"]
    assert list(attacks) == ["strongest", "strongest-true-logit", "random", "strongest:GradCAM", "random:GradCAM"]
    found = answer.summary["maps"]
    assert set(found["found"]) == {"gradient", "GradCAM"}
    assert str(answer).splitlines()[0] == found["sentence"]
    assert found["n"] == attacks["strongest"]["top_k"]["n"] - sum(found["undefined"].values()) > 0
    assert answer.evaluation.panels is not None
    assert answer.evaluation.panels.attack == found["attack"] == answer.summary["audit"]["verdict"]["attack"]
    page = (tmp_path / "report.html").read_text()
    assert found["sentence"].partition(": ")[0] in page
    assert "Explanations compared" in page
    again = hf.audit(trained("digits-cnn", 8), digits, maps=("gradient", hf.GradCAM()), out=tmp_path, **options)
    assert again.summary["maps"] == found


@pytest.mark.parametrize("cause", ["near chance", "failed attacks"])
def test_doubts_about_the_order_of_maps_are_said_first(tmp_path: Path, cause: str) -> None:
    summary = write_doubtful_audit(tmp_path, cause)
    settings = AuditSettings(maps=("ig", "gradient", "gradcam"))
    lines = str(Audit(evaluation=Evaluation(rows=(), summary=summary), settings=settings, k=12)).splitlines()
    assert lines[0] == summary["audit"]["verdict"]["sentence"]
    assert lines[0].startswith("This audit cannot say whether the maps are robust: ")
    assert lines.count(summary["maps"]["sentence"]) == 1


def test_a_budget_that_is_too_small_is_said(digits) -> None:
    net, options = trained("digits-cnn", 8), {"eps": 0.1, "ig_steps": 3, "search_ig_steps": 2, "limit": 2}
    (note,) = [note for note in hf.audit(net, digits, passes=1, **options).notes if "budget" in note]
    assert note.startswith("the attacks took their fewest steps and may exceed the budget of 1 passes per image")
    kept = int(note.split()[-3].replace(",", ""))
    assert not [note for note in hf.audit(net, digits, passes=kept, **options).notes if "budget" in note]


def test_maps_have_different_names() -> None:
    with pytest.raises(hf.InputError, match="maps with different names, got ig, ig"):
        AuditSettings(maps=("ig", "ig"))
