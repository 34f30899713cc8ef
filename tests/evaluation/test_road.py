"""ROAD: the imputation against a dense linear solve, and the curves by hand."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tests.trained import digits, trained
from torch import Tensor

import holdfast as hf
from holdfast.errors import InputError
from holdfast.evaluation.road import impute, road


def dense(image: np.ndarray, removed: np.ndarray) -> np.ndarray:
    """One image [H, W]: write down the equation of every removed pixel and let numpy solve them."""
    height, width = image.shape
    unknown = [tuple(p) for p in np.argwhere(removed)]
    matrix, target = np.zeros((len(unknown), len(unknown))), np.zeros(len(unknown))
    for i, (r, c) in enumerate(unknown):
        for dr in (-1, 0, 1):
            for dc in (-1, 0, 1):
                p = (r + dr, c + dc)
                if (dr, dc) == (0, 0) or not (0 <= p[0] < height and 0 <= p[1] < width):
                    continue
                weight = 1 / 6 if dr == 0 or dc == 0 else 1 / 12
                matrix[i, i] += weight
                if removed[p]:
                    matrix[i, unknown.index(p)] -= weight
                else:
                    target[i] += weight * image[p]
    filled = image.copy()
    filled[tuple(np.transpose(unknown))] = np.linalg.solve(matrix, target)
    return filled


@st.composite
def cases(draw: st.DrawFn) -> tuple[Tensor, Tensor]:
    height, width, channels = draw(st.integers(1, 8)), draw(st.integers(2, 8)), draw(st.sampled_from([1, 3]))
    generator = torch.Generator().manual_seed(draw(st.integers(0, 10_000)))
    x = torch.rand(3, channels, height, width, generator=generator, dtype=torch.float64)
    share = draw(st.sampled_from([0.1, 0.5, 0.9, 1.0]))
    removed = torch.rand(3, height, width, generator=generator) < share
    kept = torch.randint(height * width, (3, 1), generator=generator)
    return x, removed.flatten(1).scatter(1, kept, False).reshape(3, height, width)


@given(case=cases())
def test_imputation_equals_a_dense_solve(case: tuple[Tensor, Tensor]) -> None:
    x, removed = case
    found = impute(x, removed)
    for i in range(len(x)):
        torch.testing.assert_close(impute(x[i : i + 1], removed[i : i + 1]), found[i : i + 1], rtol=0, atol=0)
        for channel in range(x.shape[1]):
            if removed[i].any():
                expected = dense(x[i, channel].numpy(), removed[i].numpy())
                np.testing.assert_allclose(found[i, channel].numpy(), expected, atol=1e-7)
    assert torch.equal(found.movedim(1, -1)[~removed], x.movedim(1, -1)[~removed])  # nothing else changes
    assert found.min() >= x.min() - 1e-7
    assert found.max() <= x.max() + 1e-7


def test_one_pixel_left_fills_the_image_with_it() -> None:
    x, removed = torch.rand(1, 1, 28, 28, dtype=torch.float64), torch.ones(1, 28, 28, dtype=torch.bool)
    removed[0, 3, 20] = False
    torch.testing.assert_close(impute(x, removed), x[:, :, 3:4, 20:21].expand_as(x), rtol=0, atol=1e-6)


def test_imputation_by_hand() -> None:
    x = torch.zeros(1, 1, 3, 3)
    x[0, 0, 0, 1] = x[0, 0, 2, 2] = 1.0
    removed = torch.zeros(1, 3, 3, dtype=torch.bool)
    removed[0, 1, 1] = True  # one direct and one diagonal neighbour are bright
    assert impute(x, removed)[0, 0, 1, 1].item() == pytest.approx(1 / 6 + 1 / 12)


def first_pixel(x: Tensor) -> Tensor:
    """Logits whose softmax is (x_0, 1 - x_0) for the first pixel x_0."""
    p = x.flatten(1)[:, 0].clamp(1e-6, 1 - 1e-6)
    return torch.stack([p.log(), (1 - p).log()], dim=1)


def test_curves_by_hand() -> None:
    # a row of four pixels, the first is bright; removing it alone leaves the value of its neighbour, 0.25
    x = torch.tensor([[[[0.75, 0.25, 0.25, 0.25]]]])
    y, keys, maps = torch.tensor([0]), torch.tensor([5]), torch.tensor([[[4.0, 3.0, 2.0, 1.0]]])
    quiet = {"keys": keys, "shares": (0.25, 0.5), "noise": 0.0}
    assert road(first_pixel, x, y, maps, most_first=True, **quiet).item() == pytest.approx(0.25)
    assert road(first_pixel, x, y, maps, most_first=False, **quiet).item() == pytest.approx(0.75)
    assert road(first_pixel, x, y, -maps, most_first=False, **quiet).item() == pytest.approx(0.25)


def test_noise_depends_on_the_key_only() -> None:
    x, y, maps = torch.rand(4, 1, 5, 5), torch.zeros(4, dtype=torch.int64), torch.rand(4, 5, 5)
    keys = hf.make_keys(0, torch.arange(4))
    every = road(first_pixel, x, y, maps, keys=keys, most_first=True, noise=0.2)
    some = road(first_pixel, x[2:], y[2:], maps[2:], keys=keys[2:], most_first=True, noise=0.2)
    torch.testing.assert_close(every[2:], some, rtol=0, atol=1e-12)
    other = road(first_pixel, x, y, maps, keys=keys + 1, most_first=True, noise=0.2)
    assert not torch.equal(every, other)


def test_removing_what_matters_hurts_more() -> None:
    model, (x, y) = trained("digits-cnn", 8), (part[:40] for part in digits("test"))
    maps, keys = hf.saliency_map(hf.Gradient()(model, x, y)), hf.make_keys(0, torch.arange(40))
    most, least = (road(model, x, y, maps, keys=keys, most_first=way).mean() for way in (True, False))
    noise = road(model, x, y, torch.rand(40, 8, 8), keys=keys, most_first=True).mean()
    assert most < noise < least


@pytest.mark.parametrize("shares", [(), (0.0,), (0.5, 1.0)])
def test_shares_must_leave_a_pixel(shares: tuple[float, ...]) -> None:
    x, y = torch.rand(1, 1, 2, 2), torch.tensor([0])
    with pytest.raises(InputError, match="between 0 and 1"):
        road(first_pixel, x, y, x[:, 0], keys=y, most_first=True, shares=shares)


def test_bad_marks() -> None:
    with pytest.raises(InputError, match="at least one pixel"):
        impute(torch.rand(1, 1, 2, 2), torch.ones(1, 2, 2, dtype=torch.bool))
    with pytest.raises(InputError, match="bool marks"):
        impute(torch.rand(1, 1, 2, 2), torch.ones(1, 2, 2))
