"""Encodings of real numbers: exact spikes, independence of chunks, and one line for each fault."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from storage.errors import BadInputError
from storage.samples import encoding as encoding_module
from storage.samples.encoding import Encoding, EncodingMethod, encode
from storage.samples.spikes import SpikeSamples, read_spike_samples

VALUES = np.random.default_rng(0).random((5, 3, 4)) * (np.arange(60).reshape(5, 3, 4) % 3 > 0)
MASK = (1 << 64) - 1


def dense(found: SpikeSamples, inputs: int) -> np.ndarray[Any, Any]:
    made = np.zeros((found.samples, found.ticks, inputs), np.int64)
    made[found.sample, found.tick, found.neuron] = found.value
    return made


def sorted_by_sample_tick_neuron(found: SpikeSamples) -> bool:
    keys = (found.sample * found.ticks + found.tick) * 1000 + found.neuron
    return bool((np.diff(keys) > 0).all())


def splitmix(state: int, counter: int) -> int:
    """Return output `counter` (from 0) of splitmix64 with a start state, in plain integers."""
    x = (state + (counter + 1) * 0x9E3779B97F4A7C15) & MASK
    x = ((x ^ x >> 30) * 0xBF58476D1CE4E5B9) & MASK
    x = ((x ^ x >> 27) * 0x94D049BB133111EB) & MASK
    return x ^ x >> 31


def test_rate_equals_a_plain_implementation() -> None:
    found = encode(VALUES, "rate", 7, seed=3)
    expected = np.zeros((5, 7, 12), np.int64)
    flat = VALUES.reshape(5, 12)
    for sample, tick, neuron in np.ndindex(5, 7, 12):
        drawn = splitmix(splitmix(splitmix(splitmix(3, 0), sample), tick), neuron)
        expected[sample, tick, neuron] = drawn / 2**64 < flat[sample, neuron]
    assert np.array_equal(dense(found, 12), expected)
    assert sorted_by_sample_tick_neuron(found)
    assert found.unit == 1


def test_rate_is_the_probability() -> None:
    values = np.tile([0.0, 0.01, 0.3, 0.9, 1.0], (40, 1))
    counts = dense(encode(values, "rate", 500), 5).sum(axis=(0, 1)) / 20_000
    assert counts[[0, 4]].tolist() == [0, 1]
    assert np.allclose(counts, values[0], atol=0.015)
    other = dense(encode(values, "rate", 500, seed=1), 5)
    same = dense(encode(values, "rate", 500), 5) == other
    assert 0.5 < same[..., 2].mean() < 0.66  # independent draws agree in 0.3^2 + 0.7^2


@pytest.mark.parametrize("at_once", [1, 5, 17, 1 << 20])
def test_rate_does_not_depend_on_chunks_or_other_samples(
    at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = dense(encode(VALUES, "rate", 9), 12)
    monkeypatch.setattr(encoding_module, "HASHED_AT_ONCE", at_once)
    assert np.array_equal(dense(encode(VALUES, "rate", 9), 12), whole)
    assert np.array_equal(dense(encode(VALUES[:2], "rate", 4), 12), whole[:2, :4])


def test_latency_is_shorter_for_larger_values() -> None:
    found = encode(np.array([[1.0, 0.0, 0.5, 0.1, 0.001]]), "latency", 11)
    spikes = list(zip(found.tick.tolist(), found.neuron.tolist(), strict=True))
    assert spikes == [(0, 0), (5, 2), (9, 3), (10, 4)]
    assert found.value.tolist() == [1] * 4
    assert encode(np.array([[0.2, 0.0]]), "latency", 1).tick.tolist() == [0]


def test_current_is_injected_in_every_tick() -> None:
    values = np.array([[0.5, 0.0, 1.0, 3.25, 0.001, 0.0999]], np.float32)
    found = encode(values, "current", 3)
    steps = [128, 0, 256, 832, 0, 26]
    assert np.array_equal(dense(found, 6), np.tile(steps, (1, 3, 1)))
    assert sorted_by_sample_tick_neuron(found)
    assert found.unit == Encoding("current", 3).unit == 1 / 256


@pytest.mark.parametrize("method", ["current", "rate", "latency"])
def test_samples_without_values_and_no_samples(method: EncodingMethod) -> None:
    for values in (np.zeros((3, 4)), np.zeros((0, 4)), np.zeros((2, 0)), np.zeros((2, 3), bool)):
        found = encode(values, method, 5)
        assert (found.samples, found.ticks, found.sample.size) == (len(values), 5, 0)
        assert {each.dtype for each in found[:4]} == {np.dtype(np.int64)}


@pytest.mark.parametrize(
    ("values", "method", "ticks", "text"),
    [
        ([[0.5], [1.5]], "rate", 3, "sample 1 (from 0) has values from 0 to 1.5; rate encodes"),
        ([[-0.5, 0.25]], "latency", 3, "sample 0 (from 0) has values from -0.5 to 0.25; latency"),
        ([[0, 255]], "rate", 3, "values from 0 to 1, so scale the samples (pixels of 0 to 255: d"),
        ([[np.nan]], "current", 3, "sample 0 (from 0) has values from nan to nan; current"),
        ([[257.0]], "current", 3, "current encodes values from 0 to 256, so"),
        ([["a"]], "rate", 3, "the samples hold <U1; give real numbers"),
        ([[0.5]], "rate", 0, "encoding: ticks is 0; it must be at least 1"),
        ([[0.5]], "phase", 3, "encoding 'phase' is unknown; give current, rate, latency"),
    ],
)
def test_faults_of_values_take_one_line(
    values: Any, method: EncodingMethod, ticks: int, text: str
) -> None:
    with pytest.raises(BadInputError) as caught:
        encode(np.array(values), method, ticks)
    assert text in str(caught.value)
    assert "\n" not in str(caught.value)


def test_too_many_spikes_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(encoding_module, "MAX_SPIKES", 50)
    with pytest.raises(BadInputError, match="encodes the first 3 of 4 samples as 60 spikes"):
        encode(np.ones((4, 2)), "current", 10)


def saved(tmp_path: Path, **arrays: Any) -> Path:
    path = tmp_path / "s.npz"
    np.savez(path, **arrays)
    return path


def test_files_of_real_numbers(tmp_path: Path) -> None:
    """Inputs are numbered in order; axes of length 1 may be missing; labels are kept."""
    other = VALUES[:, 0] / 2
    path = saved(tmp_path, b=other, a=VALUES, y=np.arange(5))
    found = read_spike_samples(path, {"a": (1, 3, 4), "b": (4,)}, Encoding("rate", 6, 2))
    joined = np.concatenate([VALUES.reshape(5, 12), other], axis=1)
    expected = encode(joined, "rate", 6, 2)
    assert all(np.array_equal(a, b) for a, b in zip(found[:6], expected[:6], strict=True))
    assert found.labels is not None
    assert found.labels.tolist() == [0, 1, 2, 3, 4]
    one = read_spike_samples(saved(tmp_path, x=VALUES), {"i": (3, 4)}, Encoding("current", 2))
    assert one.unit == 1 / 256


LISTS = {"sample": [0], "tick": [0], "neuron": [0]}
RATE = Encoding("rate", 3)


@pytest.mark.parametrize(
    ("arrays", "encoding", "text"),
    [
        ({"x": VALUES}, None, "a has shape (5, 3, 4), without an axis of ticks; give (samples, ti"
         "cks, 3, 4), or encode it: --encode current|rate|latency --ticks T"),
        ({"x": VALUES[:, None]}, RATE, "a has shape (5, 1, 3, 4), with an axis of ticks; leave"),
        ({"x": VALUES[:, :2]}, RATE, "a has shape (5, 2, 4); the input has (3, 4), so give (sam"),
        (LISTS, RATE, "holds sample, tick, neuron; to encode real numbers, it must hold `x`"),
        ({"x": VALUES * 2}, RATE, "sample 0 (from 0) has values from"),
        ({"x": VALUES, **LISTS}, RATE, "holds an array of a and lists (sample, tick, neuron); ke"),
        ({"a": VALUES, "tick": [0]}, None, "holds an array of a and lists (tick); keep one of th"),
        ({"x": VALUES, "a": VALUES}, None, "holds both x and a, for one input; keep one of them"),
        ({"x": VALUES, "y": [1]}, RATE, "y is int64 of shape (1,); give a whole number for each"),
    ],
)  # fmt: skip
def test_faults_of_files_take_one_line(
    tmp_path: Path, arrays: dict[str, Any], encoding: Encoding | None, text: str
) -> None:
    path = saved(tmp_path, **arrays)
    with pytest.raises(BadInputError) as caught:
        read_spike_samples(path, {"a": (3, 4)}, encoding)
    assert str(caught.value).startswith(f"{path}: {text}")
    assert "\n" not in str(caught.value)


def test_samples_of_several_inputs_must_match(tmp_path: Path) -> None:
    path = saved(tmp_path, a=VALUES, b=VALUES[:2])
    with pytest.raises(BadInputError, match="b has 2 samples; the input before has 5"):
        read_spike_samples(path, {"a": (3, 4), "b": (3, 4)}, RATE)
