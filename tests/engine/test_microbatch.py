"""A loss slice by slice: the same number, the same gradient, less memory."""

from collections.abc import Iterator

import pytest
import torch
from tests.oracles import tiny_images
from torch import nn

import holdfast as hf
from holdfast.engine import microbatch, parallel
from holdfast.engine.passes import count_passes
from holdfast.losses import CACR, WACR, CrossEntropy, DeadZone, Loss
from holdfast.objective.objective import summed
from holdfast.types import Pair

LOSSES: dict[str, Loss] = {
    "erar": CrossEntropy() + CACR(steps=4) + WACR(steps=4),
    "maps": hf.losses.MapCosine(attribution=hf.IntegratedGradients(steps=3), beta=None, through_clean=True),
    "weights only": DeadZone(level=0.3),
}


@pytest.fixture(params=[1, 2])
def few_at_a_time(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Two examples a slice at the most, on one thread and on two."""
    before = torch.get_num_threads()
    monkeypatch.setattr(microbatch, "images_per_pass", lambda x: 8)
    monkeypatch.setattr(parallel, "WORTH_A_THREAD", 1)
    torch.set_num_threads(request.param)
    yield
    torch.set_num_threads(before)


def layers() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(1, 4, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(36, 3)
    ).double()  # fmt: skip


def pair(count: int = 7) -> Pair:
    x = tiny_images(count)
    return Pair(
        x,
        (x + 0.1 * torch.rand(x.shape, generator=torch.Generator().manual_seed(1))).clamp(0, 1),
        torch.arange(count) % 3,
    )


def whole(loss: Loss, net: nn.Module) -> tuple[torch.Tensor, list[torch.Tensor | None]]:
    value = loss(net, pair()).sum()
    return value, list(torch.autograd.grad(value, list(net.parameters()), allow_unused=True))


@pytest.mark.parametrize("name", LOSSES)
def test_value_and_gradient_are_those_of_the_whole_batch(name: str, few_at_a_time: None) -> None:
    net, loss = layers(), LOSSES[name]
    with count_passes() as meter:
        value, parts = summed(loss, net, pair())
    with count_passes() as at_once:
        value_whole, gradients = whole(loss, net)
    (2 * value).backward()
    torch.testing.assert_close(value, value_whole)
    for parameter, gradient in zip(net.parameters(), gradients, strict=True):
        if gradient is None:
            assert parameter.grad is None
        else:
            torch.testing.assert_close(parameter.grad, 2 * gradient)
    assert all(part.shape == (7,) for part in parts.values())
    assert meter.passes == at_once.passes


def test_frozen_weights_and_no_gradient_at_all(few_at_a_time: None) -> None:
    net = layers()
    with torch.no_grad():
        value, _ = summed(LOSSES["erar"], net, pair())
    assert not value.requires_grad
    first, *others = net.parameters()
    first.requires_grad_(False)
    value, _ = summed(LOSSES["erar"], net, pair())
    value.backward()
    assert first.grad is None
    assert all(p.grad is not None for p in others)


def test_batch_normalisation_in_training_sees_the_whole_batch(few_at_a_time: None) -> None:
    net = nn.Sequential(
        nn.Flatten(), nn.BatchNorm1d(tiny_images(1).numel()), nn.Linear(tiny_images(1).numel(), 3)
    ).double()
    loss = CrossEntropy()
    value, _ = summed(loss, net, pair())
    net[1].reset_running_stats()
    torch.testing.assert_close(value, loss(net, pair()).sum())


def test_losses_that_hold_something_for_each_example(few_at_a_time: None) -> None:
    net, both = layers(), pair()
    loss = hf.losses.TargetMass(k=5, target=tiny_images(7, seed=3)[:, 0], attribution=hf.IntegratedGradients(steps=3))
    value, _ = summed(loss, net, both)
    torch.testing.assert_close(value, loss(net, both).sum())


def test_whoever_listens_to_a_gradient_hears_it_once(few_at_a_time: None) -> None:
    net, heard = layers(), []
    first = next(net.parameters())
    first.register_hook(lambda gradient: heard.append(gradient))
    summed(LOSSES["erar"], net, pair())[0].backward()
    assert len(heard) == 1


def test_weights_whose_hooks_cannot_be_seen_are_not_sliced() -> None:
    class Secretive(nn.Parameter):
        @property
        def _backward_hooks(self) -> None:
            raise AttributeError

    net, x = layers(), pair().x
    assert microbatch._can_be_sliced(net, x, list(net.parameters()))
    assert not microbatch._can_be_sliced(net, x, [Secretive(torch.zeros(2)), *net.parameters()])


def test_a_gradient_in_the_image_is_not_lost(few_at_a_time: None) -> None:
    net, both = layers(), pair()
    x_adv = both.x_adv.clone().requires_grad_()
    summed(CrossEntropy(), net, Pair(both.x, x_adv, both.y))[0].backward()
    assert x_adv.grad is not None


def test_no_examples(few_at_a_time: None) -> None:
    both = pair()
    value, _ = summed(CrossEntropy(), layers(), Pair(both.x[:0], both.x_adv[:0], both.y[:0]))
    assert value == 0


def test_slices_hold_less_memory(few_at_a_time: None) -> None:
    """Counted as the largest number of images in one forward pass."""
    largest = 0

    class Watching(torch.overrides.TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            nonlocal largest
            if func is torch.nn.functional.linear:
                largest = max(largest, len(args[0]))
            return func(*args, **(kwargs or {}))

    with Watching():
        summed(LOSSES["erar"], layers(), pair())
    assert largest <= 8
