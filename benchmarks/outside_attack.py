"""A second attack on the map of the centred logit, written independently of holdfast/attacks, beside the strongest one.

    python benchmarks/outside_attack.py results/fashion-mnist/madry results/mnist/madry --limit 20

Only the map, the metrics and the loading of networks and images are holdfast's. Each line of the output is appended to
benchmarks/outside_attack.jsonl: the mean top-k intersection and Kendall's tau of the strongest attack, of this one, and
of the worse of both per image.

How it differs from the strongest attack:

- The searched map has the network's own gates, hence its exact values; only the derivative of a gate is smooth.
- A step differentiates the map at one point of the path, but the loss is that of the whole map: the gradients at the
  other points are remembered from earlier steps.
- The loss for Kendall's tau compares each pixel with those near it in the *current* order, where pairs can be reversed.
"""

import argparse
import itertools
import json
import math
import time
from dataclasses import dataclass
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.overrides import TorchFunctionMode

import holdfast as hf
from holdfast.attacks.strongest import EDITION
from holdfast.config import config_from_file
from holdfast.engine.passes import count_passes
from holdfast.experiment.run import load_data
from holdfast.runs import collect_provenance

OUT = Path(__file__).parent / "outside_attack.jsonl"
STORED, ROWS = 8, 48
GOLDEN = (5**0.5 - 1) / 2
SEARCHES = {
    "top_k": ({"widths": (0.5, 0.05), "sharp": (1.0, 0.1)}, {"widths": (0.05, 0.005), "sharp": (0.5, 0.05)}),
    "kendall": ({"widths": (0.15, 0.05), "sharp": (0.5, 0.1)}, {"widths": (0.05, 0.01), "sharp": (0.5, 0.1)}),
}
"""Per metric two searches: widths of the gates and of the loss at the start and at the end."""


def rms(z: Tensor, width: float) -> Tensor:
    size = torch.linalg.vector_norm(z.detach().flatten(1), dim=1) / math.sqrt(z[0].numel())
    return (width * size).clamp_min(1e-6).reshape(-1, *[1] * (z.dim() - 1))


class Kink(torch.autograd.Function):
    """A (leaky) ReLU with its own value and slope; only the derivative of the slope is that of a sigmoid."""

    @staticmethod
    def forward(ctx, z, leak, width):
        ctx.save_for_backward(z)
        ctx.settings = leak, width
        return F.leaky_relu(z, leak)

    @staticmethod
    def backward(ctx, dy):
        (z,), (leak, width) = ctx.saved_tensors, ctx.settings
        smooth = torch.sigmoid(z / rms(z, width))
        gate = (z > 0).to(z) + (smooth - smooth.detach())
        return dy * (leak + (1 - leak) * gate), None, None


class Pool(torch.autograd.Function):
    """2 x 2 max-pooling, likewise."""

    @staticmethod
    def forward(ctx, z, width):
        ctx.save_for_backward(z)
        ctx.width = width
        return F.max_pool2d(z, 2)

    @staticmethod
    def backward(ctx, dy):
        (z,) = ctx.saved_tensors
        batch, channels, height, wide = z.shape
        windows = F.pixel_unshuffle(z, 2).reshape(batch, channels, 4, height // 2, wide // 2)
        smooth = (windows / rms(windows, ctx.width)).softmax(2)
        own = (windows == windows.amax(2, keepdim=True)).to(z).detach()
        share = own + (smooth - smooth.detach())
        back = (share * dy[:, :, None]).reshape(batch, 4 * channels, height // 2, wide // 2)
        return F.pixel_shuffle(back, 2), None


class curved(TorchFunctionMode):  # noqa: N801  (used like a function)
    """Inside this context, the kinks of the network have a smooth second derivative."""

    def __init__(self, width: float) -> None:
        super().__init__()
        self.width = width

    def __torch_function__(self, function, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if function in (torch.relu, F.relu):
            return Kink.apply(args[0], 0.0, self.width)
        if function is F.leaky_relu:
            return Kink.apply(args[0], args[1] if len(args) > 1 else kwargs["negative_slope"], self.width)
        if function in (F.max_pool2d, torch.max_pool2d):
            return Pool.apply(args[0], self.width)
        return function(*args, **kwargs)


class Size(torch.autograd.Function):
    """|a| with the derivative 1 at zero, so that black pixels have a gradient."""

    @staticmethod
    def forward(ctx, a):
        ctx.save_for_backward(a)
        return a.abs()

    @staticmethod
    def backward(ctx, dy):
        return torch.where(ctx.saved_tensors[0] < 0, -dy, dy)


@dataclass
class Task:
    """The images of one search. `one_point`: the map needs only the gradient at the image. `passes` counts."""

    model: torch.nn.Module
    x: Tensor
    y: Tensor
    eps: float
    k: int
    quantize: bool
    one_point: bool
    passes: int = 0

    def __post_init__(self) -> None:
        self.low, self.high = (self.x - self.eps).clamp_min(0), (self.x + self.eps).clamp_max(1)
        self.clean = self.map(self.x)
        flat = self.clean.flatten(1)
        self.top = torch.zeros_like(flat).scatter_(1, flat.topk(self.k, 1).indices, 1)
        self.safe = 0.1 * margins(self.logits(self.x), self.y).clamp_min(1e-12)

    def map(self, x: Tensor) -> Tensor:
        self.passes += len(x) * (2 if self.one_point else 100)
        ig = hf.IntegratedGradients(steps=50, score=hf.centred_logit)
        return hf.saliency_map(ig(self.model, x, self.y)).detach()

    def logits(self, x: Tensor) -> Tensor:
        self.passes += len(x)
        with torch.no_grad():
            return self.model(x)

    def inside(self, x: Tensor) -> Tensor:
        return torch.minimum(torch.maximum(x, self.low), self.high)

    def allowed(self, x: Tensor) -> Tensor:
        """Inside the ball and, if asked for, moved by whole grey levels, rounded towards the clean image."""
        x = self.inside(x)
        if not self.quantize:
            return x
        levels = (x - self.x) * 255
        return ((self.x * 255).round() + (levels + 1e-3 * levels.sign()).trunc()) / 255

    def scores(self, x: Tensor) -> dict[str, Tensor]:
        """Both metrics by the full map; 1 where the label is lost."""
        keeps = self.logits(x).argmax(1) == self.y
        shown = self.map(x)
        found = {
            "top_k": hf.metrics.top_k_intersection(self.clean, shown, self.k),
            "kendall": hf.metrics.kendall_tau(self.clean, shown),
        }
        return {name: value.where(keeps, 1.0) for name, value in found.items()}


def margins(logits: Tensor, y: Tensor) -> Tensor:
    return logits.gather(1, y[:, None])[:, 0] - logits.scatter(1, y[:, None], -torch.inf).amax(1)


def unit(gradient: Tensor) -> Tensor:
    return gradient / gradient.abs().mean((1, 2, 3), keepdim=True).clamp_min(1e-30)


def pull(task: Task, metric: str, attribution: Tensor, rows: Tensor, width: float, step: int) -> Tensor:
    """The derivative of minus the (soft) metric in the attribution."""
    attribution = attribution.detach().requires_grad_()
    amount = Size.apply(attribution).sum(1).flatten(1)
    amount = amount / amount.mean(1, keepdim=True).detach().clamp_min(1e-30)
    loss = fewer_of_the_top if metric == "top_k" else reversed_neighbours
    return torch.autograd.grad(loss(task, amount, rows, width, step).sum(), attribution)[0]


def fewer_of_the_top(task: Task, amount: Tensor, rows: Tensor, width: float, step: int) -> Tensor:
    level = (amount + 1e-3).log()
    edge = level.detach().topk(task.k + 1, 1).values[:, -2:].mean(1, keepdim=True)
    return (torch.sigmoid((level - edge) / width) * (1 - 2 * task.top[rows])).sum(1)


def reversed_neighbours(task: Task, amount: Tensor, rows: Tensor, width: float, step: int) -> Tensor:
    """Pairs by their distance in the current order: each short one, and some of the long ones with more weight."""
    level = (amount + 0.3).log()
    order = level.detach().argsort(1)
    level, clean = level.gather(1, order), task.clean.flatten(1)[rows].gather(1, order)
    pixels, total = level.shape[1], level.new_zeros(len(rows))
    edges = sorted({round((pixels - 1) ** (j / 40)) for j in range(41)})
    for number, (near, far) in enumerate(itertools.pairwise(edges)):
        d = near + int((0.5 + (step + 7 * number) * GOLDEN) % 1 * (far - near))
        kept = torch.sign(clean[:, d:] - clean[:, :-d]) * torch.tanh((level[:, d:] - level[:, :-d]) / width)
        total = total - (far - near) * kept.sum(1)
    return total


def point_gradient(task: Task, x: Tensor, rows: Tensor, at: float, *, graph: bool) -> Tensor:
    """The gradient of the centred logit at the point `at` of the path from black to x."""
    there = x * at
    logits, y = task.model(there), task.y[rows]
    score = logits.gather(1, y[:, None])[:, 0] - logits.mean(1)
    return torch.autograd.grad(score.sum(), there, create_graph=graph)[0]


def search(task: Task, metric: str, start: Tensor, steps: int, widths, sharp) -> Tensor:
    """The last iterate of an ascent with Adam from `start`."""
    x, mean, square = start, torch.zeros_like(start), torch.zeros_like(start)
    stored = None if task.one_point else remembered(task, x)
    for step in range(steps):
        progress = step / max(1, steps - 1)
        width, sharpness = (a * (b / a) ** progress for a, b in (widths, sharp))
        at = (0.5 + step * GOLDEN) % 1
        parts = []
        for rows in torch.arange(len(x)).split(ROWS):
            there = x[rows].detach().requires_grad_()
            with curved(width):
                gradient = point_gradient(task, there, rows, 1.0 if stored is None else at, graph=True)
            whole = gradient.detach()
            if stored is not None:
                stored[rows, int(at * STORED)] = whole
                whole = stored[rows].mean(1)
            wanted = pull(task, metric, x[rows] * whole, rows, sharpness, step)
            parts.append(torch.autograd.grad((wanted * there * gradient).sum(), there)[0])
        task.passes += 4 * len(x)
        up = unit(torch.cat(parts).nan_to_num()) + towards_label(task, x)
        mean, square = 0.9 * mean + 0.1 * up, 0.99 * square + 0.01 * up.square()
        direction = mean / (1 - 0.9 ** (step + 1)) / ((square / (1 - 0.99 ** (step + 1))).sqrt() + 1e-8)
        size = 0.3 * task.eps * 0.5 * (1 + math.cos(math.pi * step / steps))
        x = task.inside(x + size * direction)
    return x


def remembered(task: Task, x: Tensor) -> Tensor:
    """The gradients at `STORED` points of the path, [B, STORED, C, H, W]."""
    task.passes += 2 * STORED * len(x)
    there, rows = x.detach().requires_grad_(), torch.arange(len(x))
    points = [point_gradient(task, there, rows, (j + 0.5) / STORED, graph=False) for j in range(STORED)]
    return torch.stack(points, 1)


def towards_label(task: Task, x: Tensor) -> Tensor:
    """The gradient of the margin where the margin is small."""
    pressure = (1 - margins(task.logits(x), task.y) / task.safe).clamp(0, 2)
    push, close = torch.zeros_like(x), (pressure > 0).nonzero().flatten()
    if len(close):
        there = x[close].detach().requires_grad_()
        margin = margins(task.model(there), task.y[close])
        task.passes += 2 * len(close)
        push[close] = unit(torch.autograd.grad(margin.sum(), there)[0]) * pressure[close].reshape(-1, 1, 1, 1)
    return push


def outside(task: Task, passes: int, seed: int) -> dict[str, Tensor]:
    """The worst value of each metric, [B], over the four searches of `SEARCHES`, with about `passes` per image."""
    judged = 5 * (3 if task.one_point else 101)
    steps = max(10, int((passes - judged - (0 if task.one_point else 8 * STORED)) / (4 * 5.5)))
    noise = torch.rand(task.x.shape, generator=torch.Generator().manual_seed(seed))
    flat = task.clean.flatten(1)
    dim = (flat <= flat.median(1, keepdim=True).values).reshape(-1, 1, *task.x.shape[2:])
    starts = {"top_k": task.low + noise * (task.high - task.low), "kendall": torch.where(dim, task.high, task.low)}
    worst = {metric: torch.ones(len(task.x), dtype=torch.float64) for metric in SEARCHES}
    for metric, settings in SEARCHES.items():
        for setting in settings:
            started = time.process_time()
            found = task.scores(task.allowed(search(task, metric, starts[metric], steps, **setting)))
            means = {name: round(float(value.mean()), 4) for name, value in found.items()}
            print("  ", metric, setting["widths"], means, f"{time.process_time() - started:.0f} s", flush=True)
            for name, value in found.items():
                worst[name] = worst[name].minimum(value)
    return worst


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("runs", type=Path, nargs="+")
    parser.add_argument("--limit", type=int, default=20, help="test images; the correctly predicted of them count")
    parser.add_argument("--first", type=int, help="of these, only the first so many")
    parser.add_argument("--seed", type=int, default=11)
    parser.add_argument("--passes", type=int, default=2000, help="of the outside attack, per image")
    parser.add_argument("--strongest", type=int, nargs="*", default=[2000], help="passes of the strongest attack")
    options = parser.parse_args()
    for run in options.runs:
        config = config_from_file(run / "config.toml")
        wanted = config.evaluate.ifia
        model = hf.load(run).eval().requires_grad_(False)
        data = load_data(config, "test").stratified(options.limit, seed=options.seed)
        x, y, keys = hf.data.to_float(data.x), data.y, hf.make_keys(options.seed, data.ids)
        rows = (model(x).argmax(1) == y).nonzero().flatten()[: options.first]
        x, y, keys = x[rows], y[rows], keys[rows]
        shared = {"eps": float(wanted.eps), "k": wanted.eval_k or wanted.k, "quantize": wanted.quantize}
        task = Task(model, x, y, one_point=getattr(model, "scale_invariant", False), **shared)
        ours = outside(task, options.passes, options.seed)
        report(run, "outside", options.seed, ours, task.passes / len(x))
        for passes in options.strongest:
            with count_passes() as counter:
                found = hf.recipes.strongest(passes=passes, **shared).run(model, x, y, keys=keys).worst
            theirs = {name: found[name] for name in SEARCHES}
            report(run, f"strongest {passes}", options.seed, theirs, counter.passes / len(x))
            both = {name: ours[name].minimum(theirs[name]) for name in SEARCHES}
            report(run, f"worse of outside and strongest {passes}", options.seed, both, None)


def report(run: Path, attack: str, seed: int, values: dict[str, Tensor], passes: float | None) -> None:
    line = {"run": f"{run.parent.name}/{run.name}", "attack": attack, "n": len(values["top_k"]), "seed": seed}
    line |= {name: round(float(value.mean()), 4) for name, value in values.items()}
    line |= {"passes_per_image": None if passes is None else round(passes), "threads": torch.get_num_threads()}
    line |= {"edition": EDITION, "commit": collect_provenance()["commit"]}
    print(json.dumps(line), flush=True)
    with OUT.open("a") as file:
        file.write(json.dumps(line) + "\n")


if __name__ == "__main__":
    main()
