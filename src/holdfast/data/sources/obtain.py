"""Try the sources of a dataset in order, verify the checksum, and cache verified splits."""

import warnings

from holdfast.data.formats.arrays import Arrays
from holdfast.data.sources.cache import VARIABLE, split_path, store_split
from holdfast.data.sources.kinds import SPLITS, Cache, Request, Source
from holdfast.data.spec import DatasetSpec
from holdfast.errors import DataError, HoldfastError


def obtain(
    spec: DatasetSpec, split: str, request: Request, *, download: bool = True, cached: bool = True
) -> tuple[Arrays, Source]:
    """One verified split and the source it came from.

    `download=False` tries local sources only; `cached=False` skips the cache.
    """
    reasons = []
    for source in sources_of(spec):
        if source.remote and not download:
            reasons.append(f"{source.name}: not tried, because download=False")
        elif cached or not isinstance(source, Cache):
            try:
                return _take(spec, split, source, request), source
            except (HoldfastError, OSError) as error:
                reasons.append(f"{source.name}: {error}")
    raise DataError(_nothing(spec, split, reasons))


def sources_of(spec: DatasetSpec) -> tuple[Source, ...]:
    """The sources of a dataset in the order they are tried."""
    return (Cache(dataset=spec.name), *spec.sources) if spec.cached else spec.sources


def candidates(spec: DatasetSpec, split: str, request: Request) -> tuple[Source, ...]:
    """The sources that report having the split, in order; the content is not checked."""
    return tuple(source for source in sources_of(spec) if source.has(request, split))


def _take(spec: DatasetSpec, split: str, source: Source, request: Request) -> Arrays:
    # Keep all splits of a download; otherwise loading the other split would download it again.
    wanted = SPLITS if source.remote else (split,)
    with source.open(request) as read:
        found = {name: _verified(spec, name, read(name)) for name in wanted}
    if spec.cached and not isinstance(source, Cache):
        for name, arrays in found.items():
            _remember(spec, name, arrays, request)
    return found[split]


def _verified(spec: DatasetSpec, split: str, arrays: Arrays) -> Arrays:
    shape = (spec.counts[split], *spec.image_shape)
    if arrays.x.shape != shape:
        raise DataError(f"expected {split} images of shape {shape}, found {arrays.x.shape}; this is another version.")
    found = arrays.checksum()
    if found != spec.checksums[split]:
        raise DataError(
            f"expected checksum {spec.checksums[split]} for {spec.name} {split}, found {found}; "
            "the file is damaged or another version; nothing was cached."
        )
    return arrays


def _remember(spec: DatasetSpec, split: str, arrays: Arrays, request: Request) -> None:
    path = split_path(request.cache, spec.name, split)
    try:
        store_split(path, arrays)
    except DataError as error:
        # The data is valid; the next load is slow again.
        warnings.warn(f"{error} Set {VARIABLE} to use another cache folder.", stacklevel=2)


def _nothing(spec: DatasetSpec, split: str, reasons: list[str]) -> str:
    tried = "\n".join(f"  - {reason}" for reason in reasons)
    return (
        f"cannot load {spec.name} ({split}); every source failed:\n{tried}\n"
        f"To provide the files yourself: {spec.by_hand} "
        f"Then pass root=FOLDER to load, or run: holdfast data get {spec.name} --root FOLDER"
    )
