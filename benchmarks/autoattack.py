"""Is the accuracy under PGD real, or are gradients masked? The ART toolbox's AutoAttack on the same network.

    .venv/bin/python benchmarks/autoattack.py results/mnist/erar_plus --images 100

Four attacks, two of which need no useful gradient of the cross-entropy (DeepFool climbs margins, Square only asks for
logits); an image counts as right only if none of them fools the network. Appends one JSON line to
benchmarks/autoattack.jsonl. The toolbox and the package `multiprocess` come with the `dev` extra.
"""

import argparse
import json
import time
from pathlib import Path

import torch
from art.attacks.evasion import AutoAttack
from art.estimators.classification import PyTorchClassifier

import holdfast as hf
from holdfast.config import config_from_file
from holdfast.experiment import load, load_data
from holdfast.results import collect_provenance
from holdfast.results.lines import append_lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("runs", type=Path, nargs="+")
    parser.add_argument("--images", type=int, default=100)
    for run in (asked := parser.parse_args()).runs:
        line = measure(run, asked.images)
        print(line)
        append_lines(Path("benchmarks/autoattack.jsonl"), json.dumps(line) + "\n")


def measure(run: Path, count: int) -> dict[str, object]:
    """Accuracy of a run's network on clean images, under our PGD-100 and under AutoAttack, on the same images."""
    config = config_from_file(run / "config.toml")
    under = config.evaluate.pgd
    assert under is not None
    model, data = load(run), load_data(config, "test").stratified(count, config.seed)
    x, y = hf.data.to_float(data.x), data.y
    start = time.perf_counter()
    attack = hf.recipes.pgd(**under.model_dump(exclude={"limit"}))
    found = {"clean": x, "pgd": attack(model, x, y, keys=hf.make_keys(config.seed, data.ids))}
    wrapped = PyTorchClassifier(
        model.requires_grad_(False),
        loss=torch.nn.CrossEntropyLoss(),
        input_shape=tuple(x.shape[1:]),
        nb_classes=int(model(x[:1]).shape[1]),
        clip_values=(0.0, 1.0),
        device_type="cpu",
    )
    toolbox = AutoAttack(wrapped, eps=under.eps, eps_step=under.eps / 4, batch_size=count)
    found["autoattack"] = torch.from_numpy(toolbox.generate(x.numpy(), y.numpy()))
    with torch.no_grad():
        right = {name: (model(images).argmax(1) == y).double().mean().item() for name, images in found.items()}
    farthest = float((found["autoattack"] - x).abs().max())
    assert farthest <= under.eps + 1e-5, farthest
    origin = collect_provenance(threads=torch.get_num_threads())
    seconds = round(time.perf_counter() - start, 1)
    return {"run": str(run), "n": count, "eps": under.eps, **right, "seconds": seconds, "origin": origin}


if __name__ == "__main__":
    main()
