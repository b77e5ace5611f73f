"""Files of samples: each kind can be read in batches, in any order."""

from __future__ import annotations

import contextlib
import mmap
import os
import zipfile
from abc import abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from storage.budget import declared_bytes
from storage.closing import Closing
from storage.errors import BadInputError, reason_of
from storage.files import open_input
from storage.npz import DAMAGE, array_header
from storage.samples.form import sizes

Labels = NDArray[np.int64]

REAL = "buif"  # dtype kinds of real numbers
LONGEST_LINE = 1 << 26  # most bytes of a sample as text
SKIPPED = 1 << 22  # bytes decompressed at a time when skipping to a sample


class SampleSource(Closing):
    """Samples in a file, or in memory.

    where : the file, or the name of the samples in memory, for messages
    shape : of one sample
    labels : of all samples, or None
    notes : unused content, for the user
    """

    def __init__(self, where: Path | str) -> None:
        self.where = str(where)
        self.count = 0
        self.shape: tuple[int, ...] = ()
        self.labels: Labels | None = None
        self.notes: list[str] = []

    @abstractmethod
    def read(self, first: int, count: int) -> NDArray[Any]:
        """Return samples first .. first + count - 1, shape (count, *shape)."""

    def _choose(self, names: Sequence[str], wanted: str | None) -> str:
        """Return which of several arrays has the samples; note the others except the labels `y`.

        wanted : name of the model's input
        """
        others = [name for name in names if name != "y"]
        found = next((name for name in (wanted, "x") if name in names), None)
        if found is None and len(others) == 1:
            (found,) = others
        if found is None:
            given = ", ".join(sorted(names)[:8]) or "nothing"
            of_model = "" if wanted in (None, "x") else f", or as {wanted}"
            raise BadInputError(
                f"{self.where}: has only arrays {given}; save the samples as x{of_model}, and "
                "labels as y"
            )
        left_out = sorted(set(names) - {found, "y"})
        if left_out:
            self.notes.append(f"{self.where}: arrays {', '.join(left_out[:8])} are not used")
        return found

    def _require_labels(self, shape: tuple[int, ...], dtype: np.dtype[Any], name: str) -> None:
        """Raise `BadInputError` if an array cannot be the labels of the samples `name`."""
        if dtype.kind in REAL and shape in ((self.count,), (self.count, 1)):
            return
        if len(shape) in (1, 2) and shape[1:] in ((), (1,)) and dtype.kind in REAL:
            raise BadInputError(
                f"{self.where}: {name} has {self.count} samples, but y has {shape[0]} labels"
            )
        raise BadInputError(
            f"{self.where}: y has shape {sizes(shape)} of {dtype}; labels must be one whole "
            "number per sample"
        )

    def _describe(self, shape: tuple[int, ...], dtype: np.dtype[Any], name: str) -> None:
        _require_real(dtype, name)
        if len(shape) < 1 or not shape[0] or not all(shape):
            raise BadInputError(f"{name} has no samples (shape {sizes(shape)})")
        self.count, self.shape = shape[0], shape[1:] or (1,)


class NpySource(SampleSource):
    """A single array, memory-mapped."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        with open_input(path) as file:
            try:
                np.lib.format.read_magic(file)
            except ValueError as error:
                raise BadInputError(f"{path}: not a .npy file; save it with numpy.save") from error
            file.seek(0)
            _require_real(_type(file), f"{path}: its array")
            file.seek(0)
            _require_whole(file, path)
            file.seek(0)
            try:  # numpy multiplies the sizes without a check
                array_header(file, path.stat().st_size, "the array")
            except DAMAGE as error:
                raise BadInputError(f"{path}: cannot be read: {reason_of(error)}") from error
        try:
            self._array: NDArray[Any] | None = np.load(path, mmap_mode="r", allow_pickle=False)
        except DAMAGE as error:
            reason = " ".join(str(error).split())[:120]
            raise BadInputError(f"{path}: cannot be read: {reason}") from error
        try:
            self._describe(self._array.shape, self._array.dtype, f"{path}: its array")
        except BadInputError:
            self.close()
            raise

    def read(self, first: int, count: int) -> NDArray[Any]:
        assert self._array is not None
        return np.array(self._array[first : first + count])

    def close(self) -> None:
        held: Any = None if self._array is None else getattr(self._array, "_mmap", None)
        self._array = None
        if isinstance(held, mmap.mmap):
            held.close()


class NpzSource(SampleSource):
    """The samples of an archive, decompressed on demand: the array with the name of the model's
    input, or x, or the only one; and the labels y, if present."""

    def __init__(self, path: Path, name: str | None = None) -> None:
        """name : of the model's input"""
        super().__init__(path)
        self._name = name
        self._file = open_input(path)
        self._member: Any = None
        self._at = 0
        try:
            self._open(path)
        except BadInputError:
            self.close()
            raise
        except DAMAGE as error:
            self.close()
            raise self._damaged(error) from error

    def _open(self, path: Path) -> None:
        self._archive = zipfile.ZipFile(self._file)
        names = [name.removesuffix(".npy") for name in self._archive.namelist()]
        self._name = found = self._choose(names, self._name)
        shape, self._turned, self._type = self._rewind()
        self._describe(shape, self._type, f"{path}: {found}")
        if "y" in names:
            with self._archive.open("y.npy") as member:
                self.labels = self._labels(member)

    def _rewind(self) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
        """Go to the first sample; return shape, whether axes are reversed, and type."""
        if self._member is not None:
            self._member.close()
        member = f"{self._name}.npy"
        self._member, self._at = self._archive.open(member), 0
        return array_header(self._member, self._archive.getinfo(member).file_size, str(self._name))

    def _labels(self, member: Any) -> Labels:
        shape, _, dtype = array_header(member, self._archive.getinfo("y.npy").file_size, "y")
        self._require_labels(shape, dtype, str(self._name))
        values = np.frombuffer(member.read(self.count * dtype.itemsize), dtype)
        return whole_labels(values, self.where)

    def read(self, first: int, count: int) -> NDArray[Any]:
        try:
            if self._turned:  # its samples are interleaved
                self._rewind()
                flat = np.frombuffer(self._member.read(), self._type)
                return np.array(flat.reshape((*self.shape[::-1], self.count)).T[first:][:count])
            each = self._type.itemsize * int(np.prod(self.shape, dtype=np.int64))
            if first < self._at:
                self._rewind()
            ahead = (first - self._at) * each
            while ahead:
                ahead -= len(_exactly(self._member, min(ahead, SKIPPED)))
            data = _exactly(self._member, count * each)
            self._at = first + count
            return np.frombuffer(data, self._type).reshape(count, *self.shape)
        except DAMAGE as error:
            raise self._damaged(error) from error

    def _damaged(self, error: BaseException) -> BadInputError:
        reason = reason_of(error) or type(error).__name__
        return BadInputError(f"{self.where}: is damaged or not a .npz file ({reason})")

    def close(self) -> None:
        if self._member is not None:
            self._member.close()
            self._archive.close()
        self._file.close()


def require_numbers(path: Path) -> None:
    """Raise `BadInputError` if no array of a `.npz` file other than y holds real numbers.

    Reads only the headers of the arrays. Damage is reported by `NpzSource`.
    """
    kinds: dict[str, np.dtype[Any] | None] = {}
    with contextlib.suppress(*DAMAGE), open_input(path) as file, zipfile.ZipFile(file) as archive:
        for name in archive.namelist():
            with archive.open(name) as member:
                kinds[name.removesuffix(".npy")] = _type(member)
    require_some_real(kinds, str(path))


def require_some_real(kinds: dict[str, np.dtype[Any] | None], where: str) -> None:
    """Raise `BadInputError` if no array other than y holds real numbers.

    kinds : number types by name, None if unknown
    """
    kinds = {name: kind for name, kind in kinds.items() if name != "y"}
    if kinds and all(kind is not None and kind.kind not in REAL for kind in kinds.values()):
        name = "x" if "x" in kinds else next(iter(kinds))
        _require_real(kinds[name], f"{where}: {name}")


def _require_real(dtype: np.dtype[Any] | None, name: str) -> None:
    if dtype is not None and dtype.kind not in REAL:
        what = "Python objects" if dtype.hasobject else str(dtype)
        raise BadInputError(f"{name} holds {what}; save real numbers, such as float32")


def _require_whole(file: BinaryIO, path: Path) -> None:
    """Raise `BadInputError` if an array is larger than its file; numpy reports other damage."""
    try:
        shape, _, dtype = array_header(file, None, "")
    except DAMAGE:
        return
    declared, stored = declared_bytes(shape, dtype.itemsize), os.fstat(file.fileno()).st_size
    if declared > stored and all(shape):
        raise BadInputError(
            f"{path}: its shape {sizes(shape)} needs {declared:,} bytes, but the file has only "
            f"{stored:,}; is it complete?"
        )


def _type(member: Any) -> np.dtype[Any] | None:
    """Return the type of an array from its header, or None if the header is damaged."""
    try:
        return array_header(member, None, "")[2]
    except DAMAGE:
        return None


def _exactly(member: Any, count: int) -> bytes:
    data = member.read(count)
    if len(data) < count:
        raise EOFError("x is truncated")
    return bytes(data)


class CsvSource(SampleSource):
    """Lines of a label and numbers, separated by commas; a header line is skipped."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self._file: BinaryIO = open_input(path)
        try:
            self._scan()
        except BaseException:
            self.close()
            raise

    def _scan(self) -> None:
        self._lines: list[tuple[int, int]] = []  # line number and offset of each sample
        labels = []
        for number, (place, line) in enumerate(self._all_lines(), 1):
            head = line.partition(b",")[0].strip()
            if not line.strip():
                continue
            try:
                labels.append(float(head))
            except ValueError:
                if number == 1:
                    self.notes.append(f"{self.where}: line 1 is skipped as a header")
                    continue
                raise BadInputError(
                    f"{self.where}, line {number}: starts with {head[:20]!r}; a line must be "
                    "a label, then the numbers of a sample"
                ) from None
            self._lines.append((number, place))
        if not self._lines:
            raise BadInputError(
                f"{self.where}: has no samples; a line must be a label, then numbers"
            )
        self.labels = whole_labels(np.array(labels), self.where)
        self.count = len(self._lines)
        self.shape = (self._sample(*self._lines[0]).size,)

    def _all_lines(self) -> Any:
        place = 0
        while line := self._file.readline(LONGEST_LINE):
            if len(line) == LONGEST_LINE:
                raise BadInputError(f"{self.where}: a line is longer than {LONGEST_LINE >> 20} MiB")
            yield place, line
            place += len(line)

    def read(self, first: int, count: int) -> NDArray[Any]:
        made = np.empty((count, *self.shape))
        for at, (number, place) in enumerate(self._lines[first : first + count]):
            sample = self._sample(number, place)
            if sample.shape != self.shape:
                raise BadInputError(
                    f"{self.where}, line {number}: has {sample.size} numbers after the label, "
                    f"but the first sample has {self.shape[0]}"
                )
            made[at] = sample
        return made

    def _sample(self, number: int, place: int) -> NDArray[np.float64]:
        self._file.seek(place)
        fields = self._file.readline(LONGEST_LINE).rstrip(b", \t\r\n").split(b",")[1:]
        try:
            made = np.array(fields, np.bytes_).astype(np.float64) if fields else np.empty(0)
        except ValueError as error:
            raise BadInputError(
                f"{self.where}, line {number}: contains a value that is not a number; "
                "a line must be a label, then the numbers of a sample, separated by commas"
            ) from error
        if not made.size:
            raise BadInputError(f"{self.where}, line {number}: has no numbers after the label")
        return made

    def close(self) -> None:
        self._file.close()


def whole_labels(values: NDArray[Any], where: str) -> Labels:
    """Return labels as integers; raise `BadInputError` if they are not."""
    numbers = values.reshape(-1).astype(np.float64)
    if not ((numbers >= 0) & (numbers < 2**53) & (numbers == np.rint(numbers))).all():
        raise BadInputError(f"{where}: labels must be whole class numbers from 0")
    return numbers.astype(np.int64)
