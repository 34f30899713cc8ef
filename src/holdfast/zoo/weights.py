"""Where the weights of a network of the zoo are: in the package, in the cache, or in a release.

A release is a folder or an https address that holds the weight files. `HOLDFAST_ZOO` names it; without the variable it
is the address `Zoo` in the metadata of the installed package. Every file must match the SHA-256 of the index.
"""

import hashlib
import os
from dataclasses import replace
from importlib.metadata import PackageNotFoundError, metadata
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.errors import DataError
from holdfast.storage.files import disk_errors
from holdfast.zoo.index import WEIGHTS, ZooNetwork, find

if TYPE_CHECKING:
    from holdfast.data.sources.download import Download

VARIABLE = "HOLDFAST_ZOO"


def fetch(name: str, *, release: str | None = None, download: "Download | None" = None) -> Path:
    """The verified weight file of a network, downloaded once into the cache if it does not ship with the package.

    `release` is the folder or https address of the weight files, see the top of this module.

    >>> import holdfast as hf
    >>> hf.zoo.fetch("gtsrb/madry").name
    'weights.safetensors'
    """
    from holdfast.data.sources.cache import cache_folder

    network = find(name)
    if network.packaged:
        return _verified(network.folder / WEIGHTS, network)
    cached = cache_folder() / "zoo" / f"{network.sha256[:16]}-{network.file}"
    if matches(cached, network):
        return cached
    place = release or os.environ.get(VARIABLE) or released_at()
    if place is None:
        raise DataError(
            f"the weights of zoo:{network.name} do not ship with holdfast, and this version names no release; "
            f"set {VARIABLE} to the folder or https address that holds {network.file}."
        )
    if "://" not in place:
        return _verified(Path(place).expanduser() / network.file, network)
    _download(f"{place.rstrip('/')}/{network.file}", cached, network, download)
    return cached


def released_at() -> str | None:
    """The address `Zoo` among the project addresses of the installed package."""
    try:
        addresses = metadata("holdfast").get_all("Project-URL") or []
    except PackageNotFoundError:
        return None
    named = dict(address.split(", ", 1) for address in addresses if ", " in address)
    return named.get("Zoo")


def matches(path: Path, network: ZooNetwork) -> bool:
    """Whether the file exists and has the size and checksum of the index."""
    if not path.is_file() or path.stat().st_size != network.bytes:
        return False
    return hashlib.sha256(path.read_bytes()).hexdigest() == network.sha256


def _verified(path: Path, network: ZooNetwork) -> Path:
    if not path.is_file():
        raise DataError(f"expected the weights of zoo:{network.name} at {path}, got no such file.")
    if not matches(path, network):
        raise DataError(
            f"{path} is not the file of zoo:{network.name}: its size or SHA-256 differs from the index; "
            "it is damaged or belongs to another version."
        )
    return path


def _download(url: str, cached: Path, network: ZooNetwork, download: "Download | None") -> None:
    """Download, verify, and only then give the file its name in the cache."""
    from holdfast.data.sources.download import Download

    arrived = cached.with_name(f"unverified-{cached.name}")
    replace(download or Download(), max_bytes=network.bytes)(url, arrived)
    try:
        _verified(arrived, network)
        with disk_errors(cached):
            os.replace(arrived, cached)
    finally:
        arrived.unlink(missing_ok=True)
