"""Archives are read in memory, and unsafe or oversized ones are refused."""

import gzip
import io
import stat
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from holdfast.data.formats.archives import Limits, open_files
from holdfast.errors import DataError

Writer = Callable[[Path, dict[str, bytes]], None]


@pytest.fixture(params=["a.zip", "a.tgz"])
def archive(
    request: pytest.FixtureRequest, tmp_path: Path, zip_writer: Writer, tar_writer: Writer
) -> tuple[Path, Writer]:
    path = tmp_path / request.param
    return path, (zip_writer if path.suffix == ".zip" else tar_writer)


def read(path: Path, name: str, limits: Limits | None = None) -> bytes:
    with open_files(path.parent, [path.name], limits=limits) as reader:
        return reader(name)


def test_members_are_read(archive: tuple[Path, Writer]) -> None:
    path, write = archive
    write(path, {"folder/one": b"1", "two": b"22"})
    assert read(path, "folder/one") == b"1"
    assert read(path, "two") == b"22"
    with pytest.raises(FileNotFoundError, match="three is missing"):
        read(path, "three")


@pytest.mark.parametrize("name", ["../out", "a/../../out", "/etc/out", "C:/out", "a\\..\\out"])
def test_escapes_are_refused(archive: tuple[Path, Writer], name: str) -> None:
    path, write = archive
    write(path, {"good": b"", name: b"bad"})
    with pytest.raises(DataError, match="not safe"):
        read(path, "good")


@pytest.mark.parametrize(
    ("limits", "message"),
    [
        (Limits(members=2), "at most 2 members, found 3"),
        (Limits(file_bytes=500), "bytes in 'c', found 1000"),
        (Limits(total_bytes=1500), "at most 1500 bytes in total, found 1600"),
    ],
)
def test_limits(archive: tuple[Path, Writer], limits: Limits, message: str) -> None:
    path, write = archive
    write(path, {"a": bytes(300), "b": bytes(300), "c": bytes(1000)})
    with pytest.raises(DataError, match=message):
        read(path, "a", limits)


def test_zip_bomb_is_refused_before_it_is_unpacked(tmp_path: Path, zip_writer: Writer) -> None:
    zip_writer(tmp_path / "bomb.zip", {"zeros": bytes(50 << 20)})
    assert (tmp_path / "bomb.zip").stat().st_size < 100_000
    with pytest.raises(DataError, match="at most 1048576 bytes"):
        read(tmp_path / "bomb.zip", "zeros", Limits(file_bytes=1 << 20))


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.FIFOTYPE])
def test_tar_links_and_devices_are_refused(tmp_path: Path, kind: bytes) -> None:
    with tarfile.open(tmp_path / "a.tar", "w") as archive:
        info = tarfile.TarInfo("link")
        info.type, info.linkname = kind, "target"
        archive.addfile(info)
    with pytest.raises(DataError, match="a link, a device"):
        read(tmp_path / "a.tar", "link")


def test_zip_links_are_refused(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        info = zipfile.ZipInfo("link")
        info.external_attr = (stat.S_IFLNK | 0o777) << 16
        archive.writestr(info, "/etc/passwd")
    with pytest.raises(DataError, match="a link, a device"):
        read(tmp_path / "a.zip", "link")


def test_damaged_archives(archive: tuple[Path, Writer]) -> None:
    path, write = archive
    write(path, {"a": bytes(range(256)) * 50})
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(DataError, match="damaged"):
        read(path, "a")
    path.write_bytes(b"not an archive")
    with pytest.raises(DataError, match="damaged"):
        read(path, "a")


def test_damaged_zip_member(tmp_path: Path) -> None:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("a", b"abcdef")
    (tmp_path / "a.zip").write_bytes(buffer.getvalue().replace(b"abcdef", b"abcdeX"))
    with pytest.raises(DataError, match="CRC"):
        read(tmp_path / "a.zip", "a")


def test_packed_plain_files(tmp_path: Path) -> None:
    (tmp_path / "one.gz").write_bytes(gzip.compress(bytes(1000)))
    with open_files(tmp_path) as reader:
        assert reader("one") == bytes(1000)
        with pytest.raises(DataError, match="not safe"):
            reader("../one")
    with open_files(tmp_path, limits=Limits(file_bytes=999)) as reader, pytest.raises(DataError, match="at most 999"):
        reader("one")
    (tmp_path / "one.gz").write_bytes(gzip.compress(bytes(1000))[:-9])
    with open_files(tmp_path) as reader, pytest.raises(DataError, match="damaged"):
        reader("one")
