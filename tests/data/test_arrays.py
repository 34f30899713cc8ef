"""Whatever a file holds becomes uint8 NCHW and int64, or is refused with a reason."""

import numpy as np
import pytest
from numpy.typing import NDArray

from holdfast.data.formats.arrays import make_arrays
from holdfast.errors import DataError, InputError

NHWC = np.arange(2 * 4 * 5 * 3, dtype=np.uint8).reshape(2, 4, 5, 3)
Y = np.array([0, 1])


@pytest.mark.parametrize(
    ("x", "layout"), [(NHWC, None), (NHWC.transpose(0, 3, 1, 2), None), (NHWC.transpose(0, 3, 1, 2), "NCHW")]
)
def test_layouts_agree(x: NDArray[np.uint8], layout: str | None) -> None:
    arrays = make_arrays(x, Y, layout=layout)
    assert arrays.x.shape == (2, 3, 4, 5)
    assert arrays.x.flags.c_contiguous
    assert arrays.checksum() == make_arrays(NHWC, Y).checksum()


def test_grey_images_get_a_channel() -> None:
    assert make_arrays(NHWC[..., 0], Y).x.shape == (2, 1, 4, 5)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_float_multiples_of_a_level_are_exact(dtype: type) -> None:
    levels = np.arange(256, dtype=np.uint8).reshape(1, 16, 16)
    for floats in (levels.astype(dtype) / dtype(255), levels.astype(dtype) * dtype(1 / 255)):
        np.testing.assert_array_equal(make_arrays(floats, Y[:1]).x[0], levels)


def test_other_floats_only_on_request() -> None:
    x = np.full((2, 4, 4), 0.3, np.float32) + 0.001
    with pytest.raises(DataError, match="quantize=True"):
        make_arrays(x, Y)
    assert make_arrays(x, Y, quantize=True).x[0, 0, 0, 0] == 77


@pytest.mark.parametrize(
    ("x", "y", "message"),
    [
        (np.full((2, 4, 4), 1.5), Y, r"in \[0, 1\], found 1.5"),
        (np.full((2, 4, 4), np.nan), Y, r"in \[0, 1\]"),
        (np.zeros((2, 4, 4), np.int32), Y, "uint8 or float, found int32"),
        (np.zeros((2, 4), np.uint8), Y, "found shape"),
        (np.zeros((2, 5, 4, 7), np.uint8), Y, "pass layout="),
        (np.zeros((2, 3, 4, 3), np.uint8), Y, "pass layout="),
        (NHWC, np.array([0, 1, 2]), "2 images and 3 labels"),
        (NHWC, np.array([0.0, 1.0]), "integers, found float64"),
        (NHWC, np.array([[0], [1]]), "flat array"),
        (NHWC, np.array([0, -1]), "from 0 to 999999, found -1"),
    ],
)
def test_refusals(x: NDArray[np.uint8], y: NDArray[np.int64], message: str) -> None:
    with pytest.raises(DataError, match=message):
        make_arrays(x, y)


def test_unknown_layout() -> None:
    with pytest.raises(InputError, match="NHWC, NCHW, NHW, got 'HWCN'"):
        make_arrays(NHWC, Y, layout="HWCN")


def test_checksum_sees_shape_labels_and_pixels() -> None:
    base = make_arrays(NHWC, Y)
    pixel = NHWC.copy()
    pixel[0, 0, 0, 0] ^= 1
    others = [make_arrays(pixel, Y), make_arrays(NHWC, Y[::-1].copy()), make_arrays(NHWC.reshape(2, 5, 4, 3), Y)]
    assert len({arrays.checksum() for arrays in [base, *others]}) == 4
