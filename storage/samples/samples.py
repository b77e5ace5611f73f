"""Samples as model input: rearranged, normalised, and checked to be finite."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from storage.closing import Closing
from storage.errors import BadInputError
from storage.files import require_file
from storage.samples.arrays import ArraySource, SampleTable, require_arrays
from storage.samples.form import InputShape, SampleForm, arrangement, sizes
from storage.samples.images import ImageSource
from storage.samples.sources import (
    CsvSource,
    Labels,
    NpySource,
    NpzSource,
    SampleSource,
    require_numbers,
)

AT_ONCE = 1 << 24  # numbers checked at a time
_KINDS: dict[str, Callable[[Path], SampleSource]] = {
    ".npz": NpzSource, ".npy": NpySource, ".csv": CsvSource,
}  # fmt: skip


class Samples(Closing):
    """The first samples of a file as model input.

    labels : int64, shape (samples,), class number of each; None if the file has none
    notes : unused content of the file, and assumptions
    """

    def __init__(
        self,
        source: SampleSource,
        taken: InputShape,
        form: SampleForm,
        limit: int | None = None,
    ) -> None:
        """Raises `BadInputError` for samples of another size, and if all samples are zero."""
        self.taken = taken
        self._source = source
        self._normalisation = form.normalisation
        self._normalisation.require_channels(taken)
        self._count = source.count if limit is None else min(limit, source.count)
        images = isinstance(source, ImageSource)
        layout = "nhwc" if images else form.layout
        self._arrangement = arrangement(source.shape, taken, layout, source.where)
        self.labels: Labels | None = None if source.labels is None else source.labels[: len(self)]
        self._own_notes: list[str] = []
        if limit is not None and limit > source.count:
            self._own_notes.append(
                f"{source.where}: has {source.count} samples, fewer than the {limit} requested"
            )
        several = taken.channels > 1 and len(taken.shape) > 1
        if layout is None and len(source.shape) == 1 and several:
            order = "last" if taken.channels_last else "first"
            self._own_notes.append(
                f"{source.where}: rows of {source.shape[0]} numbers are read as "
                f"{sizes(taken.shape)}, channels {order}, like the model's input; "
                "set the layout to change this"
            )
        self._require_values()

    def __len__(self) -> int:
        return self._count

    @property
    def notes(self) -> list[str]:
        return self._source.notes + self._own_notes

    def read(self, first: int, count: int) -> NDArray[np.float32]:
        """Return at most `count` samples from `first`, shape (samples, *shape).

        Raises `BadInputError` with the sample's number for NaN and infinite numbers, and for lines
        and images of another size.
        """
        count = max(0, min(count, len(self) - first))
        data = self._source.read(first, count)
        made = self._normalisation.apply(self._arrangement.apply(data), self.taken)
        good = np.isfinite(made.reshape(count, -1)).all(1)
        if not good.all():
            raise BadInputError(
                f"{self._source.where}: sample {first + int(good.argmin())} (of 0 to "
                f"{self._source.count - 1}) contains NaN or infinite numbers; remove it"
            )
        return np.ascontiguousarray(made)

    def batches(self, count: int) -> Iterator[NDArray[np.float32]]:
        """Yield all samples, `count` at a time."""
        for first in range(0, len(self), count):
            yield self.read(first, count)

    def _require_values(self) -> None:
        """Raise `BadInputError` if all samples are zero."""
        some = max(1, min(AT_ONCE // self.taken.size, 64))
        for first in range(0, len(self), some):
            if self._source.read(first, min(some, len(self) - first)).any():
                return
        raise BadInputError(
            f"{self._source.where}: all {len(self)} samples are zero; is it the right file?"
        )

    def close(self) -> None:
        self._source.close()


def open_samples(
    source: Path | SampleTable,
    shape: tuple[int, ...],
    form: SampleForm,
    limit: int | None = None,
    *,
    channels_last: bool = False,
    name: str | None = None,
) -> Samples:
    """Open samples in a `.npz`, `.npy` or `.csv` file, a folder of images, or arrays; close after
    use.

    shape : of the model's input, without its batch axis
    limit : number of samples to read, from the first
    channels_last : whether that shape has the channels on its last axis
    name : of the model's input, and possibly of the array in a `.npz` file
    Raises `BadInputError` with the faulty file or sample in one line.
    """
    if limit is not None and limit < 1:
        raise BadInputError(f"{source}: the number of samples is {limit}; it must be at least 1")
    taken = InputShape(tuple(int(size) for size in shape), channels_last)
    opened = _source(source, taken, name)
    try:
        return Samples(opened, taken, form, limit)
    except BaseException:
        opened.close()
        raise


def require_samples(path: Path | SampleTable) -> None:
    """Raise `BadInputError` if a file cannot hold samples, judged by its name and headers.

    Takes milliseconds: call it before reading a model or compiling kernels.
    """
    if isinstance(path, SampleTable):
        require_arrays(path)
        return
    if path.is_dir():
        return
    kind = _kind(path)
    require_file(path)
    if kind is NpySource:
        NpySource(path).close()
    elif kind is NpzSource:
        require_numbers(path)


class SampleArrays(NamedTuple):
    """Samples in memory.

    x : float32, shape (samples, *shape of the model's input)
    labels, notes : see `Samples`
    """

    x: NDArray[np.float32]
    labels: Labels | None
    notes: list[str]


def read_samples(
    source: Path | SampleTable,
    shape: tuple[int, ...],
    form: SampleForm,
    limit: int | None = None,
    *,
    channels_last: bool = False,
) -> SampleArrays:
    """Read all samples of `open_samples` with the same arguments into memory."""
    with open_samples(source, shape, form, limit, channels_last=channels_last) as samples:
        x = samples.read(0, len(samples))
        return SampleArrays(x, samples.labels, samples.notes)


def _source(path: Path | SampleTable, taken: InputShape, name: str | None) -> SampleSource:
    if isinstance(path, SampleTable):
        return ArraySource(path, name)
    if path.is_dir():
        return ImageSource(path, taken)
    kind = _kind(path)
    return NpzSource(path, name) if kind is NpzSource else kind(path)


def _kind(path: Path) -> Callable[[Path], SampleSource]:
    """Return the source class for a file, by its extension."""
    kind = _KINDS.get(path.suffix.lower())
    if kind is None:
        raise BadInputError(
            f"{path}: not a file of samples; give .npz (arrays x and y), .npy, .csv (label, "
            "then pixels), or a folder of images"
        )
    return kind
