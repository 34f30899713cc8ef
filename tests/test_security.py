"""Nothing that a file brings along is executed, imported or believed; what is installed is what was pinned."""

import ast
import contextlib
import html
import importlib.metadata
import importlib.util
import io
import os
import pickle
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.report.runs import make_panels, write_run

import holdfast as hf
from holdfast.cli import main
from holdfast.config import make_config
from holdfast.errors import HoldfastError
from holdfast.experiment.networks import build_model
from holdfast.experiment.run import run_training
from holdfast.experiment.weights import put_weights
from holdfast.models.weight_files import TORCH_SUFFIXES
from holdfast.runs import read_panels, read_run
from holdfast.training import fit, load_weights

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "holdfast"


# ---- pickle ----


class Bomb:
    """Unpickled, it leaves a file behind."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (str(self.path),)


@pytest.fixture
def bomb(tmp_path: Path) -> Any:
    yield Bomb(tmp_path / "exploded")
    assert not (tmp_path / "exploded").exists(), "a planted pickle was executed"


def test_the_bomb_works(tmp_path: Path) -> None:
    pickle.loads(pickle.dumps(Bomb(tmp_path / "exploded")))
    assert (tmp_path / "exploded").exists()


def torch_file(bomb: Bomb) -> bytes:
    buffer = io.BytesIO()
    torch.save({"layer.weight": torch.zeros(1), "bomb": bomb}, buffer)
    return buffer.getvalue()


def object_npz(bomb: Bomb, *names: str) -> bytes:
    buffer = io.BytesIO()
    np.savez(buffer, **{name: np.array([bomb], dtype=object) for name in names})
    return buffer.getvalue()


def pickle_npz(bomb: Bomb, *names: str) -> bytes:
    """A zip whose members are pickles called .npy."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name in names:
            archive.writestr(f"{name}.npy", pickle.dumps(bomb))
    return buffer.getvalue()


CONTAINERS = [torch_file, lambda bomb: pickle.dumps(bomb), lambda bomb: object_npz(bomb, "x", "y", "attack")]
CONTAINERS.append(lambda bomb: pickle_npz(bomb, "x", "y", "attack"))


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("run") / "run"
    changes = [("train.steps", "2"), ("train.checkpoint_every", "1")]
    run_training(make_config("digits/natural", overrides=changes), folder, progress=False)
    return folder


def refused(call: Callable[[], Any]) -> None:
    with pytest.raises(HoldfastError):
        call()


@pytest.mark.parametrize("content", CONTAINERS)
def test_no_door_unpickles(tmp_path: Path, bomb: Bomb, run: Path, content: Callable[[Bomb], bytes]) -> None:
    data, copy = content(bomb), tmp_path / "run"
    # weights under the name of safetensors
    (tmp_path / "w.safetensors").write_bytes(data)
    model = build_model(make_config("digits/natural").model.model_copy(update={"num_classes": 10}), seed=0)
    refused(lambda: put_weights(model, tmp_path / "w.safetensors"))
    for suffix in TORCH_SUFFIXES:
        (tmp_path / f"w{suffix}").write_bytes(data)
        refused(lambda suffix=suffix: put_weights(model, tmp_path / f"w{suffix}"))
        assert main(["train", "digits/natural", "--init", str(tmp_path / f"w{suffix}"), "--quiet"]) == 2
    # the user's own data, the cache, a dataset's root
    (tmp_path / "own.npz").write_bytes(data)
    refused(lambda: hf.data.load(tmp_path / "own.npz", split="all"))
    cache = Path(os.environ["HOLDFAST_DATA"])
    cache.mkdir()
    for name in ("gtsrb-train.npz", "gtsrb-32.npz"):
        (cache / name).write_bytes(data)
    refused(lambda: hf.data.load("gtsrb", download=False))
    refused(lambda: hf.data.load("gtsrb", root=cache, download=False))
    # every file of a run
    shutil.copytree(run, copy)
    for path in [p for p in copy.rglob("*") if p.is_file() and p.name != "lock"]:
        path.write_bytes(data)
    (copy / "panels.npz").write_bytes(data)
    (copy / "summary.json").write_bytes(data)
    (copy / "examples.csv").write_bytes(data)
    refused(lambda: load_weights(copy))
    refused(lambda: hf.load(copy))
    refused(lambda: read_panels(copy / "panels.npz"))
    for part in ("summary", "provenance"):
        refused(lambda part=part: getattr(read_run(copy), part))
    for part, inside in (("examples", "rows"), ("log", "entries")):  # one line without an end counts as torn
        with contextlib.suppress(HoldfastError):
            assert not getattr(getattr(read_run(copy), part), inside)
    assert main(["evaluate", str(copy)]) == 2
    assert main(["report", str(copy), "--out", str(tmp_path / "page.html")]) == 2
    assert main(["train", "--out", str(copy), "--resume", "--quiet"]) == 2


def test_no_file_format_that_can_execute_is_read_anywhere() -> None:
    """Over the syntax tree: no pickle, no allow_pickle=True, no eval or exec; torch.load and save only for weights."""
    banned = {"pickle", "cPickle", "dill", "cloudpickle", "marshal", "shelve", "joblib"}
    torch_loads = []
    for path in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import | ast.ImportFrom):
                names = [alias.name for alias in node.names] + [getattr(node, "module", None) or ""]
                assert not banned & {name.split(".")[0] for name in names}, path
            if isinstance(node, ast.Call):
                called = ast.unparse(node.func)
                if called == "torch.save":  # hardened weights, for a user who has a file of this kind
                    assert path.name == "own_weights.py", path
                assert called not in (
                    "torch.jit.load",
                    "eval",
                    "exec",
                    "np.load",
                    "numpy.load",
                    "yaml.load",
                )
                flags = {k.arg: ast.unparse(k.value) for k in node.keywords}
                if called.rpartition(".")[2] == "load" and called.split(".")[0] == "torch":
                    assert flags.get("weights_only") == "True", path
                    torch_loads.append(path.relative_to(SOURCE).as_posix())
                assert flags.get("trust_remote_code", "False") == "False", path
                assert flags.get("allow_pickle", "False") == "False", path
                assert flags.get("shell", "False") == "False", path
    assert torch_loads == ["models/weight_files.py"]


# ---- images ----


def test_content_cannot_choose_a_decoder_that_starts_a_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pillow hands EPS to Ghostscript, whatever the file is called."""
    started = []
    monkeypatch.setattr(subprocess, "Popen", lambda *a, **_: started.append(a))
    monkeypatch.setattr(subprocess, "check_call", lambda *a, **_: started.append(a))
    eps = b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 8 8\n%%EndComments\nshowpage\n"
    (tmp_path / "images" / "class").mkdir(parents=True)
    (tmp_path / "images" / "class" / "a.png").write_bytes(eps)
    with pytest.raises(HoldfastError, match="cannot read image"):
        hf.data.load(tmp_path / "images", split="all")
    assert started == []


# ---- imports ----


def plant_module(folder: Path, name: str) -> Path:
    mark = folder / f"{name}-was-imported"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.py").write_text(
        f"from pathlib import Path\nPath({str(mark)!r}).touch()\n"
        "def build():\n    from torch import nn\n    return nn.Sequential(nn.Flatten(), nn.Linear(64, 10))\n"
    )
    return mark


def test_a_run_folder_never_decides_what_is_imported(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither its config nor a module that lies in it; only the name the user types is imported."""
    shutil.copytree(run, tmp_path / "run")
    config = (tmp_path / "run" / "config.toml").read_text()
    (tmp_path / "run" / "config.toml").write_text(config.replace('"digits-cnn"', '"planted_net:build"'))
    mark = plant_module(tmp_path, "planted_net")
    wanted = plant_module(tmp_path, "wanted_net")
    inside = plant_module(tmp_path / "run", "torch_extras")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(HoldfastError, match="if you trust it"):
        hf.load("run")
    assert main(["evaluate", "run", "--quiet"]) == 2
    assert main(["audit", "--model", "run", "--data", "run"]) == 2
    assert main(["report", "run", "--out", "page.html"]) == 0
    assert not mark.exists()
    with pytest.raises(HoldfastError):  # the weights are of another network; but only what was named is imported
        hf.load("run", network="wanted_net:build")
    assert wanted.exists()
    assert not mark.exists()
    assert not inside.exists()
    assert str(tmp_path) not in sys.path


def test_weights_decide_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Names and notes inside a safetensors file are text."""
    from safetensors.torch import save_file

    mark = plant_module(tmp_path, "planted_two")
    monkeypatch.chdir(tmp_path)
    notes = {"model": "planted_two:build", "format": "pt", "__class__": "planted_two.build"}
    save_file({"planted_two:build": torch.zeros(1)}, tmp_path / "w.safetensors", metadata=notes)
    model = build_model(make_config("digits/natural").model.model_copy(update={"num_classes": 10}), seed=0)
    with pytest.raises(HoldfastError, match="expected the tensors of this network"):
        put_weights(model, tmp_path / "w.safetensors")
    assert not mark.exists()


# ---- what is written on the terminal and the page ----


def test_names_of_files_and_runs_are_text_on_the_page(tmp_path: Path) -> None:
    """Without a browser; tests/report/test_browser.py looks at the same in Chromium."""
    planted = "<img src=x onerror=alert(1)><script>alert(1)</script>"
    panels = make_panels(0.5, 0, count=2)
    named = type(panels)(**{**vars(panels), "names": (planted, planted)})
    write_run(tmp_path / "a", method=planted, dataset=planted, n=20, panels=named, class_names=(planted,) * 10)
    assert main(["report", str(tmp_path / "a"), "--out", str(tmp_path / "page.html"), "--title", planted]) == 0
    page = (tmp_path / "page.html").read_text()
    assert planted not in page
    assert "<img src=x" not in page
    assert "default-src 'none'" in html.unescape(page)
    assert not re.search(r"(src|href)=\"?(https?:)?//", page)


# ---- supply chain ----


def pinned() -> dict[str, str]:
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    pairs = [line.split("==") for line in lines if line and not line.startswith("#")]
    assert all(len(pair) == 2 for pair in pairs)
    return {normal(name): version for name, version in pairs}


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def asked_for(*, without: str = "") -> list[str]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = [packages for name, packages in project["optional-dependencies"].items() if name != without]
    return [*project["dependencies"], *(requirement for extra in extras for requirement in extra)]


def test_every_dependency_is_pinned_to_what_it_asks_for() -> None:
    from packaging.requirements import Requirement

    pins = pinned()
    for text in asked_for():
        requirement = Requirement(text)
        assert normal(requirement.name) in pins, f"{requirement.name} is not in constraints.txt"
        assert requirement.specifier.contains(pins[normal(requirement.name)]), text


def test_what_is_installed_is_what_is_pinned() -> None:
    """And all that it needs in turn is pinned as well."""
    from packaging.requirements import Requirement

    without = "" if importlib.util.find_spec("sphinx") else "docs"  # only `make docs` installs it
    pins, todo, seen = pinned(), [Requirement(text) for text in asked_for(without=without)], set()
    while todo:
        name = normal((requirement := todo.pop()).name)
        if name in seen:
            continue
        seen.add(name)
        found = importlib.metadata.distribution(name)
        assert name in pins, f"{name} is installed, needed and not pinned"
        assert found.version.split("+")[0] == pins[name], name
        assert requirement.specifier.contains(found.version, prereleases=True), f"{requirement} got {found.version}"
        for text in found.requires or ():
            needed = Requirement(text)
            if needed.marker is None or needed.marker.evaluate({"extra": ""}):
                todo.append(needed)


def test_pip_finds_no_conflict() -> None:
    done = subprocess.run([sys.executable, "-m", "pip", "check"], capture_output=True, text=True)
    # sources of networks for tests, installed without what they ask for on purpose (see Makefile)
    complaints = [line for line in done.stdout.splitlines() if line.split()[0] not in ("pytorchcv", "facenet-pytorch")]
    assert complaints in ([], ["No broken requirements found."])


def test_resumed_training_reads_no_code(run: Path) -> None:
    """A checkpoint is tensors and plain JSON."""
    for folder in (run / "checkpoints").iterdir():
        assert {path.suffix for path in folder.iterdir()} == {".safetensors", ".json"}
    assert fit is hf.fit
