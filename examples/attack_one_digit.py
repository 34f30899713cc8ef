"""Move the explanation of one digit: same picture, same prediction, another map.

    .venv/bin/python examples/attack_one_digit.py [picture.png]

Trains a small network on the embedded digits (a few seconds), attacks the integrated gradients of one test image and
draws the image, the changed image, what was added to it, and the map before and after.
"""

import sys
from pathlib import Path

import matplotlib.pyplot as plt
import torch
import torch.nn.functional as F

import holdfast as hf

EPS, TOP = 0.1, 12


def train_network(steps: int = 200) -> torch.nn.Module:
    """A small convolutional network that reads the digits."""
    loader = hf.data.Loader(hf.data.load("digits", split="train"), batch_size=64)
    model = hf.Classifier(hf.models.build("digits-cnn", num_classes=10, seed=0))
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    for step in range(steps):
        x, y, _ = loader.batch(step)
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()
        optimizer.step()
    return model.eval()


def attack_explanation(model: torch.nn.Module, x: torch.Tensor, y: torch.Tensor) -> hf.attacks.ExplanationResult:
    """Push the map's mass off its top pixels, with the prediction kept."""
    attack = hf.recipes.ifia(eps=EPS, step_size=0.01, steps=60, k=TOP, ig_steps=50, kind="topk")
    return attack.run(model, x, y, keys=hf.make_keys(0, torch.arange(len(x))))


def draw(x: torch.Tensor, x_adv: torch.Tensor, maps: list[torch.Tensor], titles: list[str], path: Path) -> None:
    """Five panels; both maps share one colour scale, so that only a real difference looks like one."""
    figure, axes = plt.subplots(1, 5, figsize=(11, 2.5), layout="constrained")
    brightest = max(float(m.max()) for m in maps)
    panels = [
        (x[0, 0], {"cmap": "gray", "vmin": 0, "vmax": 1}),
        (x_adv[0, 0], {"cmap": "gray", "vmin": 0, "vmax": 1}),
        ((x_adv - x)[0, 0], {"cmap": "RdBu", "vmin": -EPS, "vmax": EPS}),
        (maps[0][0], {"cmap": "viridis", "vmin": 0, "vmax": brightest}),
        (maps[1][0], {"cmap": "viridis", "vmin": 0, "vmax": brightest}),
    ]
    for axis, (picture, style), title in zip(axes, panels, titles, strict=True):
        axis.imshow(picture.numpy(), **style)
        axis.set_title(title, fontsize=10)
        axis.set_axis_off()
    figure.savefig(path, dpi=150)


def main(path: Path) -> None:
    data = hf.data.load("digits", split="test")
    x, y = hf.data.to_float(data.x[:40]), data.y[:40]
    model = train_network()
    result = attack_explanation(model, x, y)
    i = int(result.scores.top_k.nan_to_num(1).argmin())  # the digit whose map moved most
    x, x_adv, y = x[i : i + 1], result.x_adv[i : i + 1], y[i : i + 1]
    ig = hf.IntegratedGradients(steps=50)
    maps = [hf.saliency_map(ig(model, image, y)) for image in (x, x_adv)]
    before, after = (int(model(image).argmax()) for image in (x, x_adv))
    top_k, kendall = float(result.scores.top_k[i]), float(result.scores.kendall[i])
    titles = [f"read as {before}", f"changed, read as {after}", f"added, at most {EPS:g}", "map before", "map after"]
    draw(x, x_adv, maps, titles, path)
    print(f"read as {before} before and {after} after; {top_k:.0%} of the top {TOP} pixels kept, Kendall {kendall:.2f}")
    print(f"picture: {path}")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "attack_one_digit.png"))
