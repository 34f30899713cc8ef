"""Print what each table of the paper takes: passes, FLOPs, hours on one 8-GPU node and as an array of 50 jobs.

    .venv/bin/python benchmarks/scaling.py                  # all tables with the settings of the paper
    .venv/bin/python benchmarks/scaling.py --rate 20 gtsrb  # one table, another assumed rate in TFLOP/s per GPU
    .venv/bin/python benchmarks/scaling.py --check results  # the same formula on finished runs: achieved GFLOP/s

The formula is in `holdfast.bench.scaling`. The rate is an assumption, all other numbers are counted.
"""

import argparse
from pathlib import Path

from holdfast.bench.scaling import RunCost, TableCost, run_cost, table_cost
from holdfast.experiment.tables import TABLES
from holdfast.runs import read_json

NODE, ARRAY = 8, 50
RATE = 8.0
"""Assumed TFLOP/s of one GPU in float32: 40 % of the 19.5 that NVIDIA states for an A100 without tensor cores."""


def print_presets(tables: list[TableCost]) -> None:
    """One line per preset: passes of a training step and FLOPs of a pass."""
    print(
        "| preset | network | GFLOP per pass | passes per example | r | training passes | evaluation passes | PFLOP |"
    )
    print("|---|---|---|---|---|---|---|---|")
    seen: dict[str, RunCost] = {run.preset: run for table in tables for run in table.runs}
    for run in sorted(seen.values(), key=lambda run: run.preset):
        counts = (
            f"{run.passes_per_example:,.0f} | {run.ratio:.2f} | {run.train_passes:.2g} | {run.evaluation_passes:.2g}"
        )
        line = f"{run.preset} | {run.network} | {run.flops_per_pass / 1e9:.3g} | {counts} | {run.flops / 1e15:,.3g}"
        print(f"| {line} |")


def print_tables(tables: list[TableCost], rate: float) -> None:
    """One line per table: GPU-hours of one seed, wall-clock hours on a node, and of an array of many seeds."""
    array = f"hours as {ARRAY} jobs (seeds)"
    print(f"| table | tier | runs | PFLOP | GPU-hours | hours on {NODE} GPUs | hours on 1 GPU | {array} |")
    print("|---|---|---|---|---|---|---|---|")
    for table in tables:
        seeds = max(1, ARRAY // len(table.runs))
        alone, node = table.hours(1, rate * 1e12), table.hours(NODE, rate * 1e12)
        wide = table.hours(ARRAY, rate * 1e12, seeds)
        cells = [table.name, table.tier, len(table.runs), f"{table.flops / 1e15:,.3g}", f"{alone:,.3g}"]
        print(f"| {' | '.join(map(str, cells))} | {node:,.3g} | {alone:,.3g} | {wide:,.3g} ({seeds}) |")


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
    parser.add_argument("tables", nargs="*", default=[name for name in TABLES if name != "digits"])
    parser.add_argument("--tier", default="paper")
    parser.add_argument("--rate", type=float, default=RATE, help="assumed TFLOP/s per GPU")
    parser.add_argument("--check", type=Path, help="folder of finished runs, DATASET/METHOD")
    options = parser.parse_args()
    if options.check is not None:
        print_check(options.check)
        return
    tables = [table_cost(name, options.tier) for name in options.tables]
    print_presets(tables)
    print(f"\nassumed: {options.rate:g} TFLOP/s per GPU, one run per GPU\n")
    print_tables(tables, options.rate)


if __name__ == "__main__":
    main()
