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


def test_a_search_sees_that_it_can_add_attribution_to_a_black_pixel() -> None:
    """m_i = 4 |a_i| / sum |a|: d m_i / d |a_j| = (4 [i = j] - m_i) / 5 at |a| = (2, 3, 0, 0), m = (1.6, 2.4, 0, 0)."""
    a = torch.tensor([[[[2.0, -3.0], [0.0, 0.0]]]], requires_grad=True)
    for straight_through, slope in ((False, 0.0), (True, 1.0)):  # of |a| at 0
        shown = hf.saliency_map(a, straight_through=straight_through)
        assert shown.tolist() == hf.saliency_map(a).tolist()
        (of_black,) = torch.autograd.grad(shown[0, 1, 0], a, retain_graph=True)
        torch.testing.assert_close(of_black[0, 0], slope * torch.tensor([[0.0, 0.0], [0.8, 0.0]]))
        (of_other,) = torch.autograd.grad(shown[0, 0, 1], a)
        torch.testing.assert_close(of_other[0, 0], torch.tensor([[-0.48, -0.32], [-0.48 * slope, -0.48 * slope]]))


def test_needs_images() -> None:
    with pytest.raises(InputError, match=r"\[B, C, H, W\]"):
        hf.saliency_map(torch.rand(2, 5))
