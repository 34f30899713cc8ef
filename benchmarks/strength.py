"""Strength against passes: the strongest attack beside the ensemble of version 0.1, on the committed networks.

    python benchmarks/strength.py results/mnist/madry results/gtsrb/madry --limit 100
    python benchmarks/strength.py results/mnist/madry --leave-one-out --limit 24
    python benchmarks/strength.py results/mnist/{madry,trades,erar_plus} --no-old --score centred-logit --seed 45

Both attacks explain the true logit unless `--score` says otherwise, on the same test images, drawn with a seed that no
published table uses. Each line of the output is appended to benchmarks/strength.jsonl.
"""

import argparse
import json
import time
from collections import Counter
from pathlib import Path

import torch

import holdfast as hf
from holdfast.attacks.strongest import EDITION
from holdfast.config import config_from_file
from holdfast.data import to_float
from holdfast.engine.passes import count_passes
from holdfast.experiment.run import load_data
from holdfast.recipes import strongest
from holdfast.runs import collect_provenance
from holdfast.runs.names import STRONGEST

SEED = 5
OUT = Path(__file__).parent / "strength.jsonl"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("runs", type=Path, nargs="+")
    parser.add_argument("--limit", type=int, default=100)
    parser.add_argument("--passes", type=int, nargs="+", default=[2000])
    parser.add_argument("--leave-one-out", action="store_true")
    parser.add_argument("--no-old", action="store_true")
    parser.add_argument("--old", type=int, nargs=2, default=[10, 3], metavar=("STEPS", "POINTS"), help="its search")
    parser.add_argument("--seed", type=int, default=SEED, help="draws the test images and the noise of the attacks")
    parser.add_argument("--score", choices=["true-logit", "centred-logit"], default="true-logit")
    parser.add_argument("--builder", help="package.module:function of a run's own network")
    options = parser.parse_args()
    for run in options.runs:
        config = config_from_file(run / "config.toml")
        model = hf.load(run, network=options.builder).eval()
        data = load_data(config, "test").stratified(options.limit, seed=options.seed)
        wanted = config.evaluate.ifia
        assert wanted is not None
        k = wanted.eval_k or wanted.k
        shared = {"eps": float(wanted.eps), "k": k, "quantize": wanted.quantize}
        score = hf.centred_logit if options.score == "centred-logit" else hf.true_logit
        ig = hf.IntegratedGradients(steps=50, score=score)
        attacks: dict[str, object] = {}
        if not (options.no_old or options.leave_one_out):
            steps, points = options.old
            before = shared | {"k": wanted.k, "eval_k": k, "steps": steps, "search_ig_steps": points}
            name = f"ensemble of version 0.1, {steps} steps, {points} points"
            attacks[name] = hf.recipes.ifia_ensemble(**before, attribution=ig)
        for passes in options.passes:
            attacks[f"{STRONGEST}, {passes:,} passes"] = strongest(**shared, attribution=ig, passes=passes)
        if options.leave_one_out:
            whole = strongest(**shared, attribution=ig, passes=options.passes[0])
            attacks |= {f"without {name}": whole.without(name) for name in whole.names}
        for name, attack in attacks.items():
            report(run, name, attack, model, data, {"seed": options.seed, "score": options.score})


def report(run: Path, name: str, attack: object, model: object, data: object, settings: dict[str, object]) -> None:
    """Run one attack and write its figures; `settings` are the seed and the score."""
    started, parts, winners = time.monotonic(), [], Counter()
    with count_passes() as counter:
        for start in range(0, len(data), 50):
            part = data.subset(range(start, min(start + 50, len(data))))
            keys = hf.make_keys(settings["seed"], part.ids)
            result = attack.run(model, to_float(part.x), part.y, keys=keys)
            parts.append(torch.stack([result.reported_scores[m] for m in ("top_k", "kendall")]))
            for metric, names in getattr(result, "winners", {}).items():
                winners.update(f"{metric}: {name}" for name in names if name)
    scores = torch.cat(parts, dim=1)
    attacked = scores[:, ~scores.isnan().any(0)]
    line = {
        "run": f"{run.parent.name}/{run.name}",
        "attack": name,
        "n": attacked.shape[1],
        "top_k": {"mean": round(float(attacked[0].mean()), 4), "median": round(float(attacked[0].median()), 4)},
        "kendall": {"mean": round(float(attacked[1].mean()), 4), "median": round(float(attacked[1].median()), 4)},
        "passes_per_image": round(counter.passes / len(data)),
        "seconds": round(time.monotonic() - started),
        "threads": torch.get_num_threads(),
        **settings,
        "winners": dict(winners.most_common()),
        "edition": EDITION,
        "commit": collect_provenance()["commit"],
    }
    print(json.dumps(line), flush=True)
    with OUT.open("a") as file:
        file.write(json.dumps(line) + "\n")


if __name__ == "__main__":
    main()
