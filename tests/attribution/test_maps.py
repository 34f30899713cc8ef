"""The shown map: by hand, and always defined."""

import pytest
import torch

import holdfast as hf
from holdfast.errors import InputError


def test_map_by_hand() -> None:
    attribution = torch.tensor([[[[1.0, -2.0], [0.0, 0.0]], [[-1.0, 0.0], [3.0, 1.0]]]])  # [1, 2, 2, 2]
    # |.| over channels: 2 2 / 3 1, sum 8, four pixels
    assert hf.saliency_map(attribution).tolist() == [[[1.0, 1.0], [1.5, 0.5]]]


def test_zero_attribution_gives_a_zero_map_with_finite_gradient() -> None:
    attribution = torch.zeros(1, 1, 28, 28, requires_grad=True)
    shown = hf.saliency_map(attribution)
    assert not shown.any()
    shown.sum().backward()
    assert attribution.grad is not None
    assert attribution.grad.isfinite().all()


def test_needs_images() -> None:
    with pytest.raises(InputError, match=r"\[B, C, H, W\]"):
        hf.saliency_map(torch.rand(2, 5))
