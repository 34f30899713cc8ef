"""Every network of the zoo is listed, described and verified; the packaged ones and the downloaded ones load."""

import hashlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from tests.web import QUICK, Server, serving

import holdfast as hf
from holdfast.cli import main
from holdfast.config import config_from_file
from holdfast.data.registry import SPECS
from holdfast.data.sources.cache import cache_folder
from holdfast.errors import DataError, InputError
from holdfast.zoo import index, weights

RESULTS = Path(__file__).parents[2] / "results"
ENTRIES = hf.zoo.list()
PACKAGED = [entry for entry in ENTRIES if entry.packaged]


@pytest.fixture
def remote(monkeypatch: pytest.MonkeyPatch) -> index.ZooNetwork:
    """A packaged network, listed as one that has to be downloaded."""
    entry = replace(PACKAGED[0], packaged=False)
    monkeypatch.setattr(index, "_read", lambda path: (entry,))
    monkeypatch.delenv(weights.VARIABLE, raising=False)
    return entry


def content(entry: index.ZooNetwork) -> bytes:
    return (entry.folder / "weights.safetensors").read_bytes()


def test_the_zoo_has_small_and_large_networks_and_fits_into_the_wheel() -> None:
    assert {"gtsrb/madry", "mnist/madry", "fashion-mnist/erar_plus"} <= {entry.name for entry in ENTRIES}
    assert 0 < sum(entry.bytes for entry in PACKAGED) < 6_000_000
    assert len({entry.file for entry in ENTRIES}) == len(ENTRIES)


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry.name)
def test_folders_hold_what_the_index_says(entry: index.ZooNetwork) -> None:
    files = {path.name for path in entry.folder.iterdir()}
    assert files == {"card.md", "config.toml"} | ({"weights.safetensors"} if entry.packaged else set())
    for section in ("Network and data", "Method", "Figures", "Cost and origin", "Make it again", "Licence"):
        assert f"\n## {section}\n" in hf.zoo.card(entry.name)


@pytest.mark.parametrize("entry", PACKAGED, ids=lambda entry: entry.name)
def test_packaged_networks_load_and_equal_their_run(entry: index.ZooNetwork) -> None:
    assert hashlib.sha256(content(entry)).hexdigest() == entry.sha256
    model = hf.load(f"zoo:{entry.name}")
    config = config_from_file(entry.folder / "config.toml")
    x = torch.rand(2, *SPECS[config.data.name].image_shape)
    assert not model.training
    assert torch.equal(model(x), hf.load(RESULTS / entry.name)(x))


def test_unknown_names_are_refused_with_the_nearest() -> None:
    with pytest.raises(InputError, match=r"did you mean gtsrb/madry"):
        hf.load("zoo:gtsrb/madri")


def test_without_a_release_the_error_says_what_to_set(remote: index.ZooNetwork) -> None:
    with pytest.raises(DataError, match=f"set HOLDFAST_ZOO to the folder or https address that holds {remote.file}"):
        hf.load(f"zoo:{remote.name}")


def test_from_a_local_folder(remote: index.ZooNetwork, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOLDFAST_ZOO", str(tmp_path))
    with pytest.raises(DataError, match="no such file"):
        hf.load(f"zoo:{remote.name}")
    (tmp_path / remote.file).write_bytes(content(remote))
    assert hf.load(f"zoo:{remote.name}")(torch.zeros(1, 1, 28, 28)).shape == (1, 10)
    damaged = bytearray(content(remote))
    damaged[-1] ^= 1
    (tmp_path / remote.file).write_bytes(damaged)
    with pytest.raises(DataError, match="SHA-256"):
        hf.load(f"zoo:{remote.name}")


def test_download_is_verified_and_kept(remote: index.ZooNetwork) -> None:
    server = Server()
    with serving(server.answer) as address:
        server.files[remote.file] = content(remote)
        server.drops = [1000]
        first = hf.zoo.fetch(remote.name, release=address, download=QUICK)
        assert first.read_bytes() == content(remote)
        assert server.ranges == [None, "bytes=1000-"]
        assert hf.zoo.fetch(remote.name, release=address, download=QUICK) == first
        assert len(server.ranges) == 2  # the second one comes from the cache
        first.write_bytes(b"damaged")
        assert hf.zoo.fetch(remote.name, release=address, download=QUICK).read_bytes() == content(remote)
        assert [path.name for path in first.parent.iterdir()] == [first.name]


@pytest.mark.parametrize("change", [lambda data: data[:-1] + b"\0", lambda data: data[:-1], lambda data: data + b"x"])
def test_another_file_is_refused_and_not_kept(remote: index.ZooNetwork, change: Callable[[bytes], bytes]) -> None:
    server = Server()
    with serving(server.answer) as address:
        server.files[remote.file] = change(content(remote))
        with pytest.raises(DataError, match=r"SHA-256|at most"):
            hf.zoo.fetch(remote.name, release=address, download=QUICK)
    assert not list((cache_folder() / "zoo").glob("*"))


def test_only_https(remote: index.ZooNetwork) -> None:
    with pytest.raises(DataError, match="https only"):
        hf.zoo.fetch(remote.name, release="http://example.org/zoo")


def test_the_address_in_the_metadata(monkeypatch: pytest.MonkeyPatch) -> None:
    class Installed:
        def get_all(self, key: str) -> list[str]:
            assert key == "Project-URL"
            return ["Documentation, https://example.org", "Zoo, https://example.org/v1"]

    monkeypatch.setattr(weights, "metadata", lambda name: Installed())
    assert weights.released_at() == "https://example.org/v1"


@pytest.mark.parametrize(("attack", "shown"), [("strongest", ["12.5%", "0.250"]), ("ifia-topk", ["-", "-"])])
def test_only_figures_under_the_strongest_attack_are_listed(
    attack: str, shown: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    entry = replace(PACKAGED[0], attack=attack, top_k=0.125, kendall=0.25)
    monkeypatch.setattr(index, "_read", lambda path: (entry,))
    assert main(["zoo", "list"]) == 0
    head, line = capsys.readouterr().out.splitlines()
    assert head.split() == ["name", "accuracy", "PGD", "top-k", "Kendall", "weights"]
    assert line.split()[3:] == [*shown, "packaged"]


def test_commands(remote: index.ZooNetwork, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["zoo", "list"]) == 0
    assert remote.name in capsys.readouterr().out
    assert main(["zoo", "card", remote.name]) == 0
    assert capsys.readouterr().out == hf.zoo.card(remote.name)
    (tmp_path / remote.file).write_bytes(content(remote))
    assert main(["zoo", "get", remote.name, "--release", str(tmp_path)]) == 0
    assert "verified" in capsys.readouterr().out
