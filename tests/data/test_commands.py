"""What `holdfast data list` and `holdfast data get` print and leave behind."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from holdfast.commands.data import get_dataset, list_datasets
from holdfast.data import registry
from holdfast.errors import DataError, InputError


@pytest.fixture
def tiny(tiny_mnist: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setitem(registry.SPECS, "mnist", tiny_mnist.spec(tiny_mnist.root()))
    monkeypatch.setenv("COLUMNS", "160")
    return tiny_mnist


def rows(output: str) -> dict[str, str]:
    return {line.split()[0]: " ".join(line.split()) for line in output.splitlines() if line.strip()}


def test_list(tiny: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    list_datasets()
    shown = rows(capsys.readouterr().out)
    assert shown["digits"] == "digits 1,437 + 360 1x8x8 10 yes scikit-learn"
    assert shown["mnist"] == "mnist 7 + 3 1x4x5 10 no none"
    assert shown["gtsrb"] == "gtsrb 39,209 + 12,630 3x32x32 43 no upstream sid.erda.dk"
    list_datasets(root=tiny.write(tmp_path / "root", packed=True))
    assert rows(capsys.readouterr().out)["mnist"].endswith("yes root folder")


def test_get(tiny: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    root = tiny.write(tmp_path / "root", packed=True)
    get_dataset("mnist", root=root)
    assert capsys.readouterr().out.splitlines() == [
        "mnist train: 7 images, verified, from root folder",
        "mnist test: 3 images, verified, from root folder",
    ]
    get_dataset("mnist")
    assert "from cache" in capsys.readouterr().out
    get_dataset("mnist", root=root, force=True)
    assert "from root folder" in capsys.readouterr().out
    with pytest.raises(DataError, match="every source failed"):
        get_dataset("mnist", force=True)
    list_datasets()
    assert rows(capsys.readouterr().out)["mnist"].endswith("yes cache")


def test_get_fails_with_the_reasons(tiny: Any) -> None:
    with pytest.raises(DataError, match="every source failed"):
        get_dataset("mnist")
    with pytest.raises(InputError, match="did you mean mnist"):
        get_dataset("mnits")


def test_get_over_the_wire(
    tiny: Any,
    tmp_path: Path,
    server: Any,
    quick: Any,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr("holdfast.data.sources.download.Download", lambda progress: replace(quick, progress=progress))
    folder = tiny.write(tmp_path / "served", packed=True)
    server.files = {path.name: path.read_bytes() for path in folder.iterdir()}
    monkeypatch.setitem(registry.SPECS, "mnist", tiny.spec(tiny.upstream(server.url)))
    get_dataset("mnist")
    assert capsys.readouterr().out.splitlines() == [
        "mnist train: 7 images, verified, from upstream 127.0.0.1",
        "mnist test: 3 images, verified, from cache",
    ]
