"""Samples of spikes: dense and listed, several inputs, labels, and one line for each fault."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from storage.errors import BadInputError
from storage.samples.spikes import SpikeSamples, read_spike_samples

SHAPES = {"a": (2, 2), "b": (3,)}
RNG = np.random.default_rng(0)
DENSE = {"a": RNG.integers(0, 3, (4, 5, 2, 2)), "b": RNG.integers(0, 3, (4, 5, 3))}


def saved(tmp_path: Path, **arrays: Any) -> Path:
    path = tmp_path / "s.npz"
    np.savez(path, **arrays)
    return path


def counts(samples: SpikeSamples) -> dict[tuple[int, int, int], int]:
    columns = (samples.sample, samples.tick, samples.neuron, samples.value)
    return {(s, t, n): v for s, t, n, v in zip(*(c.tolist() for c in columns), strict=True)}


def expected() -> dict[tuple[int, int, int], int]:
    flat = np.concatenate([DENSE["a"].reshape(4, 5, 4), DENSE["b"]], axis=2)
    return {tuple(at): int(v) for at, v in np.ndenumerate(flat) if v}  # type: ignore[misc]


def test_dense_arrays_of_several_inputs(tmp_path: Path) -> None:
    found = read_spike_samples(saved(tmp_path, **DENSE, y=np.arange(4)), SHAPES)
    assert counts(found) == expected()
    assert list(counts(found)) == sorted(counts(found))
    assert (found.samples, found.ticks) == (4, 5)
    assert found.labels is not None
    assert found.labels.tolist() == [0, 1, 2, 3]


def test_lists_in_any_order_with_repeats(tmp_path: Path) -> None:
    rows = [at for at, v in expected().items() for _ in range(v)]
    sample, tick, neuron = RNG.permutation(np.array(rows)).T
    path = saved(tmp_path, sample=sample, tick=tick.astype(np.int8), neuron=neuron)
    found = read_spike_samples(path, SHAPES)
    assert counts(found) == expected()
    assert found.labels is None
    values = saved(tmp_path, sample=[0, 0, 1], tick=[3, 3, 0], neuron=[1, 1, 6], value=[2, 1, 0],
                   samples=9, ticks=7)  # fmt: skip
    found = read_spike_samples(values, SHAPES)
    assert counts(found) == {(0, 3, 1): 3}
    assert (found.samples, found.ticks) == (9, 7)


def test_one_input_may_be_called_x(tmp_path: Path) -> None:
    found = read_spike_samples(saved(tmp_path, x=DENSE["b"]), {"input": (3,)})
    assert found.value.sum() == DENSE["b"].sum()
    empty = read_spike_samples(saved(tmp_path, x=np.zeros((0, 5, 3), bool)), {"input": (3,)})
    assert (empty.samples, empty.ticks, empty.value.size) == (0, 5, 0)


LISTS = {"sample": [0, 1], "tick": [0, 1], "neuron": [0, 6]}
BAD: dict[str, tuple[dict[str, Any], str]] = {
    "shape": (
        DENSE | {"b": DENSE["b"][:, :, :2]},
        "b has shape (4, 5, 2); the input has (3,), so give (samples, ticks, 3)",
    ),
    "samples of inputs": (
        DENSE | {"b": DENSE["b"][:2]},
        "b has 2 samples of 5 ticks; the input before has 4 of 5",
    ),
    "real numbers": (DENSE | {"a": DENSE["a"] / 2}, "a holds float64; give numbers of spikes"),
    "negative": (DENSE | {"a": -DENSE["a"]}, "a holds -2; numbers of spikes start from 0"),
    "missing": ({"a": DENSE["a"]}, "holds a; it must hold `a` and `b`, or `sample`, `tick` and"),
    "neuron": (
        LISTS | {"neuron": [0, 7]},
        "spike 1 (from 0) has neuron 7; the inputs have 7, numbered from 0",
    ),
    "negative tick": (LISTS | {"tick": [-1, 0]}, "spike 0 (from 0) has tick -1; there are 1"),
    "tick": (LISTS | {"ticks": 1}, "spike 1 (from 0) has tick 1; there are 1, numbered from 0"),
    "sample": (LISTS | {"samples": 1}, "spike 1 (from 0) has sample 1; there are 1"),
    "length": (LISTS | {"tick": [0]}, "the lists differ in length: 2 sample, 1 tick, 2 neuron"),
    "fractions": (LISTS | {"tick": [0.5, 1]}, "tick is float64 of shape (2,); give a list of"),
    "value": (LISTS | {"value": [1, -1]}, "value is -1; numbers of spikes start from 0"),
    "labels": (DENSE | {"y": np.arange(3)}, "y is int64 of shape (3,); give a whole number for"),
    "count": (LISTS | {"ticks": [1, 2]}, "ticks is [1 2]; it must be one whole number from 0"),
}


@pytest.mark.parametrize("name", BAD)
def test_faults_take_one_line(name: str, tmp_path: Path) -> None:
    arrays, text = BAD[name]
    path = saved(tmp_path, **arrays)
    with pytest.raises(BadInputError) as caught:
        read_spike_samples(path, SHAPES)
    assert str(caught.value).startswith(f"{path}: {text}")
    assert "\n" not in str(caught.value)


def test_damaged_files_take_one_line(tmp_path: Path) -> None:
    whole = saved(tmp_path, **DENSE, y=np.arange(4)).read_bytes()
    rng = np.random.default_rng(1)
    path = tmp_path / "damaged.npz"
    for _ in range(60):
        damaged = bytearray(whole[: rng.integers(1, len(whole) + 1)])
        for at in rng.integers(0, len(damaged), rng.integers(1, 4)):
            damaged[at] ^= 1 << rng.integers(0, 8)
        path.write_bytes(damaged)
        try:
            found = read_spike_samples(path, SHAPES)
        except BadInputError as error:
            assert "\n" not in str(error)
        else:
            assert found.sample.size == found.value.size


def test_first_samples(tmp_path: Path) -> None:
    x = np.random.default_rng(5).integers(0, 3, (4, 6, 5))
    np.savez(tmp_path / "x.npz", x=x, y=np.arange(4))
    np.savez(tmp_path / "first.npz", x=x[:2], y=np.arange(2))
    whole, two = (
        read_spike_samples(tmp_path / name, {"input": (5,)}) for name in ("x.npz", "first.npz")
    )
    for one, other in zip(whole.first(2), two, strict=True):
        assert np.array_equal(one, other)
    assert whole.first(9).samples == 4
