"""How large the terms of the paper's loss are, and whether its three readings of the change of attribution agree.

    .venv/bin/python benchmarks/size_of_terms.py

Trains `paper-cnn` naturally on MNIST for 200 steps, finds x' by PGD, and prints median, minimum and maximum of every
part over 50 test images: the figures quoted in docs/paper-notes.md.
"""

import torch
import torch.nn.functional as F

import holdfast as hf
from holdfast.losses import CACR, WACR, CrossEntropy, IGNorm

IMAGES, SEED = 50, 0


def natural_network() -> torch.nn.Module:
    loader = hf.data.Loader(hf.data.load("mnist"), batch_size=50)
    model = hf.models.build("paper-cnn", num_classes=10, init="torch", seed=SEED)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for step in range(200):
        x, y, _ = loader.batch(step)
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()
        optimizer.step()
    return model.eval()


def pair(model: torch.nn.Module) -> hf.Pair:
    data = hf.data.load("mnist", split="test").subset(range(IMAGES))
    x = hf.data.to_float(data.x)
    pgd = hf.PGD(CrossEntropy(), ball=hf.Linf(0.1), steps=10, step_size=0.025, random_start=True, best_by=hf.LAST)
    return hf.Pair(x, pgd(model, x, data.y, keys=hf.make_keys(SEED, data.ids)), data.y)


def print_parts(model: torch.nn.Module, images: hf.Pair) -> None:
    losses = (CACR(), CACR(negative="per-point"), CACR(scale=100.0), IGNorm())
    for loss in (*losses, *(WACR(change=change) for change in ("difference", "path", "loss-path"))):
        context = loss.context(model, images)
        value = context.log("value", loss.value(context, {}))
        print(f"\n{loss}   negative on {float((value < 0).double().mean()):.0%} of the images")
        for name, part in context.parts.items():
            print(f"  {name:10s} median {part.median():.3g}   from {part.min():.3g} to {part.max():.3g}")


def print_agreement(model: torch.nn.Module, images: hf.Pair) -> None:
    ig = hf.IntegratedGradients(steps=50, score=hf.true_probability)
    difference = (ig(model, images.x_adv, images.y) - ig(model, images.x, images.y)).flatten(1)
    path = ig.between(model, images.x, images.x_adv, images.y).flatten(1)
    print(f"\ndifference and path: median cosine {F.cosine_similarity(difference, path).median():.2f},", end=" ")
    print(f"sums {difference.sum(1).median():.3f} and {path.sum(1).median():.3f}")


if __name__ == "__main__":
    network = natural_network()
    images = pair(network)
    print_parts(network, images)
    print_agreement(network, images)
