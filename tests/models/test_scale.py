"""f(a x) = f(x) is recognised where it holds and nowhere else."""

import pytest
import torch
from tests.nets import LinearSoftmax
from torch import nn

from holdfast.errors import InputError
from holdfast.models import Classifier, build, is_scale_invariant

X = torch.rand(3, 3, 16, 16)


def test_standardising_network() -> None:
    net = build("paper-resnet", num_classes=5, units_per_stage=1, seed=0)
    assert is_scale_invariant(net, X)
    assert is_scale_invariant(Classifier(net, std=[0.2, 0.2, 0.2]), X)


def test_ordinary_network() -> None:
    assert not is_scale_invariant(build("wrn-10-1", num_classes=5, seed=0).eval(), X)
    assert not is_scale_invariant(LinearSoftmax(3 * 16 * 16), X)


def test_a_large_bias_is_not_invariance() -> None:
    model = LinearSoftmax(3 * 16 * 16)
    nn.init.constant_(model.layer.bias, 1e6)
    assert not is_scale_invariant(model, X)


def test_a_constant_network_shows_nothing() -> None:
    assert not is_scale_invariant(lambda x: torch.ones(len(x), 2), X)


def test_black_images_show_nothing() -> None:
    with pytest.raises(InputError, match="not all black"):
        is_scale_invariant(LinearSoftmax(3 * 16 * 16), torch.zeros_like(X))
