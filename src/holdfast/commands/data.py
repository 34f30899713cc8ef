"""The commands `holdfast data list` and `holdfast data get NAME`."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console

    from holdfast.data.sources.download import Progress
    from holdfast.data.sources.kinds import Request
    from holdfast.data.spec import DatasetSpec


def list_datasets(root: Path | None = None) -> None:
    """List the named datasets: size, whether they are on this machine, and their sources.

    Usage examples:
        holdfast data list
        holdfast data list --root downloads/  # also look for dataset files in downloads/

    Args:
        root: Folder with dataset files to search as well.
    """
    from rich.console import Console
    from rich.table import Column, Table

    from holdfast.data.registry import SPECS
    from holdfast.data.sources.kinds import Request

    table = Table("name", "train + test", "shape", "classes", "on disk", Column("source", overflow="fold"), box=None)
    for spec in SPECS.values():
        table.add_row(*_row(spec, Request(root=root)))
    Console().print(table)


def get_dataset(name: str, /, root: Path | None = None, force: bool = False) -> None:
    """Get a dataset, verify its checksum and store it in the cache folder.

    The cache folder is the environment variable HOLDFAST_DATA if it is set, else the user's cache folder.

    Usage examples:
        holdfast data get mnist
        holdfast data get mnist --root downloads/  # use files that you downloaded yourself
        holdfast data get mnist --force            # replace the cached copy

    Args:
        name: Name of the dataset, as shown by `holdfast data list`.
        root: Folder, archive or .npz file with the dataset's files, tried before any download.
        force: Get the dataset again even if it is in the cache.
    """
    from rich.console import Console

    from holdfast.data.registry import find_spec
    from holdfast.data.sources.download import Download
    from holdfast.data.sources.kinds import Request
    from holdfast.data.sources.obtain import obtain

    spec = find_spec(name)
    console = Console()
    with _progress(console) as progress:
        request = Request(root=root, download=Download(progress=progress))
        cached = not force
        for split in spec.counts:
            arrays, source = obtain(spec, split, request, cached=cached)
            cached = cached or source.remote  # a remote source updates both splits in the cache
            console.print(f"{name} {split}: {len(arrays.y):,} images, verified, from {source.name}", highlight=False)


def _row(spec: "DatasetSpec", request: "Request") -> tuple[str, ...]:
    from holdfast.data.sources.kinds import SPLITS
    from holdfast.data.sources.obtain import candidates

    found = [candidates(spec, split, request) for split in spec.counts]
    here = all(sources and not sources[0].remote for sources in found)
    # A local dataset shows the first source that has it; a missing one shows all sources that would be tried.
    origins = dict.fromkeys(source.name for sources in found for source in sources[: 1 if here else None])
    images = " + ".join(f"{spec.counts.get(split, 0):,}" for split in SPLITS)
    shape = "x".join(str(side) for side in spec.image_shape)
    there = "yes" if here else "no"
    return spec.name, images, shape, str(len(spec.class_names)), there, ", then ".join(origins) or "none"


@contextmanager
def _progress(console: "Console") -> "Iterator[Progress]":
    """One progress bar per file; no output if the output is not a terminal."""
    from rich.progress import BarColumn, DownloadColumn, TaskID, TextColumn, TransferSpeedColumn
    from rich.progress import Progress as Bars

    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn())
    with Bars(*columns, console=console, disable=not console.is_terminal) as bars:
        tasks: dict[str, TaskID] = {}

        def report(file: str, done: int, total: int | None) -> None:
            if file not in tasks:
                tasks[file] = bars.add_task(file, total=total)
            bars.update(tasks[file], completed=done, total=total)

        yield report
