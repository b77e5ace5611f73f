"""Encoding of real numbers, such as pixels, as spikes of inputs.

`rate`
    A value is the probability of a spike in each tick.
`latency`
    A value spikes once, the earlier the larger it is, and 0 never.
`current`
    A value acts in every tick, in 256 steps per unit: as 256 times the value of spikes, each of
    which adds the 256th part of a weight.

::

    from storage.samples.encoding import encode

    spikes = encode(images / 255, "rate", ticks=100)  # images: (samples, rows, columns)
"""

from __future__ import annotations

from typing import Any, Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

from storage.errors import BadInputError
from storage.hashing import scrambled
from storage.jsontext import shown
from storage.samples.spike_lists import SpikeSamples

EncodingMethod = Literal["current", "rate", "latency"]
ENCODING_METHODS: tuple[EncodingMethod, ...] = get_args(EncodingMethod)
CURRENT_STEPS = 256
"""Spikes per tick of an input whose current is 1."""
MAX_VALUE: dict[EncodingMethod, float] = {"current": 256.0, "rate": 1.0, "latency": 1.0}
MAX_SPIKES = 1 << 27
"""Largest number of spikes in memory, 32 bytes each."""
HASHED_AT_ONCE = 1 << 20
"""Ticks times inputs of a sample whose random numbers are in memory."""
GOLDEN = 0x9E3779B97F4A7C15  # 2^64 divided by the golden ratio, the increment of splitmix64
WORD = (1 << 64) - 1
DRAWN_BITS = 53  # as many as a float64 has, so that a probability of 1 always fires


class Encoding(NamedTuple):
    """How real numbers become spikes.

    ticks : per sample
    seed : of the random numbers of `rate`
    """

    method: EncodingMethod
    ticks: int
    seed: int = 0

    @property
    def unit(self) -> float:
        """Real value of one spike."""
        return 1 / CURRENT_STEPS if self.method == "current" else 1.0

    @property
    def input_spikes(self) -> int:
        """Spikes per tick of an input whose value is 1, at most."""
        return CURRENT_STEPS if self.method == "current" else 1


class _EncodedSample(NamedTuple):
    """Spikes of one sample in order of tick and neuron, each of shape (spikes,)."""

    tick: NDArray[np.int32]
    neuron: NDArray[np.int32]
    value: NDArray[np.int32]


def encode(values: NDArray[Any], method: EncodingMethod, ticks: int, seed: int = 0) -> SpikeSamples:
    """Encode real numbers as spikes, without labels.

    Parameters
    ----------
    values : real numbers, whole numbers or booleans, shape (samples, \\*shape); the last axis
        counts neurons fastest
    method : see the module; values are 0 to 1, or 0 to 256 for `current`
    ticks : per sample
    seed : for `rate`; each spike depends on the seed and its sample, tick and neuron only

    Raises `BadInputError` for values outside the range, with their sample, and for more than
    `MAX_SPIKES` spikes.
    """
    encoding = Encoding(method, ticks, seed)
    _require_valid(encoding)
    rows = values.reshape(len(values), -1) if values.size else np.zeros((len(values), 0))
    if rows.dtype.kind not in "biuf":
        raise BadInputError(f"the samples hold {rows.dtype}; give real numbers")
    parts: list[_EncodedSample] = []
    spikes = 0
    for number, row in enumerate(rows):
        found = _encoded(_in_range(row, number, method), encoding, number)
        spikes += found.tick.size
        if spikes > MAX_SPIKES:
            raise BadInputError(
                f"{method} encodes the first {number + 1} of {len(rows)} samples as {spikes:,} "
                f"spikes, and at most {MAX_SPIKES:,} are held; give fewer samples or ticks"
            )
        parts.append(found)
    counts = [each.tick.size for each in parts]
    none = np.zeros(0, np.int64)  # also the type of the joined lists
    tick, neuron, value = (
        np.concatenate([none, *(each[column] for each in parts)]) for column in range(3)
    )
    sample = np.repeat(np.arange(len(rows)), counts)
    labels = None
    return SpikeSamples(sample, tick, neuron, value, len(rows), ticks, labels, encoding.unit)


def _require_valid(encoding: Encoding) -> None:
    if encoding.method not in ENCODING_METHODS:
        raise BadInputError(
            f"encoding {shown(encoding.method)} is unknown; give {', '.join(ENCODING_METHODS)}"
        )
    if encoding.ticks < 1:
        raise BadInputError(f"encoding: ticks is {encoding.ticks}; it must be at least 1")


def _in_range(row: NDArray[Any], sample: int, method: EncodingMethod) -> NDArray[np.float64]:
    """Return the values of a sample; raise `BadInputError` if some are outside the range."""
    low, high = row.min(initial=0), row.max(initial=0)
    most = MAX_VALUE[method]
    if not (low >= 0 and high <= most):  # also refuses NaN
        raise BadInputError(
            f"sample {sample} (from 0) has values from {low:g} to {high:g}; {method} encodes "
            f"values from 0 to {most:g}, so scale the samples (pixels of 0 to 255: divide by 255)"
        )
    return row.astype(np.float64)


def _encoded(row: NDArray[np.float64], encoding: Encoding, sample: int) -> _EncodedSample:
    if encoding.method == "rate":
        return _by_rate(row, encoding, sample)
    if encoding.method == "latency":
        return _by_latency(row, encoding.ticks)
    return _by_current(row, encoding.ticks)


def _by_rate(row: NDArray[np.float64], encoding: Encoding, sample: int) -> _EncodedSample:
    """Draw a spike for each tick and neuron by a chain of hashes, like counters of splitmix64."""
    neuron = np.flatnonzero(row)
    bound = np.ldexp(row[neuron], DRAWN_BITS).astype(np.uint64)
    of_sample = _hashes(_hashes(encoding.seed & WORD, np.zeros(1)), np.array([sample]))
    of_tick = _hashes(of_sample, np.arange(encoding.ticks))
    ticks: list[NDArray[np.int32]] = []
    neurons: list[NDArray[np.int32]] = []
    at_once = max(1, HASHED_AT_ONCE // max(neuron.size, 1))
    for first in range(0, encoding.ticks, at_once):
        drawn = _hashes(of_tick[first : first + at_once, None], neuron)
        tick, place = np.nonzero((drawn >> np.uint64(64 - DRAWN_BITS)) < bound)
        ticks.append((tick + first).astype(np.int32))
        neurons.append(neuron[place].astype(np.int32))
    found = [np.concatenate(parts) for parts in (ticks, neurons)]
    return _EncodedSample(found[0], found[1], np.ones(found[0].size, np.int32))


def _hashes(base: Any, counter: NDArray[Any]) -> NDArray[np.uint64]:
    """Return a hash of each number from 0 that `base` counts from."""
    step = (counter.astype(np.uint64) + np.uint64(1)) * np.uint64(GOLDEN)
    # The Python function of the kernel: NumPy computes arrays without compilation.
    return getattr(scrambled, "py_func", scrambled)(np.asarray(base, np.uint64) + step)


def _by_latency(row: NDArray[np.float64], ticks: int) -> _EncodedSample:
    neuron = np.flatnonzero(row)
    tick = np.rint((1 - row[neuron]) * (ticks - 1)).astype(np.int32)
    order = np.argsort(tick, kind="stable")
    return _EncodedSample(tick[order], neuron[order].astype(np.int32), np.ones(tick.size, np.int32))


def _by_current(row: NDArray[np.float64], ticks: int) -> _EncodedSample:
    steps = np.rint(row * CURRENT_STEPS).astype(np.int32)
    neuron = np.flatnonzero(steps)
    return _EncodedSample(
        np.repeat(np.arange(ticks, dtype=np.int32), neuron.size),
        np.tile(neuron.astype(np.int32), ticks),
        np.tile(steps[neuron], ticks),
    )
