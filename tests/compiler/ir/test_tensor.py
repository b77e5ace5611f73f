"""Tensors and views of the compiler's graph."""

from __future__ import annotations

import numpy as np
import pytest

from mapper.compiler.ir.graph import View
from mapper.compiler.ir.node import Window
from mapper.compiler.ir.tensor import Pad, Tensor


def test_a04_padding_is_written_for_all_axes() -> None:
    assert str(Pad(1, 1, 1, 1)) == "[[0,0],[1,1],[1,1],[0,0]]"
    assert str(Pad(1, 2, 3, 4)) == "[[0,0],[1,2],[3,4],[0,0]]"


@pytest.mark.parametrize(("type_", "low", "high"), [("int8", -128, 127), ("int16", -32768, 32767)])
def test_ends_of_types(type_: str, low: int, high: int) -> None:
    tensor = Tensor("t", (1, 2, 3, 4), type_)  # type: ignore[arg-type]
    assert (tensor.low, tensor.high) == (low, high)
    assert (tensor.height, tensor.width, tensor.channels) == (2, 3, 4)


@pytest.mark.parametrize("order", [(0, 3, 1, 2), (0, 1, 2, 3)])
def test_a05_onnx_order_and_stored_order(order: tuple[int, ...]) -> None:
    """Round trips of several frames, including data flattened after a transpose."""
    tensor = Tensor("t", (1, 2, 3, 4))
    data = np.arange(3 * 24).reshape(3, 2, 3, 4)
    shape = tuple(tensor.shape[axis] for axis in order)
    for view in (View(tensor, order, shape), View(tensor, order, (1, 24))):
        seen = view.array(data)
        assert seen.shape == (3, *view.shape[1:])
        assert np.array_equal(seen.reshape(3, -1), data.transpose(order).reshape(3, -1))
        assert np.array_equal(view.stored(seen), data)
        assert np.array_equal(view.frame(data[1:2]), seen[1:2])


def test_result_sizes_of_windows() -> None:
    window = Window((3, 2), (2, 1), Pad(1, 0, 0, 1), (2, 3))
    assert window.reach == (5, 4)
    assert window.results(9, 8) == (3, 6)
