"""The IDX format of MNIST: two zero bytes, a type byte, the number of dimensions, the sizes (big-endian), the data.

Format: http://yann.lecun.com/exdb/mnist. The datasets here use only unsigned bytes; other types are not supported.
"""

import math
import struct

import numpy as np
from numpy.typing import NDArray

from holdfast.errors import DataError

_UNSIGNED_BYTE = 0x08


def read_idx(data: bytes, *, dims: int) -> NDArray[np.uint8]:
    """Parse an IDX array of `dims` dimensions. The sizes are checked before anything is allocated.

    >>> read_idx(bytes([0, 0, 8, 1, 0, 0, 0, 2, 5, 6]), dims=1).tolist()
    [5, 6]
    """
    magic = bytes([0, 0, _UNSIGNED_BYTE, dims])
    if data[:4] != magic:
        raise DataError(f"expected an IDX file starting with {magic.hex()}, found {data[:4].hex() or 'nothing'}.")
    start = 4 + 4 * dims
    if len(data) < start:
        raise DataError(f"expected an IDX header of {start} bytes, found {len(data)}; the file is truncated.")
    shape = struct.unpack(f">{dims}I", data[4:start])
    if 0 in shape:  # the product is 0 then, so the check below would not limit the other sizes
        raise DataError(f"expected an IDX file with at least one entry, found shape {shape}, which has none.")
    if len(data) - start != math.prod(shape):
        raise DataError(f"expected {math.prod(shape)} bytes for IDX shape {shape}, found {len(data) - start}.")
    return np.frombuffer(data, np.uint8, offset=start).reshape(shape)
