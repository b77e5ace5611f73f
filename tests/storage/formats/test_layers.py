"""Layers as sparse maps: compared with reference implementations, and the synapses written."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_array

from storage.errors import BadInputError
from storage.formats.layers import linear as layers
from storage.formats.layers.linear import (
    Convolution,
    Dense,
    LinearLayer,
    Pooling,
    Same,
    SynapseWriter,
    WindowPositions,
    add,
    pull,
    row_blocks,
    same_pads,
)
from storage.store.traffic import WEIGHTS
from storage.store.writer import NetworkWriter
from tests.reference import layers as naive
from tests.reference.layers import Entries
from tests.storage.formats.conftest import edges_of


def entries_of(rows: Any, first: int = 0) -> Entries:
    """Return the entries as the reference implementations do; fail on duplicate entries."""
    coo = rows.tocoo()
    places = list(zip((coo.row + first).tolist(), coo.col.tolist(), strict=True))
    assert len(set(places)) == len(places)
    return dict(zip(places, coo.data.tolist(), strict=True))


def all_of(layer: LinearLayer, step: int = 7) -> Entries:
    found: Entries = {}
    for first in range(0, layer.outputs, step):
        rows = layer.rows(np.arange(first, min(first + step, layer.outputs)))
        assert rows.shape[1] == layer.inputs
        assert np.diff(rows.indptr).max(initial=0) <= layer.fan_in
        found |= entries_of(rows, first)
    return found


def random_windows(rng: np.random.Generator, axes: int, ceil: bool = False) -> WindowPositions:
    while True:
        numbers = [
            tuple(rng.integers(low, high, axes).tolist())
            for low, high in ((1, 7), (1, 4), (1, 4), (1, 3), (0, 3), (0, 3))
        ]
        windows = WindowPositions(*numbers, ceil=ceil)
        try:
            if min(windows.count) > 0:
                return windows
        except BadInputError:
            continue


@pytest.mark.parametrize("axes", [1, 2, 3])
def test_convolution_against_reference(axes: int) -> None:
    rng = np.random.default_rng(axes)
    for _ in range(60 if axes < 3 else 15):
        windows, groups = random_windows(rng, axes), int(rng.integers(1, 4))
        outputs, channels = int(rng.integers(1, 3)) * groups, int(rng.integers(1, 4))
        weight = rng.integers(-3, 4, (outputs, channels, *windows.kernel))
        layer = Convolution(weight, windows, groups)
        assert windows.count == naive.window_count(windows)
        assert all_of(layer) == naive.convolution(weight, windows, groups)


@pytest.mark.parametrize("mean", ["", "kernel", "inside"])
@pytest.mark.parametrize("ceil", [False, True])
def test_pooling_against_reference(mean: str, ceil: bool) -> None:
    rng = np.random.default_rng(len(mean) * 2 + ceil)
    for _ in range(60):
        windows, channels = random_windows(rng, 2, ceil), int(rng.integers(1, 4))
        layer = Pooling(channels, windows, mean)
        assert windows.count == naive.window_count(windows)
        assert all_of(layer) == naive.pooling(channels, windows, mean)


@pytest.mark.parametrize("shape", [(4, 3), (2, 4, 3), (2, 5, 1, 3)])
def test_dense(shape: tuple[int, ...]) -> None:
    weight = np.random.default_rng(1).integers(-2, 3, shape)
    *copies, out, into = shape
    expected = {}
    for copy in range(int(np.prod(copies))):
        for o in range(out):
            for i in range(into):
                value = weight.reshape(-1, out, into)[copy, o, i]
                expected[copy * out + o, copy * into + i] = float(value)
    assert all_of(Dense(weight)) == expected


def test_same_padding_gives_one_window_per_stride() -> None:
    rng = np.random.default_rng(5)
    for _ in range(200):
        size, kernel, stride, dilation = (
            (int(rng.integers(low, high)),) for low, high in ((3, 20), (1, 5), (1, 4), (1, 3))
        )
        before, after = same_pads(size, kernel, stride, dilation)
        if dilation[0] * (kernel[0] - 1) + 1 <= size[0] + before[0] + after[0]:
            windows = WindowPositions(size, kernel, stride, dilation, before, after)
            assert windows.count == (-(-size[0] // stride[0]),)
            assert 0 <= after[0] - before[0] <= 1


def test_layers_are_composed_row_by_row() -> None:
    rng = np.random.default_rng(7)
    for _ in range(20):
        windows = random_windows(rng, 2)
        weight = rng.integers(-1, 2, (3, 2, *windows.kernel))
        first = Convolution(weight, windows)
        second = Dense(rng.integers(-1, 2, (4, first.outputs)))
        rows = pull(second.rows(np.arange(4)), first)
        naively = naive.composed(all_of(second), naive.convolution(weight, windows, 1))
        assert entries_of(rows) == naively  # including zero sums
        assert entries_of(pull(Same(4).rows(np.arange(4)), second)) == all_of(second)


def test_sums_keep_zeros() -> None:
    one = csr_array((np.array([1.0, 2.0]), np.array([0, 2]), np.array([0, 1, 2])), shape=(2, 3))
    two = csr_array((np.array([-1.0, 4.0]), np.array([0, 0]), np.array([0, 1, 2])), shape=(2, 3))
    assert entries_of(add(one, two)) == {(0, 0): 0.0, (1, 2): 2.0, (1, 0): 4.0}


def test_row_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layers, "ENTRIES", 10)
    assert [block.tolist() for block in row_blocks(5, 5)] == [[0, 1], [2, 3], [4]]
    assert [block.size for block in row_blocks(3, 1000)] == [1, 1, 1]
    assert not list(row_blocks(0, 5))


@pytest.mark.parametrize(
    ("numbers", "message"),
    [
        (((3,), (2,), (0,), (1,), (0,), (0,)), "stride 0"),
        (((3,), (0,), (1,), (1,), (0,), (0,)), "kernel 0"),
        (((3,), (2,), (1,), (0,), (0,), (0,)), "dilation 0"),
        (((3,), (2,), (1,), (1,), (-1,), (0,)), "padding -1 and 0"),
        (((3,), (3,), (1,), (2,), (0,), (1,)), "a window of 5 does not fit in 4"),
    ],
)
def test_invalid_windows(numbers: Any, message: str) -> None:
    with pytest.raises(BadInputError, match=message):
        WindowPositions(*numbers).count  # noqa: B018


def test_groups_that_do_not_divide() -> None:
    windows = WindowPositions((3,), (1,), (1,), (1,), (0,), (0,))
    for groups in (0, 2):
        with pytest.raises(BadInputError, match=f"{groups} groups do not divide 3 output"):
            Convolution(np.ones((3, 1, 1)), windows, groups)


def test_synapses_are_magnitudes_without_zeros(tmp_path: Path) -> None:
    with NetworkWriter(tmp_path / "net.bin", 5) as writer:
        synapses = SynapseWriter(writer, WEIGHTS)
        rows = Dense(np.array([[0.5, -2.0, 1.0], [0.0, 4.0, 0.0]])).rows(np.arange(2))
        synapses.add(rows, source=np.array([0, 1, -1]), target=np.array([3, 4]))
        writer.finish()
    assert synapses.zeros == 1  # weights of a column without a neuron are not counted
    assert edges_of(tmp_path / "net.bin") == {(0, 3): 0.5, (1, 3): 2.0, (1, 4): 4.0}
