"""Memory and time of ONE training step of the full-size WRN-28-10 presets, each in a process of its own.

    nice .venv/bin/python benchmarks/one_step.py                            # all eight presets
    nice .venv/bin/python benchmarks/one_step.py gtsrb-wrn/erar --batch 2   # one of them

Images are random: neither time nor memory depends on what they show. Peak memory is that of the whole process, with
Python and PyTorch. Each result is a JSON line with the hardware, appended to benchmarks/one_step.jsonl.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

PRESETS = [f"{data}-wrn/{method}" for data in ("gtsrb", "flower17") for method in ("natural", "madry", "art", "erar")]
FILE = Path(__file__).with_name("one_step.jsonl")


def one_step(preset: str, batch: int) -> dict[str, Any]:
    """Build the preset with its own network and settings, and take one step of its optimiser."""
    import torch

    from holdfast.config import complete, load_preset
    from holdfast.data.registry import find_spec
    from holdfast.experiment.networks import build_model
    from holdfast.experiment.run import _optimizer
    from holdfast.recipes import METHODS
    from holdfast.rng import make_keys
    from holdfast.runs import collect_provenance

    config = complete(load_preset(f"{preset}:paper"))
    spec = find_spec(config.data.name)
    channels, height, width = spec.image_shape
    shape = {"num_classes": len(spec.class_names), "in_channels": channels, "image_size": (height, width)}
    model = build_model(config.model.model_copy(update=shape), seed=0).train()
    objective = METHODS[config.method.name](model, **config.method.settings)
    optimizer = _optimizer(config, model)
    ids = torch.arange(batch)
    x = torch.rand(batch, channels, height, width, generator=torch.Generator().manual_seed(0))
    before = _peak()
    started, used = time.monotonic(), time.process_time()
    objective(x, ids % shape["num_classes"], make_keys(0, ids)).total.backward()
    optimizer.step()
    wall, cpu = time.monotonic() - started, time.process_time() - used
    origin = collect_provenance(seeds=[0], device="cpu", threads=torch.get_num_threads())
    return {
        "preset": preset,
        "batch": batch,
        "seconds": round(wall, 1),
        "cpu_seconds": round(cpu, 1),
        "example_passes": objective.example_passes,
        "peak_gb": round(_peak(), 2),
        "before_gb": round(before, 2),
        "load": os.getloadavg()[0],
        **{key: origin[key] for key in ("cpu", "cores", "threads", "torch", "platform")},
    }


def _peak() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def measured(preset: str, batch: int) -> dict[str, Any]:
    """`one_step` in a process of its own; what it died of, if it did."""
    words = [sys.executable, __file__, preset, "--batch", str(batch), "--here"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode:
        reason = "killed, out of memory" if done.returncode == -9 else (done.stderr.strip().splitlines() or ["?"])[-1]
        return {"preset": preset, "batch": batch, "failed": reason}
    return dict(json.loads(done.stdout.splitlines()[-1]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("presets", nargs="*", default=PRESETS)
    parser.add_argument("--batch", type=int, default=2)
    parser.add_argument("--memory", type=float, help="largest memory in GB; beyond it a step fails instead of swapping")
    parser.add_argument("--here", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.memory:
        most = int(options.memory * 2**30)
        resource.setrlimit(resource.RLIMIT_DATA, (most, most))
    if options.here:
        print(json.dumps(one_step(options.presets[0], options.batch)))
        return
    for preset in options.presets:
        line = json.dumps(measured(preset, options.batch))
        print(line, flush=True)
        with FILE.open("a") as file:
            file.write(f"{line}\n")


if __name__ == "__main__":
    main()
