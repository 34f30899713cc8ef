"""Two checks of a measured run: is the accuracy under PGD real, and does the fast protocol measure what the full does?

    .venv/bin/python benchmarks/checks.py results/mnist/erar_plus --images 100 --full 30

*AutoAttack* of the ART toolbox: four attacks, two of which need no useful gradient of the cross-entropy (DeepFool
climbs margins, Square only asks for logits); an image counts as right only if none of them fools the network. Masked
gradients show as an accuracy far below the one under PGD. All is as the toolbox has it, except that Square starts once
instead of five times, as its authors run it: a start takes 5,000 steps.

*Full protocol*: the run's reference attack with 100 points of the path in every iteration, on the first so many images
that its own, cheaper search has attacked.

Writes RUN/checks.json, which `holdfast reproduce` shows as a table. Needs the `dev` extra.
"""

import argparse
import time
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

import holdfast as hf
from holdfast.config import RunConfig, config_from_file
from holdfast.data import Dataset
from holdfast.engine.process import keep_memory
from holdfast.experiment.networks import load
from holdfast.experiment.run import load_data
from holdfast.models import Classifier
from holdfast.runs import collect_provenance, finish, read_json, read_run, write_json_atomic

FULL_POINTS = 100
REFERENCE = "ifia-topk"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", type=Path, nargs="+")
    parser.add_argument("--images", type=int, default=100, help="for AutoAttack; 0 leaves it out")
    parser.add_argument("--full", type=int, default=30, help="for the full protocol; 0 leaves it out")
    asked = parser.parse_args()
    keep_memory()
    for run in asked.runs:
        config = config_from_file(run / "config.toml")
        model, data = load(run), load_data(config, "test")
        for name, count, check in (("autoattack", asked.images, autoattack), ("full", asked.full, full_protocol)):
            if count:
                keep(run, name, check, model, data, config, count)


def keep(
    run: Path,
    name: str,
    check: Callable[[Path, Classifier, Dataset, RunConfig, int], dict[str, Any]],
    model: Classifier,
    data: Dataset,
    config: RunConfig,
    count: int,
) -> None:
    """Do a check and put what it found, with time and machine, beside the checks that are there."""
    origin, start = collect_provenance(seeds=[config.seed], threads=torch.get_num_threads()), time.perf_counter()
    found = check(run, model, data, config, count)
    found |= {"seconds": round(time.perf_counter() - start, 1), "provenance": finish(origin)}
    file = run / "checks.json"
    write_json_atomic(file, (read_json(file) if file.exists() else {}) | {name: found})
    print(run, name, {key: value for key, value in found.items() if key != "provenance"}, flush=True)


def autoattack(run: Path, model: Classifier, data: Dataset, config: RunConfig, count: int) -> dict[str, Any]:
    """Accuracy on clean images, under the run's own PGD, and under AutoAttack, on the same images."""
    from art.attacks.evasion import AutoAttack, SquareAttack
    from art.estimators.classification import PyTorchClassifier

    under = config.evaluate.pgd
    assert under is not None
    some = data.stratified(count, config.seed)
    x, y = hf.data.to_float(some.x), some.y
    attack = hf.recipes.pgd(**under.model_dump(exclude={"limit"}))
    found = {"clean": x, "pgd": attack(model, x, y, keys=hf.make_keys(config.seed, some.ids))}
    wrapped = PyTorchClassifier(
        Remembering(model.requires_grad_(False), most=10 * count),
        loss=torch.nn.CrossEntropyLoss(),
        input_shape=tuple(x.shape[1:]),
        nb_classes=int(model(x[:1]).shape[1]),
        clip_values=(0.0, 1.0),
        device_type="cpu",
    )
    toolbox = AutoAttack(wrapped, eps=under.eps, eps_step=under.eps / 4, batch_size=count)
    square = toolbox.attacks[-1]
    assert isinstance(square, SquareAttack)
    square.set_params(nb_restarts=1)
    found["autoattack"] = torch.from_numpy(toolbox.generate(x.numpy(), y.numpy()))
    farthest = float((found["autoattack"] - x).abs().max())
    assert farthest <= under.eps + 1e-5, farthest
    return {"n": count, **{name: _accuracy(model, images, y) for name, images in found.items()}}


class Remembering(torch.nn.Module):
    """The network with the logits of the images it saw last: Square asks three times for those of every image."""

    def __init__(self, model: Classifier, most: int) -> None:
        super().__init__()
        self.model, self.most = model, most
        self.known: OrderedDict[bytes, Tensor] = OrderedDict()

    def forward(self, x: Tensor) -> Tensor:
        if torch.is_grad_enabled():
            return self.model(x)
        keys = [image.tobytes() for image in x.numpy()]
        new = [at for at, key in enumerate(keys) if key not in self.known]
        if new:
            self.known.update(zip([keys[at] for at in new], self.model(x[new]), strict=True))
        for key in keys:
            self.known.move_to_end(key)
        logits = torch.stack([self.known[key] for key in keys])
        while len(self.known) > self.most:
            self.known.popitem(last=False)
        return logits


def full_protocol(run: Path, model: Classifier, data: Dataset, config: RunConfig, count: int) -> dict[str, Any]:
    """Medians of top-k and Kendall: as the run measured them, and with all points, on the same images."""
    rows = [row for row in read_run(run).rows_of(REFERENCE) if row.top_k is not None][:count]
    some = data.subset([data.ids.tolist().index(row.id) for row in rows])
    x = hf.data.to_float(some.x)
    protocol = config.evaluate.ifia
    assert protocol is not None
    attack = hf.recipes.ifia(**protocol.model_dump() | {"ig_steps": FULL_POINTS, "search_ig_steps": None})
    scores = attack.run(model, x, some.y, keys=hf.make_keys(config.seed, some.ids)).scores
    before = {name: torch.tensor([getattr(row, name) for row in rows]) for name in ("top_k", "kendall")}
    return {
        "n": len(rows),
        "steps": protocol.steps,
        "points": FULL_POINTS,
        **{name: _median(getattr(scores, name)) for name in before},
        **{f"{name}_measured": _median(values) for name, values in before.items()},
    }


def _accuracy(model: Classifier, x: Tensor, y: Tensor) -> float:
    with torch.no_grad():
        return (model(x).argmax(1) == y).double().mean().item()


def _median(values: Tensor) -> float:
    return values.double().nanquantile(0.5).item()


if __name__ == "__main__":
    main()
