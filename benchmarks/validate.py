"""Train a preset on a part of its training images and measure it on the rest: how recipes are chosen.

    python benchmarks/validate.py fashion-mnist/erar_plus:cpu --start results/fashion-mnist/madry
    python benchmarks/validate.py fashion-mnist/erar_plus:cpu --start results/fashion-mnist/madry \
        --method.settings.weight 100 --train.steps 200

1,000 stratified training images are held out: natural accuracy on all of them, PGD-20 on 300 (--under-pgd), the
strongest attack on the map of the centred logit on 40 (--under-strongest; mean top-k and Kendall's tau). The test
images are not read. Any key of the config can be set, as with `holdfast train`; `--train.steps 0` measures the initial
network. Each line of the output is appended to benchmarks/validate.jsonl. Presets whose transforms make training
examples from others (`balance`, `mirror`) are not for this script, since copies of held-out images would stay among the
training images; `--data.train_transforms []` leaves the transforms out.
"""

import argparse
import json
import sys
import time
from pathlib import Path

import torch

import holdfast as hf
from holdfast.config import RunConfig, make_config
from holdfast.config.overrides import split_overrides
from holdfast.data import Dataset, Loader, to_float
from holdfast.engine.process import keep_memory
from holdfast.experiment.run import prepare, shared_with_fit
from holdfast.models import Classifier
from holdfast.training import FitSettings, fit

SEED = 7
HELD_OUT = 1000
OUT = Path(__file__).parent / "validate.jsonl"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("preset")
    parser.add_argument("--start", type=Path, help="run directory or file of the initial weights")
    parser.add_argument("--passes", type=int, default=1000, help="passes per image of the strongest attack")
    parser.add_argument("--under-pgd", type=int, default=300, help="images under PGD-20")
    parser.add_argument("--under-strongest", type=int, default=40, help="images under the strongest attack")
    words, overrides = split_overrides(sys.argv[1:])
    options = parser.parse_args(words)
    untrained = dict(overrides).get("train.steps") == "0"
    config = make_config(options.preset, overrides=[o for o in overrides if not (untrained and o[0] == "train.steps")])
    ready = prepare(config, start=options.start)
    held_out, rest = split(ready.data)
    started, passes = time.monotonic(), 0
    if not untrained:
        given = shared_with_fit(ready.config)
        settings = FitSettings(**given, schedule=ready.schedule, seed=config.seed, progress=False)
        loader = Loader(rest, ready.config.train.batch_size, seed=config.seed)
        passes = fit(ready.objective, loader, ready.optimizer, settings).example_passes
    seconds = time.monotonic() - started
    line = {
        "preset": options.preset,
        "changes": dict(overrides),
        "example_passes": passes,
        "seconds": round(seconds),
        **measure(ready.model.eval(), held_out, ready.config, options),
        "passes_per_image": options.passes,
        "threads": torch.get_num_threads(),
    }
    print(json.dumps(line), flush=True)
    with OUT.open("a") as file:
        file.write(json.dumps(line) + "\n")


def split(data: Dataset) -> tuple[Dataset, Dataset]:
    """Held-out images and the rest."""
    held_out = data.stratified(HELD_OUT, seed=SEED)
    out = torch.isin(data.ids, held_out.ids)
    return held_out, data.subset(torch.nonzero(~out).flatten().tolist())


def measure(model: Classifier, data: Dataset, config: RunConfig, options: argparse.Namespace) -> dict[str, object]:
    """Accuracy, accuracy under PGD-20 and strength of the maps on held-out images."""
    protocol = config.evaluate.ifia
    eps, k = float(protocol.eps), protocol.eval_k or protocol.k
    with torch.no_grad():
        right = torch.cat([model(to_float(x)).argmax(1) for x in data.x.split(200)]) == data.y
    pgd = hf.recipes.pgd(eps=eps, steps=20, step_size=eps / 8)
    some = data.stratified(options.under_pgd, seed=SEED)
    robust = []
    for start in range(0, len(some), 50):
        part = some.subset(range(start, min(start + 50, len(some))))
        result = pgd.run(model, to_float(part.x), part.y, keys=hf.make_keys(SEED, part.ids))
        with torch.no_grad():
            robust.append(model(result.x_adv).argmax(1) == part.y)
    few = data.stratified(options.under_strongest, seed=SEED)
    attack = hf.recipes.strongest(eps=eps, k=k, passes=options.passes, quantize=protocol.quantize)
    found = attack.run(model, to_float(few.x), few.y, keys=hf.make_keys(SEED, few.ids))
    scores = {name: found.reported_scores[name] for name in ("top_k", "kendall")}
    return {
        "natural": round(float(right.float().mean()), 4),
        "pgd_n": len(some),
        "pgd_20": round(float(torch.cat(robust).float().mean()), 4),
        "n": int((~scores["top_k"].isnan()).sum()),
        **{name: round(float(value.nanmean()), 4) for name, value in scores.items()},
    }


if __name__ == "__main__":
    keep_memory()
    main()
