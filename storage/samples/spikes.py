"""Samples of spikes: numpy archives with the spikes of a model's inputs.

An archive (`.npz`) has either, for each input, an array with its name, or `x` if there is one
input: spikes per sample, tick and neuron, shape (samples, ticks, *shape). Or it lists spikes, in
arrays `sample`, `tick` and `neuron` of shape (spikes,), where `neuron` counts through all inputs;
`value` is the number of spikes if not 1, and the numbers `samples` and `ticks` are needed if the
last have no spikes. Labels are in `y`, shape (samples,).

With an encoding, the arrays of the inputs are real numbers, shape (samples, *shape).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from storage.errors import BadInputError
from storage.npz import DAMAGE, open_arrays
from storage.samples.encoding import ENCODING_METHODS, Encoding, encode
from storage.samples.spike_lists import Int64, SpikeSamples

__all__ = ["SpikeSamples", "read_spike_samples", "spikes_of_arrays"]

Shape = tuple[int, ...]
MAX_VALUES = 1 << 30
"""Largest number of values in an array."""
LISTS = ("sample", "tick", "neuron")


def read_spike_samples(
    path: Path, shapes: dict[str, Shape], encoding: Encoding | None = None
) -> SpikeSamples:
    """Read the samples of a model.

    shapes : shape of each input by name, in the order in which their neurons are numbered
    encoding : of real numbers as spikes; None if the file holds spikes

    Raises `BadInputError` for damaged files, and for spikes or values that do not fit the inputs.
    """
    try:
        with open_arrays(path, MAX_VALUES) as archive:
            found = {name: archive[name] for name in archive.files}
    except BadInputError:
        raise
    except DAMAGE as error:
        reason = " ".join(str(error).split())[:120]
        raise BadInputError(f"{path}: not a valid npz file ({reason}); save it again") from error
    try:
        return spikes_of_arrays(found, shapes, encoding)
    except BadInputError as error:
        raise BadInputError(f"{path}: {error}") from error


def spikes_of_arrays(
    arrays: Mapping[str, ArrayLike], shapes: dict[str, Shape], encoding: Encoding | None = None
) -> SpikeSamples:
    """Return the samples in arrays with the names of an archive; see `read_spike_samples`."""
    found = _named({name: np.asarray(values) for name, values in arrays.items()}, shapes)
    return _samples(found, shapes) if encoding is None else _encoded(found, shapes, encoding)


def _named(found: dict[str, NDArray[Any]], shapes: dict[str, Shape]) -> dict[str, NDArray[Any]]:
    """Return the arrays, `x` by the name of the only input; refuse spikes that are stored twice."""
    if len(shapes) == 1 and "x" in found:
        (name,) = shapes
        if name != "x" and name in found:
            raise BadInputError(f"holds both x and {name}, for one input; keep one of them")
        found = {name if key == "x" else key: values for key, values in found.items()}
    dense = [name for name in shapes if name in found]
    lists = [name for name in LISTS if name in found and name not in shapes]
    if dense and lists:
        raise BadInputError(
            f"holds an array of {dense[0]} and lists ({', '.join(lists)}); keep one of them"
        )
    return found


def _samples(found: dict[str, NDArray[Any]], shapes: dict[str, Shape]) -> SpikeSamples:
    if all(name in found for name in shapes):
        spikes, samples, ticks = _dense(found, shapes)
    elif all(name in found for name in LISTS):
        spikes, samples, ticks = _lists(found, sum(math.prod(shape) for shape in shapes.values()))
    else:
        raise BadInputError(
            f"holds {', '.join(found) or 'nothing'}; it must hold {_wanted(shapes)}, or `sample`, "
            "`tick` and `neuron`"
        )
    order = np.lexsort((spikes[2], spikes[1], spikes[0]))
    sample, tick, neuron, value = _merged(spikes[:, order])
    return SpikeSamples(sample, tick, neuron, value, samples, ticks, _labels(found, samples))


def _wanted(shapes: dict[str, Shape]) -> str:
    return "`x`" if len(shapes) == 1 else " and ".join(f"`{name}`" for name in shapes)


def _encoded(
    found: dict[str, NDArray[Any]], shapes: dict[str, Shape], encoding: Encoding
) -> SpikeSamples:
    """Return the encoded values of all inputs; axes of length 1 may be missing."""
    if not all(name in found for name in shapes):
        raise BadInputError(
            f"holds {', '.join(found) or 'nothing'}; to encode real numbers, it must hold "
            f"{_wanted(shapes)}"
        )
    parts: list[NDArray[Any]] = []
    for name, shape in shapes.items():
        values = found[name]
        if values.ndim == len(shape) + 2 and values.shape[2:] == shape:
            raise BadInputError(
                f"{name} has shape {values.shape}, with an axis of ticks; leave out the encoding"
            )
        if values.ndim < 1 or _wide(values.shape[1:]) != _wide(shape):
            raise BadInputError(
                f"{name} has shape {values.shape}; the input has {shape}, so give "
                f"(samples, {', '.join(map(str, shape))})"
            )
        if parts and len(values) != len(parts[0]):
            raise BadInputError(
                f"{name} has {len(values)} samples; the input before has {len(parts[0])}"
            )
        parts.append(values.reshape(len(values), math.prod(shape)))
    rows = parts[0] if len(parts) == 1 else np.concatenate(parts, axis=1)
    return encode(rows, *encoding)._replace(labels=_labels(found, len(rows)))


def _wide(shape: Shape) -> Shape:
    return tuple(size for size in shape if size != 1)


def _dense(found: dict[str, NDArray[Any]], shapes: dict[str, Shape]) -> tuple[Int64, int, int]:
    """Return spikes as rows sample, tick, neuron, value; number of samples and of ticks."""
    parts, first = [], 0
    extent: tuple[int, ...] = ()
    for name, shape in shapes.items():
        values = found[name]
        if values.ndim == len(shape) + 1 and values.shape[1:] == shape:
            raise BadInputError(
                f"{name} has shape {values.shape}, without an axis of ticks; give (samples, ticks, "
                f"{', '.join(map(str, shape))}), or encode it: --encode "
                f"{'|'.join(ENCODING_METHODS)} --ticks T"
            )
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
