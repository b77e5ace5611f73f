"""Memory accesses of a window unit load, from its fields and headers alone.

Independent of the compiler. Every pixel of every window must be in the words that its packet reads.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from chipsim.chip.npu_shape import NpuShape
from mapper.errors import CheckFailedError

Cells = NDArray[np.int64]
Touches = tuple[list[tuple[str, Cells]], list[tuple[str, Cells]]]
WORD_VECTORS, GROUP = 8, 4


def window_touches(
    f: Mapping[str, int], headers: Sequence[int], shape: NpuShape, what: str
) -> Touches:
    """Return reads of headers and words of the feature map, and writes of the windows.

    headers : contents of the header memory; what : instruction, for errors
    Raises `CheckFailedError` that names a packet that lacks words.
    """
    bank, width, height = 2 * shape.columns, f["width"], f["height"]
    words = -(-width * height // bank)
    vectors = -(-GROUP * f["groups"] * f["kh"] * f["kw"] // shape.columns)
    read = np.zeros(words, bool)
    count = 0
    for packet in range(f["head"], f["head"] + f["packets"]):
        bits = headers[packet] if packet < len(headers) else 0
        begin, length, x, y = (bits >> low & 0xFFFF for low in (0, 16, 32, 48))
        if begin + length > words:
            raise CheckFailedError(
                f"{what}: header {packet} reads word {begin + length - 1} of a map of {words}"
            )
        read[begin : begin + length] = True
        for _ in range(shape.filters):
            if y >= height + f["pad_t"]:
                break
            rows, columns = (
                np.arange(max(0, at - pad), min(most, at - pad + size))
                for at, pad, most, size in (
                    (y, f["pad_t"], height, f["kh"]), (x, f["pad_l"], width, f["kw"]),
                )
            )  # fmt: skip
            pixels = rows[:, None] * width + columns
            if pixels.size and not begin <= pixels.min() // bank <= pixels.max() // bank < (
                begin + length
            ):
                raise CheckFailedError(
                    f"{what}: header {packet} reads words {begin} to {begin + length - 1}, but the "
                    f"window at ({x}, {y}) has pixels outside them"
                )
            count += 1
            x += f["sw"]
            if x >= f["columns"] * f["sw"]:
                x, y = 0, y + f["sh"]
    plane = np.flatnonzero(read)
    cells = (np.arange(f["groups"])[:, None] * words + plane).ravel() + f["src"]
    taken = (cells[:, None] * WORD_VECTORS + np.arange(WORD_VECTORS)).ravel()
    made = np.arange(f["dst"], f["dst"] + count * vectors)
    used = np.arange(f["head"], f["head"] + f["packets"])
    return [("FM", taken), ("HM", used)], [("INP", made)]
