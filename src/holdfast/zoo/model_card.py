"""The model card of a run: everything on it is read from the run directory and the registry of datasets."""

import json
import struct
from collections.abc import Mapping
from math import prod
from pathlib import Path
from typing import Any

from holdfast.config import RunConfig, config_from_file
from holdfast.data.registry import SPECS
from holdfast.report.document import Document
from holdfast.report.render import plain_cell, to_markdown
from holdfast.report.tables import COUNT, Cell, Column, Table, metric_columns, ordered
from holdfast.report.view import RunView, Stat, view_runs
from holdfast.runs import Run
from holdfast.runs.names import CENTRED_CONTROL, CONTROL, ENSEMBLE, REFERENCE, STRONGEST, TRUE_LOGIT, UNIVERSAL
from holdfast.zoo.index import CONFIG, PREFIX, WEIGHTS

TITLES = {
    CONTROL: "random noise",
    CENTRED_CONTROL: "random noise, map of the centred logit",
    REFERENCE: "reference attack (ifia-topk)",
    STRONGEST: "strongest attack, map of the centred logit",
    TRUE_LOGIT: "strongest attack, map of the true logit",
    UNIVERSAL: "universal perturbation, map of the centred logit",
    ENSEMBLE: "ensemble of eight attacks (ifia-ensemble)",
}
_SHARE = Column(key="", title="", unit="percent")


def make_card(run: Run, name: str) -> str:
    """The card of the network in `run`, which the zoo calls `name`, as Markdown."""
    config, (view,) = config_from_file(run.folder / CONFIG), view_runs([run])
    parts = [
        [f"# {name}", "", *_usage(name, config), ""],
        ["## Network and data", "", *_network(config, run.folder / WEIGHTS), *_data(config), ""],
        ["## Method", "", *_method(config), ""],
        ["## Figures", "", *_figures(view, config)],
        ["## Cost and origin", "", *_origin(view, run), ""],
        ["## Make it again", "", *_again(run, config), ""],
        ["## Licence", "", *_licence(config)],
    ]
    return "\n".join(line for part in parts for line in part) + "\n"


def count_parameters(weights: Path) -> int:
    """Number of stored values, from the header of a safetensors file."""
    with weights.open("rb") as file:
        (size,) = struct.unpack("<Q", file.read(8))
        header = json.loads(file.read(size))
    return sum(prod(tensor["shape"]) for key, tensor in header.items() if key != "__metadata__")


def _usage(name: str, config: RunConfig) -> list[str]:
    transforms = f", transforms={list(config.data.transforms)!r}" if config.data.transforms else ""
    return [
        f'    model = hf.load("{PREFIX}{name}")',
        f'    data = hf.data.load("{config.data.name}", split="test"{transforms})',
    ]


def _network(config: RunConfig, weights: Path) -> list[str]:
    sides = " x ".join(map(str, (config.model.in_channels, *(config.model.image_size or ()))))
    options = _settings(config.model.options)
    kind = "16-bit" if config.train.half_weights else "32-bit"
    return [
        f"- Network: `{config.model.name}`{f' ({options})' if options else ''}, {count_parameters(weights):,} "
        f"values stored as {kind} numbers.",
        f"- Input: {sides} pixels in [0, 1]; {config.model.num_classes} classes.",
    ]


def _data(config: RunConfig) -> list[str]:
    spec = SPECS[config.data.name]
    counts = " and ".join(f"{count:,} {split}" for split, count in spec.counts.items())
    lines = [f"- Data: {config.data.name}, {counts} images."]
    if config.data.train_transforms:
        lines.append(f"- Transforms of the training images: {', '.join(config.data.train_transforms)}.")
    if config.data.transforms:
        lines.append(f"- Transforms of all images, also of those you pass to it: {', '.join(config.data.transforms)}.")
    return lines


def _method(config: RunConfig) -> list[str]:
    train = config.train
    rate = f", learning rate at most {train.lr:g}" if train.lr else ""
    start = f", starting from the run `{train.init}`" if train.init else ""
    return [
        f"- `{config.method.name}` with {_settings(config.method.settings) or 'no settings'}.",
        f"- {train.steps:,} steps of batch {train.batch_size}, {train.optimizer}{rate}{start}.",
        f"- Preset `{config.preset}`, seed {config.seed}.",
    ]


def _figures(view: RunView, config: RunConfig) -> list[str]:
    lines = [f"- Accuracy on the test set: {_stat(view.natural)}."]
    if view.pgd.median is not None and (budget := config.evaluate.pgd):
        lines.append(f"- Accuracy under PGD (eps {budget.eps:.4g}, {budget.steps} steps): {_stat(view.pgd)}.")
    columns = (Column(key="attack", title="Perturbation", unit="text"), COUNT, *metric_columns([view]))
    rows = [
        (
            Cell(value=TITLES.get(attack.name, attack.name)),
            Cell(value=max((stat.n for stat in attack.metrics.values()), default=0)),
            *(Cell(value=stat.median, ci95=stat.ci95) for stat in (attack.metrics[c.key] for c in columns[2:])),
        )
        for attack in ordered(view.attacks)
    ]
    notes = [
        "Median [95 % interval] over n correctly classified test images; a failed attack counts as 1.",
        f"Images: {view.limit or f'{view.n} of the test set, seed {view.seed}'}.",
    ]
    if ifia := config.evaluate.ifia:
        size = f"Perturbations of at most {ifia.eps:.4g} per pixel that keep the prediction"
        notes.append(f"{size}; top {ifia.eval_k or ifia.k} pixels.")
    title = f"Saliency maps ({config.evaluate.map})"
    table = Table(name="maps", title=title, columns=columns, rows=tuple(rows), notes=tuple(notes))
    return [*lines, "", to_markdown(table)]


def _origin(view: RunView, run: Run) -> list[str]:
    origin = Document(run.provenance, "provenance.json")
    minutes = f", {view.train_seconds / 60:.0f} minutes" if view.train_seconds else ""
    cost = f"- {view.example_passes:,.0f} example-passes{minutes}" if view.example_passes else "- cost not recorded"
    return [
        f"{cost}, on {origin.text('cpu', 'hardware not recorded')}, with the runs it starts from.",
        f"- Trained {origin.text('finished', 'at an unrecorded time')[:10]} with holdfast {origin.text('holdfast')}, "
        f"PyTorch {origin.text('torch')}, Python {origin.text('python')}.",
    ]


def _again(run: Run, config: RunConfig) -> list[str]:
    origin = Document(run.provenance, "provenance.json")
    state = ", with uncommitted changes" if run.provenance.get("dirty") else ""
    return [
        "The command that made this network:",
        "",
        f"    {origin.text('command') or f'holdfast train {config.preset} --seed {config.seed}'}",
        "",
        f"It was run at commit {origin.text('commit', 'unknown')}{state}. The complete settings are in `{CONFIG}` "
        "beside this card; `holdfast train --config FILE --out RUN` trains from them.",
    ]


def _licence(config: RunConfig) -> list[str]:
    spec = SPECS[config.data.name]
    return [
        "- Weights: MIT, as the package.",
        f"- Training data, which is not included: {spec.citation} Licence: {spec.licence}",
    ]


def _stat(stat: Stat) -> str:
    return f"{plain_cell(Cell(value=stat.median, ci95=stat.ci95), _SHARE)}, n = {stat.n:,}"


def _settings(values: Mapping[str, Any]) -> str:
    return ", ".join(f"{key} = {v:.6g}" if isinstance(v, float) else f"{key} = {v}" for key, v in values.items())
