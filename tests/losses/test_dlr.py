"""The difference of logits ratio: values by hand, what leaves it unchanged, and few classes."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

import holdfast as hf
from holdfast.losses import DLR, Margin


def value(loss: DLR, logits: list[float], y: int, clean: list[float] | None = None) -> float:
    """The loss of a network whose logits are the pixels."""
    x, x_adv = (torch.tensor([[[row]]], dtype=torch.float64) for row in (clean or logits, logits))
    return loss(lambda v: v.flatten(1), hf.Pair(x, x_adv, torch.tensor([y]))).item()


def test_values_by_hand() -> None:
    logits = [3.0, 1.0, 0.0, -1.0]
    assert value(DLR(), logits, 0) == pytest.approx((1 - 3) / (3 - 0))
    assert value(DLR(), logits, 1) == pytest.approx((3 - 1) / (3 - 0))  # wrong already: positive
    assert value(DLR(), logits, 3) == pytest.approx((3 + 1) / (3 - 0))


def test_targets_by_hand() -> None:
    logits = [3.0, 1.0, 0.0, -1.0]
    spread = 3 - (0 - 1) / 2
    for rank, target in ((1, 1.0), (2, 0.0), (3, -1.0)):
        assert value(DLR(target_rank=rank), logits, 0) == pytest.approx((target - 3) / spread)
    # the target is chosen at the clean image
    assert value(DLR(target_rank=1), logits, 0, clean=[3.0, 0.0, 2.0, 1.0]) == pytest.approx((0 - 3) / spread)


def test_few_classes() -> None:
    assert value(DLR(), [2.0, 1.0], 0) == pytest.approx(-1.0)  # the margin
    assert value(DLR(target_rank=1), [2.0, 1.0, 0.0], 0) == pytest.approx((1 - 2) / (2 - 0))
    with pytest.raises(hf.InputError, match="target_rank <= 2"):
        value(DLR(target_rank=3), [2.0, 1.0, 0.0], 0)
    with pytest.raises(hf.InputError, match="target_rank >= 1"):
        DLR(target_rank=0)


@settings(max_examples=30)
@given(seed=st.integers(0, 1000), scale=st.floats(0.1, 50), shift=st.floats(-5, 5), target=st.sampled_from([None, 2]))
def test_scale_and_shift_change_nothing(seed: int, scale: float, shift: float, target: int | None) -> None:
    """So saturated logits, whose cross-entropy has no gradient left, do not stop an attack."""
    x = torch.rand(5, 1, 1, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
    pair, loss = hf.Pair(x, x, torch.arange(5)), DLR(target_rank=target)

    def net(v: Tensor) -> Tensor:
        return scale * v.flatten(1) + shift

    torch.testing.assert_close(loss(net, pair), loss(lambda v: v.flatten(1), pair), rtol=1e-6, atol=1e-9)
    assert torch.equal(DLR()(net, pair) > 0, Margin()(net, pair) > 0)
