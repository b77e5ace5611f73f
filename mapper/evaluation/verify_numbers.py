"""Decoder of numbers of a network file, for `verify`: numpy only, without the store's kernels."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mapper.errors import CheckFailedError


def decode_varints(raw: bytes, where: str) -> NDArray[np.int64]:
    """Decode all varints of a member."""
    data = np.frombuffer(raw, np.uint8)
    if not data.size:
        return np.empty(0, np.int64)
    last = np.flatnonzero(data < 128)
    if not last.size or last[-1] != data.size - 1:
        raise CheckFailedError(f"{where}: ends inside a number")
    starts = np.r_[0, last[:-1] + 1]
    if (last - starts).max() >= 10:
        raise CheckFailedError(f"{where}: a number is longer than 10 bytes")
    values = np.zeros(last.size, np.uint64)
    for position in range(int((last - starts).max()) + 1):
        has = starts + position <= last
        group = (data[starts[has] + position] & 127).astype(np.uint64)
        if position == 9 and group.max() > 0:
            raise CheckFailedError(f"{where}: a number is beyond 2^63 - 1")
        values[has] |= group << np.uint64(7 * position)
    return values.astype(np.int64)
