"""Make the zoo from run directories: `python -m holdfast.zoo.build results`.

For each dataset and method the index gets one entry, and the package a folder with config and card. Weights of at most
`MAX_PACKAGED` bytes go into the package. With `--assets FOLDER` the package stays as it is, and all other weights are
copied to the folder under the names that a release gives them, if the index is what the run directories say.
"""

import argparse
import hashlib
import shutil
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from holdfast.config import config_from_file
from holdfast.errors import HoldfastError, expected
from holdfast.report.view import decisive_attack, view_runs
from holdfast.runs import Run
from holdfast.storage.files import write_file
from holdfast.storage.json_files import write_json_atomic, write_text_atomic
from holdfast.zoo.index import CARD, CONFIG, INDEX, NETWORKS, WEIGHTS, ZooNetwork, read_index
from holdfast.zoo.model_card import make_card

METHODS = ("natural", "madry", "trades", "erar", "erar_plus")
MAX_PACKAGED = 1_000_000
MAX_TOTAL = 6_000_000
"""Limits in bytes on the weights of one network, and of all, inside the package."""


def find_sources(results: Path) -> dict[str, Run]:
    """Name -> run directory, for every measured run of `METHODS` (seed 0) that has its weights."""
    folders = [folder / method for folder in sorted(results.iterdir()) if folder.is_dir() for method in METHODS]
    complete = [f for f in folders if all((f / name).is_file() for name in (CONFIG, WEIGHTS, "summary.json"))]
    return {f"{folder.parent.name}/{folder.name}": Run(folder) for folder in complete}


def describe(name: str, run: Run) -> ZooNetwork:
    """The index entry of a run."""
    config, (view,) = config_from_file(run.folder / CONFIG), view_runs([run])
    weights, attack = (run.folder / WEIGHTS).read_bytes(), decisive_attack([view])
    medians = {key: stat.median for key, stat in view.attacks[attack].metrics.items()} if attack else {}
    return ZooNetwork(
        name=name,
        network=config.model.name,
        preset=config.preset,
        seed=config.seed,
        transforms=config.data.transforms,
        natural_accuracy=view.natural.median,
        pgd_accuracy=view.pgd.median,
        attack=attack,
        top_k=medians.get("top_k"),
        kendall=medians.get("kendall"),
        packaged=len(weights) <= MAX_PACKAGED,
        file=f"{name.replace('/', '-')}.safetensors",
        bytes=len(weights),
        sha256=hashlib.sha256(weights).hexdigest(),
    )


def describe_all(results: Path) -> dict[ZooNetwork, Run]:
    """Index entry -> run, for all networks in `results`; an error if there are none, or too many for the package."""
    sources = find_sources(results)
    if not sources:
        raise expected(f"runs of {', '.join(METHODS)} with weights and summary in {results}", got="none")
    found = {describe(name, run): run for name, run in sources.items()}
    total = sum(entry.bytes for entry in found if entry.packaged)
    if total > MAX_TOTAL:
        raise expected(f"packaged weights of at most {MAX_TOTAL:,} bytes", got=f"{total:,}", fix="lower MAX_PACKAGED")
    return found


def build(results: Path, networks: Path = NETWORKS) -> tuple[ZooNetwork, ...]:
    """Write index, cards, configs and small weights to `networks`."""
    found = describe_all(results)
    shutil.rmtree(networks, ignore_errors=True)
    for entry, run in found.items():
        target = networks / entry.name
        write_text_atomic(target / CARD, make_card(run, entry.name))
        write_file(target / CONFIG, (run.folder / CONFIG).read_bytes())
        if entry.packaged:
            write_file(target / WEIGHTS, (run.folder / WEIGHTS).read_bytes())
    write_json_atomic(networks / INDEX, {"networks": [asdict(entry) for entry in found]})
    return tuple(found)


def write_assets(results: Path, assets: Path, networks: Path = NETWORKS) -> tuple[ZooNetwork, ...]:
    """Write the weights that are not packaged to `assets`; an error if the index in `networks` is not up to date."""
    found, indexed = describe_all(results), read_index(networks / INDEX)
    if differing := sorted({entry.name for entry in set(found) ^ set(indexed)}):
        raise expected(
            f"an index of the zoo that equals the runs in {results}",
            got=f"another one for {', '.join(differing)}",
            fix="run `make zoo`",
        )
    large = {entry: run for entry, run in found.items() if not entry.packaged}
    for entry, run in large.items():
        write_file(assets / entry.file, (run.folder / WEIGHTS).read_bytes())
    return tuple(large)


def main(arguments: Sequence[str] | None = None) -> None:
    """The command `python -m holdfast.zoo.build`."""
    parser = argparse.ArgumentParser(prog="python -m holdfast.zoo.build", description=__doc__)
    parser.add_argument("results", type=Path, nargs="?", default=Path("results"), help="folder of dataset/method runs")
    parser.add_argument("--assets", type=Path, help="write only the weights that are not packaged, to this folder")
    chosen = parser.parse_args(arguments)
    try:
        made = write_assets(chosen.results, chosen.assets) if chosen.assets else build(chosen.results)
    except HoldfastError as error:
        raise SystemExit(f"error: {error}") from None
    for entry in made:
        place = "in the package" if entry.packaged else f"release file {entry.file}"
        print(f"{entry.name}: {entry.bytes:,} bytes, {place}")


if __name__ == "__main__":
    main()
