"""Print the tables of docs/scaling.md: what each table of the paper takes, and the runs behind it.

    .venv/bin/python benchmarks/scaling.py                  # all tables with the settings of the paper
    .venv/bin/python benchmarks/scaling.py --rate 20 gtsrb  # one table, another assumed rate in TFLOP/s per GPU
    .venv/bin/python benchmarks/scaling.py --check results  # the same formula on finished runs: achieved GFLOP/s

The formula is in `holdfast.bench.scaling`. The rate is an assumption, all other numbers are counted.
"""

import argparse
from pathlib import Path

from holdfast.bench.scaling import RunCost, TableCost, run_cost, table_cost
from holdfast.errors import InputError
from holdfast.experiment.tables import TABLES
from holdfast.runs import read_json

NODE, ARRAY = 8, 50
RATE = 8.0
"""Assumed TFLOP/s of one GPU in float32: 40 % of the 19.5 that NVIDIA states for an A100 without tensor cores."""


def three(value: float) -> str:
    """Three digits without an exponent: 12,500."""
    return f"{float(f'{value:.3g}'):,.6g}"


def print_presets(tables: list[TableCost]) -> None:
    """One line per preset: FLOPs of a pass, passes per example and in total, FLOPs in total."""
    print("| preset | GFLOP per pass | passes per example | r | training passes | evaluation passes | PFLOP |")
    print("|---|---|---|---|---|---|---|")
    seen: dict[str, RunCost] = {run.preset: run for table in tables for run in table.runs}
    for run in sorted(seen.values(), key=lambda run: run.preset):
        counts = (
            f"{run.passes_per_example:,.0f} | {run.ratio:.2f} | {run.train_passes:.2g} | {run.evaluation_passes:.2g}"
        )
        name = run.preset.removesuffix(":paper")
        print(f"| {name} | {three(run.flops_per_pass / 1e9)} | {counts} | {three(run.flops / 1e15)} |")


def print_tables(tables: list[TableCost], rate: float) -> None:
    """One line per table: GPU-hours of one seed, wall-clock hours on a node, and of an array of many seeds."""
    node = f"{NODE} GPUs, one run per GPU | {NODE} GPUs, every run split over all"
    print(f"| table | runs | GPU-hours | {node} | array of {ARRAY} jobs |")
    print("|---|---|---|---|---|---|")
    for table in tables:
        seeds = max(1, ARRAY // len(table.runs))
        alone, each = table.hours(1, rate * 1e12), table.hours(NODE, rate * 1e12)
        wide = table.hours(ARRAY, rate * 1e12, seeds)
        hours = f"{three(alone)} | {three(each)} h | ≥ {three(alone / NODE)} h | {three(wide)} h for {seeds} seeds"
        print(f"| {table.name} | {len(table.runs)} | {hours} |")


def print_check(folder: Path) -> None:
    """Finished runs: counted passes against those that training logged, and the rate the machine reached."""
    print("| run | passes logged | passes by the formula | GFLOP/s | threads |")
    print("|---|---|---|---|---|")
    for file in sorted(folder.glob("*/*/provenance.json")):
        origin, preset = read_json(file), f"{file.parts[-3]}/{file.parts[-2]}:cpu"
        cost = origin.get("training")
        if not cost or "-seed" in preset:
            continue
        run = run_cost(preset, measured=False)
        rate = cost["example_passes"] * run.ratio * run.flops_per_pass / cost["seconds"] / 1e9
        logged, expected = cost["example_passes"], run.train_passes * cost["steps"] / max(1, cost["steps"])
        print(f"| {preset} | {logged:,} | {expected:,.0f} | {rate:.0f} | {origin['threads']} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tables", nargs="*", default=[name for name, table in TABLES.items() if table.in_paper])
    parser.add_argument("--tier", default="paper")
    parser.add_argument("--rate", type=float, default=RATE, help="assumed TFLOP/s per GPU")
    parser.add_argument("--check", type=Path, help="folder of finished runs, DATASET/METHOD")
    options = parser.parse_args()
    if options.check is not None:
        print_check(options.check)
        return
    tables, absent = [], []
    for name in options.tables:
        try:
            tables.append(table_cost(name, options.tier))
        except InputError:
            absent.append(name)
    if absent:
        print(f"no presets of tier {options.tier}: {', '.join(absent)}")
    print(f"tier {options.tier}, one seed, assumed: {options.rate:g} TFLOP/s per GPU\n")
    print_tables(tables, options.rate)
    print()
    print_presets(tables)


if __name__ == "__main__":
    main()
