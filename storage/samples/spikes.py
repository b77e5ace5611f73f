"""Samples of spikes: numpy archives with the spikes of a model's inputs.

An archive (`.npz`) has either, for each input, an array with its name, or `x` if there is one
input: spikes per sample, tick and neuron, shape (samples, ticks, *shape). Or it lists spikes, in
arrays `sample`, `tick` and `neuron` of shape (spikes,), where `neuron` counts through all inputs;
`value` is the number of spikes if not 1, and the numbers `samples` and `ticks` are needed if the
last have no spikes. Labels are in `y`, shape (samples,).
"""

from __future__ import annotations

import math
import struct
import zipfile
import zlib
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from storage.errors import BadInputError
from storage.npz import open_arrays

Int64 = NDArray[np.int64]
Shape = tuple[int, ...]
MAX_VALUES = 1 << 30
"""Largest number of values in an array."""
LISTS = ("sample", "tick", "neuron")
_DAMAGE = (
    ValueError, KeyError, EOFError, OSError, zipfile.BadZipFile, zlib.error, NotImplementedError,
    RuntimeError, MemoryError, TypeError, AttributeError, struct.error,
)  # fmt: skip


class SpikeSamples(NamedTuple):
    """Spikes of the inputs in all samples, sorted by sample, tick and neuron.

    sample, tick, neuron, value : ndarray[int64], shape (spikes,); `neuron` counts through all
        inputs from 0, and `value` is the number of spikes of that neuron in that tick
    samples, ticks : number of samples, and ticks per sample
    labels : class of each sample, ndarray[int64], shape (samples,), None without labels
    """

    sample: Int64
    tick: Int64
    neuron: Int64
    value: Int64
    samples: int
    ticks: int
    labels: Int64 | None


def read_spike_samples(path: Path, shapes: dict[str, Shape]) -> SpikeSamples:
    """Read the samples of a model.

    shapes : shape of each input by name, in the order in which their neurons are numbered

    Raises `BadInputError` for damaged files, and for spikes that do not fit the inputs.
    """
    try:
        with open_arrays(path, MAX_VALUES) as archive:
            found = {name: archive[name] for name in archive.files}
    except BadInputError:
        raise
    except _DAMAGE as error:
        reason = " ".join(str(error).split())[:120]
        raise BadInputError(f"{path}: not a valid npz file ({reason}); save it again") from error
    try:
        return _samples(found, shapes)
    except BadInputError as error:
        raise BadInputError(f"{path}: {error}") from error


def _samples(found: dict[str, NDArray[Any]], shapes: dict[str, Shape]) -> SpikeSamples:
    if len(shapes) == 1 and "x" in found:
        found = {next(iter(shapes)) if name == "x" else name: v for name, v in found.items()}
    if all(name in found for name in shapes):
        spikes, samples, ticks = _dense(found, shapes)
    elif all(name in found for name in LISTS):
        spikes, samples, ticks = _lists(found, sum(math.prod(shape) for shape in shapes.values()))
    else:
        wanted = "`x`" if len(shapes) == 1 else " and ".join(f"`{name}`" for name in shapes)
        raise BadInputError(
            f"holds {', '.join(found) or 'nothing'}; it must hold {wanted}, or `sample`, `tick` "
            "and `neuron`"
        )
    order = np.lexsort((spikes[2], spikes[1], spikes[0]))
    sample, tick, neuron, value = _merged(spikes[:, order])
    return SpikeSamples(sample, tick, neuron, value, samples, ticks, _labels(found, samples))


def _dense(found: dict[str, NDArray[Any]], shapes: dict[str, Shape]) -> tuple[Int64, int, int]:
    """Return spikes as rows sample, tick, neuron, value; number of samples and of ticks."""
    parts, first = [], 0
    extent: tuple[int, ...] = ()
    for name, shape in shapes.items():
        values = found[name]
        if values.ndim < 2 or values.shape[2:] != shape:
            raise BadInputError(
                f"{name} has shape {values.shape}; the input has {shape}, so give "
                f"(samples, ticks, {', '.join(map(str, shape))})"
            )
        if extent and values.shape[:2] != extent:
            raise BadInputError(
                f"{name} has {values.shape[0]} samples of {values.shape[1]} ticks; the input "
                f"before has {extent[0]} of {extent[1]}"
            )
        extent = values.shape[:2]
        if values.dtype.kind not in "biu":
            raise BadInputError(
                f"{name} holds {values.dtype}; give numbers of spikes, as whole numbers"
            )
        if values.dtype.kind == "i" and values.size and values.min() < 0:
            raise BadInputError(f"{name} holds {values.min()}; numbers of spikes start from 0")
        flat = values.reshape(*extent, math.prod(shape))
        at = np.nonzero(flat)
        parts.append(np.stack([at[0], at[1], at[2] + first, flat[at].astype(np.int64)]))
        first += flat.shape[2]
    return np.concatenate(parts, axis=1), extent[0], extent[1]


def _lists(found: dict[str, NDArray[Any]], neurons: int) -> tuple[Int64, int, int]:
    """Return spikes as rows sample, tick, neuron, value; number of samples and of ticks."""
    columns = {name: found[name] for name in (*LISTS, "value") if name in found}
    for name, values in columns.items():
        if values.ndim != 1 or (values.size and values.dtype.kind not in "iu"):
            raise BadInputError(
                f"{name} is {values.dtype} of shape {values.shape}; give a list of whole numbers"
            )
    sizes = {values.size for values in columns.values()}
    if len(sizes) > 1:
        counts = ", ".join(f"{values.size} {name}" for name, values in columns.items())
        raise BadInputError(f"the lists differ in length: {counts}; give one of each per spike")
    size = sizes.pop()
    value = columns["value"] if "value" in columns else np.ones(size, np.int64)
    spikes = np.stack([*(columns[name].astype(np.int64) for name in LISTS), value.astype(np.int64)])
    counts_of = {
        "sample": _count(found, "samples", spikes[0]),
        "tick": _count(found, "ticks", spikes[1]),
        "neuron": neurons,
    }
    for (name, end), values in zip(counts_of.items(), spikes, strict=False):
        wrong = np.flatnonzero((values < 0) | (values >= end))
        if wrong.size:
            whole = "the inputs have" if name == "neuron" else "there are"
            raise BadInputError(
                f"spike {wrong[0]} (from 0) has {name} {values[wrong[0]]}; {whole} {end}, numbered "
                "from 0"
            )
    if (spikes[3] < 0).any():
        raise BadInputError(f"value is {spikes[3].min()}; numbers of spikes start from 0")
    return spikes, counts_of["sample"], counts_of["tick"]


def _count(found: dict[str, NDArray[Any]], name: str, values: Int64) -> int:
    """Return the number of samples or ticks: stored in the file, or else of samples with spikes."""
    if name not in found:
        return int(values.max(initial=-1)) + 1
    given = found[name]
    if given.size != 1 or given.dtype.kind not in "iu" or int(given.ravel()[0]) < 0:
        raise BadInputError(f"{name} is {given}; it must be one whole number from 0")
    return int(given.ravel()[0])


def _merged(spikes: Int64) -> Int64:
    """Merge sorted spikes of one neuron in one tick; drop zeros."""
    spikes = spikes[:, spikes[3] > 0]
    if not spikes.shape[1]:
        return spikes
    fresh = np.r_[True, (np.diff(spikes[:3], axis=1) != 0).any(axis=0)]
    first = np.flatnonzero(fresh)
    return np.concatenate([spikes[:3, first], np.add.reduceat(spikes[3], first)[None]])


def _labels(found: dict[str, NDArray[Any]], samples: int) -> Int64 | None:
    if "y" not in found:
        return None
    labels = found["y"]
    if labels.dtype.kind not in "iu" or labels.shape != (samples,):
        raise BadInputError(
            f"y is {labels.dtype} of shape {labels.shape}; give a whole number for each of the "
            f"{samples} samples"
        )
    return labels.astype(np.int64)
