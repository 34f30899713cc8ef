"""Which image files of a folder belong to which class: class folders, or a flat folder with `labels.csv`."""

import csv
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from holdfast.errors import DataError

SUFFIXES = (".png", ".jpg", ".jpeg", ".ppm", ".pgm", ".bmp", ".gif", ".webp", ".tif", ".tiff")

TABLE = "labels.csv"
FILE_COLUMNS = ("file", "filename", "file_name", "image", "image_path", "path", "name", "id")
LABEL_COLUMNS = ("label", "class", "class_name", "target", "category", "y")

MAX_TABLE_BYTES = 256 << 20
_SHOWN = 5


@dataclass(frozen=True, kw_only=True)
class Listing:
    """Image files below `root` with their labels, and the number of other files."""

    root: Path
    paths: list[Path]
    labels: list[int]
    class_names: tuple[str, ...]
    ignored: int = 0
    notes: tuple[str, ...] = ()

    def take(self, indices: Sequence[int]) -> "Listing":
        """The files at `indices`, in that order."""
        return replace(self, paths=[self.paths[i] for i in indices], labels=[self.labels[i] for i in indices])

    def name_of(self, path: Path) -> str:
        """The path below the root, for messages."""
        return path.relative_to(self.root).as_posix()


def list_class_folders(folder: Path, class_names: tuple[str, ...]) -> Listing:
    """The images below one folder per class, sorted by class and path."""
    found = [_images_below(folder / name) for name in class_names]
    paths = [path for images, _ in found for path in sorted(images, key=lambda p: p.relative_to(folder).as_posix())]
    if not paths:
        raise DataError(f"expected images ({', '.join(SUFFIXES)}) in the class folders of {folder}, found none.")
    empty = [name for name, (images, _) in zip(class_names, found, strict=True) if not images]
    return Listing(
        root=folder,
        paths=paths,
        labels=[label for label, (images, _) in enumerate(found) for _ in images],
        class_names=class_names,
        ignored=sum(ignored for _, ignored in found),
        notes=_empty_note(empty, len(class_names)),
    )


def _empty_note(empty: Sequence[str], classes: int) -> tuple[str, ...]:
    """A note about class folders without images, if there are any."""
    have = "has" if len(empty) == 1 else "have"
    return (f"{len(empty)} of {classes} class folders {have} no images: {some(empty)}",) if empty else ()


def list_unlabelled(folder: Path) -> Listing:
    """All images below a folder, as one class."""
    images, ignored = _images_below(folder)
    if not images:
        raise DataError(f"expected images ({', '.join(SUFFIXES)}) in {folder}, found none.")
    paths = sorted(images, key=lambda path: path.relative_to(folder).as_posix())
    return Listing(root=folder, paths=paths, labels=[0] * len(paths), class_names=("unlabelled",), ignored=ignored)


def list_table(folder: Path) -> Listing:
    """The images that `labels.csv` names, in its order; whole numbers as labels are class indices."""
    images, ignored = _images_below(folder)
    known = {path.relative_to(folder).as_posix(): path for path in images}
    rows = _rows(folder / TABLE, known)
    absent = [name for name, _ in rows if name not in known]
    if absent:
        raise DataError(f"expected the files of {TABLE} in {folder}, found no {some(absent)} ({len(absent)} missing).")
    twice = [name for name, count in Counter(name for name, _ in rows).items() if count > 1]
    if twice:
        raise DataError(f"expected every file once in {folder / TABLE}, found {some(twice)} again.")
    indices, class_names = _indices([label for _, label in rows], folder / TABLE)
    unnamed = len(known) - len(rows)
    return Listing(
        root=folder,
        paths=[known[name] for name, _ in rows],
        labels=indices,
        class_names=class_names,
        ignored=ignored - 1 + unnamed,
        notes=(f"{unnamed} images are not in {TABLE} and are left out",) if unnamed else (),
    )


def some(names: Sequence[str]) -> str:
    """The first few names, for messages.

    >>> some(["a", "b"]), some(list("abcdefg"))
    ('a, b', 'a, b, c, d, e, ...')
    """
    return ", ".join(names[:_SHOWN]) + (", ..." if len(names) > _SHOWN else "")


def _images_below(folder: Path) -> tuple[list[Path], int]:
    """The image files below a folder, and the number of other files."""
    files = [file for file in folder.rglob("*") if file.is_file()]
    images = [file for file in files if file.suffix.lower() in SUFFIXES and not file.name.startswith(".")]
    return images, len(files) - len(images)


def _rows(table: Path, known: dict[str, Path]) -> list[tuple[str, str]]:
    """File and label of each line; a first line that names no file is the header."""
    lines = _read(table)
    header = [cell.strip().lower() for cell in lines[0]]
    file, label = 0, 1
    if _name(lines[0][0], known) not in known:
        file = next((header.index(name) for name in FILE_COLUMNS if name in header), 0)
        label = next((header.index(name) for name in LABEL_COLUMNS if name in header), 1)
        lines = lines[1:]
    short = next((number for number, line in enumerate(lines, 1) if len(line) <= max(file, label)), None)
    if short is not None or not lines or file == label:
        where = f"a row {short} without both" if short is not None else "none"
        raise DataError(f"expected rows of file and label in {table}, found {where}; write for example a.png,cat.")
    return [(_name(line[file], known), line[label].strip()) for line in lines]


def _read(table: Path) -> list[list[str]]:
    if table.stat().st_size > MAX_TABLE_BYTES:
        raise DataError(f"expected at most {MAX_TABLE_BYTES} bytes in {table}, found {table.stat().st_size}.")
    try:
        text = table.read_text(encoding="utf-8-sig")
        separator = ";" if ";" in text.partition("\n")[0] and "," not in text.partition("\n")[0] else ","
        lines = [line for line in csv.reader(text.splitlines(), delimiter=separator) if any(line)]
    except (UnicodeDecodeError, csv.Error) as error:
        raise DataError(f"cannot read {table}: {error}; save it as UTF-8 text with commas.") from None
    if not lines:
        raise DataError(f"expected rows of file and label in {table}, found none.")
    return lines


def _name(cell: str, known: dict[str, Path]) -> str:
    """The file that a cell names, with a suffix of an image added if that makes it one of the folder."""
    name = cell.strip().replace("\\", "/").removeprefix("./")
    return next((name + suffix for suffix in ("", *SUFFIXES) if name + suffix in known), name)


def _indices(labels: list[str], table: Path) -> tuple[list[int], tuple[str, ...]]:
    """Class indices and names: whole numbers are indices, other labels are names in alphabetical order."""
    if any(not label for label in labels):
        raise DataError(f"expected a label in every row of {table}, found an empty one in row {labels.index('') + 1}.")
    if all(label.isdecimal() and len(label) < 7 for label in labels):
        numbers = [int(label) for label in labels]
        return numbers, tuple(map(str, range(max(numbers) + 1)))
    names = sorted(set(labels))
    places = {name: at for at, name in enumerate(names)}
    return [places[label] for label in labels], tuple(names)
