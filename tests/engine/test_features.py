"""Features as grids, and their capture."""

import threading

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from holdfast.engine.features import as_grid, captured, find_layer


@given(
    rows=st.integers(1, 9), columns=st.integers(1, 9), patch=st.sampled_from([1, 4, 16]), others=st.sampled_from([0, 1])
)
def test_tokens_keep_their_place(rows: int, columns: int, patch: int, others: int) -> None:
    tokens = torch.arange(rows * columns, dtype=torch.float64).reshape(1, -1, 1)
    tokens = torch.cat([torch.full((1, others, 1), -1.0, dtype=torch.float64), tokens], dim=1)
    grid = as_grid(tokens, rows * patch, columns * patch)
    if rows * columns < 2:
        assert grid is None
    else:
        assert grid is not None
        assert torch.equal(grid, torch.arange(rows * columns).double().reshape(1, 1, rows, columns))


@pytest.mark.parametrize(
    ("shape", "image", "expected"),
    [
        ((2, 8, 5, 7), (40, 56), (2, 8, 5, 7)),
        ((2, 8, 5, 5), (28, 28), (2, 8, 5, 5)),
        ((2, 5, 5, 8), (40, 40), (2, 8, 5, 5)),  # channels last
        ((2, 5, 7, 8), (40, 56), (2, 8, 5, 7)),
        ((2, 196 + 2, 8), (224, 224), (2, 8, 14, 14)),  # class and distillation token
        ((2, 256 + 5, 8), (224, 224), (2, 8, 16, 16)),  # class token and four registers
        ((2, 6 * 8, 3), (24, 32), (2, 3, 6, 8)),
        ((2, 8, 1, 1), (32, 32), None),
        ((2, 8), (32, 32), None),
        ((2, 2, 8), (32, 32), None),  # one patch
        ((2, 3, 8), (32, 32), None),
        ((2, 8, 4, 4, 4), (32, 32), None),
    ],
)
def test_grids_by_hand(shape: tuple[int, ...], image: tuple[int, int], expected: tuple[int, ...] | None) -> None:
    grid = as_grid(torch.rand(shape), *image)
    assert (None if grid is None else tuple(grid.shape)) == expected


def test_integers_are_no_features() -> None:
    assert as_grid(torch.zeros(1, 2, 4, 4, dtype=torch.int64), 8, 8) is None


def test_only_the_calling_thread_is_seen() -> None:
    layer = nn.Identity()
    with captured([layer]) as found:
        other = threading.Thread(target=lambda: layer(torch.ones(1)))
        other.start()
        other.join()
        assert not found
        layer(torch.zeros(2))
    assert found[layer].shape == (2,)
    assert not layer._forward_hooks


def test_outputs_of_several_tensors_and_several_calls() -> None:
    class Many(nn.Module):
        def forward(self, x):
            return {"none": None, "first": x + 1, "second": x + 2}

    class Nothing(nn.Module):
        def forward(self, x):
            return None

    many, pair, nothing = Many(), nn.LSTM(1, 1), Nothing()
    with captured([many, pair, nothing]) as found:
        many(torch.zeros(1))
        pair(torch.zeros(1, 1))
        nothing(torch.zeros(1))
        many(torch.ones(1))
    assert list(found) == [pair, many]  # in the order of the last calls
    assert found[many].tolist() == [2.0]
    assert found[pair].shape == (1, 1)


def test_hooks_are_removed_after_an_error() -> None:
    layers = [nn.Identity(), nn.Identity()]
    with pytest.raises(ZeroDivisionError), captured(layers):
        raise ZeroDivisionError
    assert not any(layer._forward_hooks for layer in layers)


def test_an_empty_container_is_a_module_too() -> None:
    net = nn.Sequential(nn.Sequential(), nn.Flatten())
    assert find_layer(net, "0") is net[0]
