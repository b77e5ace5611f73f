"""Files of the NIR paper: counts and weights derived from their arrays alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from storage.formats import import_network
from storage.store.network import NetworkFile
from tests.storage.formats.conftest import Edges, edges_of, labels_of, meta_of
from tests.storage.formats.nir_graphs import Weights, h5py


def imported(data_dir: Path, name: str, tmp_path: Path) -> tuple[Path, dict[str, Any]]:
    """Return the network of a file, and the arrays of the file by path within `node/nodes`."""
    source = data_dir / "nir" / name
    if not source.exists():
        pytest.skip(f"nir/{name} is missing")
    import_network(source, tmp_path / "net.bin", traffic="weights")
    arrays = {}
    with h5py.File(source) as file:
        for node_name, group in file["node/nodes"].items():
            for key, dataset in group.items():
                arrays[f"{node_name}/{key}"] = dataset[()]
    return tmp_path / "net.bin", arrays


def counted(weight: Weights, size: int, pad: int, stride: int) -> int:
    """Return the synapses of a square convolution: nonzero weights times covering windows."""
    kernel, total = weight.shape[2], 0
    windows = (size + 2 * pad - kernel) // stride + 1
    start = np.arange(windows) * stride - pad
    inside = [int(((start + k >= 0) & (start + k < size)).sum()) for k in range(kernel)]
    for (i, j), count in np.ndenumerate(np.count_nonzero(weight, axis=(0, 1))):
        total += int(count) * inside[i] * inside[j]
    return total


@pytest.mark.heavy
@pytest.mark.sample(0.5)
@pytest.mark.jit
def test_the_convolutional_network(data_dir: Path, tmp_path: Path) -> None:
    net, arrays = imported(data_dir, "cnn_sinabs.nir", tmp_path)
    meta = meta_of(net)
    shapes = [arrays[f"{n}/v_threshold"].shape for n in (1, 3, 6, 10, 12)]
    sizes = [2 * 34 * 34, *(int(np.prod(shape)) for shape in shapes)]
    assert meta.neurons == sum(sizes) == 11282
    assert labels_of(net) == ["input", "1", "3", "6", "10", "12"]
    w0, w2, w5, w9, w11 = (arrays[f"{n}/weight"] for n in (0, 2, 5, 9, 11))
    synapses = [
        counted(w0, 34, 1, 2),
        counted(w2, 16, 1, 1),
        4 * counted(w5, 8, 1, 1),  # each input is the sum of a window of 2 x 2
        4 * np.count_nonzero(w9),
        np.count_nonzero(w11),
    ]
    assert meta.synapses == meta.synapses_read == sum(synapses)
    starts = np.append(0, np.cumsum(sizes)).tolist()
    into: dict[int, Edges] = {}
    watched = {
        "border": starts[1] + 3 * 256,  # channel 3 of the first population, row 0, column 0
        "middle": starts[1] + 3 * 256 + 7 * 16 + 9,
        "pooled": starts[3] + 5 * 64,  # channel 5 of the third, row 0, column 0
    }
    with NetworkFile(net) as network:
        for block in network.blocks():
            indptr, ids, stored = block.outgoing()
            source = block.first + np.repeat(np.arange(block.vertices), np.diff(indptr))
            for target in watched.values():
                found = ids == target
                weight = stored[found] * meta.weight_unit
                pairs = [(s, target) for s in source[found].tolist()]
                into.setdefault(target, {}).update(zip(pairs, weight.tolist(), strict=True))
    for name, channel, row, column in (("border", 3, 0, 0), ("middle", 3, 7, 9)):
        expected = {}
        for c in range(2):
            for i in range(5):
                for j in range(5):
                    y, x = 2 * row - 1 + i, 2 * column - 1 + j
                    if 0 <= y < 34 and 0 <= x < 34 and w0[channel, c, i, j]:
                        pair = c * 34 * 34 + y * 34 + x, watched[name]
                        expected[pair] = abs(float(w0[channel, c, i, j]))
        assert len(expected) == {"border": 2 * 4 * 4, "middle": 2 * 5 * 5}[name]
        assert into[watched[name]] == pytest.approx(expected, rel=1e-3, abs=1e-6)
    expected = {}
    for c in range(16):
        for y in range(4):  # windows (0, 1) x (0, 1) of the pooled rows and columns
            for x in range(4):
                source = starts[2] + c * 256 + y * 16 + x
                weight = abs(float(w5[5, c, y // 2 + 1, x // 2 + 1]))
                expected[source, watched["pooled"]] = weight
    assert into[watched["pooled"]] == pytest.approx(expected, rel=1e-3, abs=1e-6)


def test_the_recurrent_network(data_dir: Path, tmp_path: Path) -> None:
    net, arrays = imported(data_dir, "braille_noDelay_bias_zero.nir", tmp_path)
    first, again, last = (arrays[f"{n}/weight"] for n in ("fc1", "lif1.w_rec", "fc2"))
    meta = meta_of(net)
    assert meta.neurons == 12 + 38 + 7
    assert labels_of(net) == ["input", "lif1.lif", "lif2"]
    loops = np.count_nonzero(np.diag(again))
    assert meta.self_loops == loops
    assert meta.synapses == sum(map(np.count_nonzero, (first, again, last))) - loops
    found, expected = np.zeros((57, 57)), np.zeros((57, 57))
    for (source, target), weight in edges_of(net).items():
        found[target, source] = weight
    expected[12:50, :12], expected[50:, 12:50] = np.abs(first), np.abs(last)
    expected[12:50, 12:50] = np.abs(again) * (1 - np.eye(38))
    assert np.allclose(found, expected, atol=meta.weight_unit)


def test_one_neuron(data_dir: Path, tmp_path: Path) -> None:
    net, _ = imported(data_dir, "lif_norse.nir", tmp_path)
    assert edges_of(net) == {(0, 1): 1.0}
    assert labels_of(net) == ["input", "1"]
