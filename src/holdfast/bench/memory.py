"""Peak memory of a second-order step on large images, measured in a process of its own."""

import multiprocessing
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from importlib.util import find_spec

import torch
from torch import nn

from holdfast.bench.machine import peak_memory
from holdfast.bench.timing import seconds
from holdfast.bench.work import images, keys, network

EPS, LARGE = 8 / 255, 224


@dataclass(frozen=True, kw_only=True)
class Memory:
    """Peak resident memory of a process that attacks the maps of a few large images, in bytes."""

    name: str
    seconds: float
    peak: int
    target: int = 4 * 2**30

    @property
    def reached(self) -> bool:
        """Whether the peak is at most the target."""
        return self.peak <= self.target


def memory(*, quick: bool) -> Memory:
    """One step of an attack on the maps of 16 images at 224 x 224, on a network of the size of ResNet-18."""
    side, batch = (32, 2) if quick else (LARGE, 16)
    name = "ResNet-18" if _is_resnet(side) else "wrn-16-2"
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        time, peak = pool.submit(_attack, side, batch, torch.get_num_threads()).result()
    return Memory(name=f"step of an attack on maps, {batch} images, {name} {side}²", seconds=time, peak=peak)


def _attack(side: int, batch: int, threads: int) -> tuple[float, int]:
    import holdfast as hf

    torch.set_num_threads(threads)
    net = _network(side)
    x, _ = images(batch, (3, side, side))
    x = (x + 0.05 * torch.rand(x.shape, generator=torch.Generator().manual_seed(0))).clamp(0, 1)
    with torch.no_grad():
        y = torch.cat([net(image[None]).argmax(1) for image in x])
    attack = hf.recipes.ifia(
        eps=EPS, step_size=EPS / 4, steps=1, k=side, kind="cosine", attribution=hf.InputXGradient()
    )  # fmt: skip
    return seconds(lambda: attack(net, x, y, keys=keys(len(x)))), peak_memory()


def _network(side: int) -> nn.Module:
    if not _is_resnet(side):
        return network("wrn-16-2", (3, side, side))
    from pytorchcv.models.resnet import resnet18

    torch.manual_seed(0)
    net: nn.Module = resnet18(num_classes=10, in_size=(side, side)).eval()
    return net


def _is_resnet(side: int) -> bool:
    return side == LARGE and find_spec("pytorchcv") is not None
