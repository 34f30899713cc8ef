"""Does the fast protocol of the attack on maps measure the same as the paper's? Same network, same images, both ways.

    .venv/bin/python benchmarks/fast_protocol.py results/mnist/madry --images 100 --threads 1

Appends one JSON line to benchmarks/fast_protocol.jsonl: medians of top-k and Kendall under all, the mean difference
of an image's score, example-passes and seconds.
"""

import argparse
import json
import time
from pathlib import Path

import torch

import holdfast as hf
from holdfast.config import config_from_file
from holdfast.engine.passes import count_passes
from holdfast.engine.process import keep_memory
from holdfast.experiment.networks import load
from holdfast.experiment.run import load_data
from holdfast.runs import collect_provenance
from holdfast.storage.lines import append_lines

PAPER_POINTS = 100


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("run", type=Path)
    parser.add_argument("--images", type=int, default=100)
    parser.add_argument("--steps", type=int, default=None, help="iterations; those of the run's config if not given")
    parser.add_argument("--points", type=int, nargs="+", default=[5, 10], help="midpoints of the fast protocol")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    asked = parser.parse_args()
    torch.set_num_threads(asked.threads)
    keep_memory()
    config = config_from_file(asked.run / "config.toml")
    protocol = config.evaluate.ifia
    assert protocol is not None
    steps = asked.steps or protocol.steps
    model, data = load(asked.run), load_data(config, "test").stratified(asked.images, config.seed)
    x, y, keys = hf.data.to_float(data.x), data.y, hf.make_keys(config.seed, data.ids)
    line: dict[str, object] = {"run": str(asked.run), "dataset": config.dataset, "n": asked.images, "steps": steps}
    scores = {}
    for name, points in (*((f"fast {points}", points) for points in asked.points), ("paper", None)):
        attack = hf.recipes.ifia(
            eps=protocol.eps,
            step_size=protocol.step_size,
            steps=steps,
            k=protocol.k,
            eval_k=protocol.eval_k,
            ig_steps=PAPER_POINTS,
            search_ig_steps=points,
        )
        start = time.perf_counter()
        with count_passes() as meter:
            result = attack.run(model, x, y, keys=keys)
        scores[name] = result.scores
        line[name] = {
            "top_k": result.scores.top_k.nanmedian().item(),
            "kendall": result.scores.kendall.nanmedian().item(),
            "seconds": round(time.perf_counter() - start, 1),
            "example_passes": meter.passes,
            "outcomes": result.counts,
        }
        print(name, line[name], flush=True)
    for name in scores:
        for metric in ("top_k", "kendall"):
            apart = (getattr(scores[name], metric) - getattr(scores["paper"], metric)).abs()
            line[f"{name}: mean |difference| of {metric}"] = apart[apart.isfinite()].mean().item()
    origin = collect_provenance(threads=asked.threads)
    append_lines(Path("benchmarks/fast_protocol.jsonl"), json.dumps(line | {"origin": origin}) + "\n")


if __name__ == "__main__":
    main()
