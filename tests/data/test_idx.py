"""The IDX reader: exact on good files, a clear refusal on any other bytes."""

import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays
from numpy.typing import NDArray

from holdfast.data.formats.idx import read_idx
from holdfast.errors import DataError


def idx_bytes(array: NDArray[np.uint8]) -> bytes:
    return struct.pack(f">BBBB{array.ndim}I", 0, 0, 8, array.ndim, *array.shape) + array.tobytes()


UINT8 = arrays(np.uint8, array_shapes(min_dims=1, max_dims=3, max_side=5))


@given(UINT8)
def test_round_trip(array: NDArray[np.uint8]) -> None:
    np.testing.assert_array_equal(read_idx(idx_bytes(array), dims=array.ndim), array)


@given(UINT8, st.data())
def test_cut_or_grown_files_are_refused(array: NDArray[np.uint8], data: st.DataObject) -> None:
    whole = idx_bytes(array)
    cut = data.draw(st.integers(0, len(whole) - 1))
    for broken in (whole[:cut], whole + b"\0"):
        with pytest.raises(DataError, match="expected"):
            read_idx(broken, dims=array.ndim)


@given(st.binary(max_size=40), st.integers(1, 3))
def test_any_bytes_give_an_array_or_a_data_error(data: bytes, dims: int) -> None:
    try:
        array = read_idx(data, dims=dims)
    except DataError:
        return
    assert idx_bytes(array) == data


def test_huge_sizes_are_refused_before_allocating() -> None:
    header = struct.pack(">BBBB3I", 0, 0, 8, 3, *[2**32 - 1] * 3)
    with pytest.raises(DataError, match=str((2**32 - 1) ** 3)):
        read_idx(header + b"abc", dims=3)


def test_no_images_of_a_huge_size_are_refused() -> None:
    # no byte is promised, none is missing, and yet no array can have this shape
    with pytest.raises(DataError, match="which has none"):
        read_idx(struct.pack(">BBBB3I", 0, 0, 8, 3, 0, 2**32 - 1, 2**32 - 1), dims=3)


def test_wrong_number_of_dimensions() -> None:
    with pytest.raises(DataError, match="starting with 00000803, found 00000801"):
        read_idx(idx_bytes(np.zeros(3, np.uint8)), dims=3)
