"""Directory of a zip archive in arrays, parsed once, piece by piece.

Python's `zipfile` creates an object per member: 5.9 us and 572 bytes, which is 5 s and half a
gigabyte for a network of a million blocks. Here numbered members, such as blocks, take 21 bytes
each and no object; all others are in a dictionary. PKWARE's APPNOTE 6.3.10, sections 4.3.12 to
4.3.16 and 4.5.3. It refuses the same archives as `zipfile`, with
the same messages.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from storage.blobs.blob import Blob
from storage.errors import BadInputError, CorruptError

_RECORD = np.dtype(
    [
        ("signature", "<u4"), ("made", "<u2"), ("needs", "u1"), ("system", "u1"),
        ("flags", "<u2"), ("method", "<u2"), ("time", "<u4"), ("crc", "<u4"),
        ("packed", "<u4"), ("size", "<u4"), ("name", "<u2"), ("extra", "<u2"),
        ("comment", "<u2"), ("disk", "<u2"), ("internal", "<u2"), ("external", "<u4"),
        ("offset", "<u4"),
    ]
)  # fmt: skip
_END = struct.Struct("<4sHHHHIIH")
_END64 = struct.Struct("<4sQHHIIQQQQ")
_LOCATOR64 = struct.Struct("<4sIQI")
_SIGNATURE = b"PK\1\2"
_MAX32 = 0xFFFFFFFF
_UTF8 = 1 << 11
_NEWEST = 63  # newest supported version of the specification, in tenths
_FAR = 2**62  # past the end of any file
DIGITS = 8  # of the numbers in member names
PARSED_BYTES = 1 << 20  # bytes of the directory parsed at a time; longer than any record

Places = NDArray[np.int64]
_Kind = TypeVar("_Kind", bound=np.generic)


def numbered(prefix: str, number: int) -> str:
    """Return the name of a numbered member."""
    return f"{prefix}{number:0{DIGITS}d}"


class Member(NamedTuple):
    """Location and header fields of a member.

    name : in the archive; offset : of its header; packed, size : compressed and inflated bytes;
    method : of compression, 255 if unknown
    """

    name: bytes
    offset: int
    packed: int
    size: int
    crc: int
    method: int


class Series:
    """Members PREFIX00000000, PREFIX00000001, ..., from any number, of sizes below 4 GiB."""

    def __init__(self, prefix: str, parts: list[_Table]) -> None:
        self.prefix = prefix
        numbers = np.concatenate([part.number for part in parts])
        order = None
        if np.any(numbers[1:] <= numbers[:-1]):
            order = np.argsort(numbers, kind="stable")
            last = np.append(np.diff(numbers[order]) > 0, True)  # the last of equal names wins
            order = order[last]
            numbers = numbers[order]
        self._first = int(numbers[0]) if numbers.size else 0
        dense = not numbers.size or numbers[-1] - self._first == numbers.size - 1
        self._numbers = None if dense else numbers

        def column(arrays: Iterable[NDArray[_Kind]]) -> NDArray[_Kind]:
            found = np.concatenate(list(arrays))
            return found if order is None else found[order]

        self.offset = column(part.offset for part in parts)
        self.packed = column(part.packed for part in parts)
        self.size = column(part.size for part in parts)
        self.crc = column(part.crc for part in parts)
        self.method = column(part.method for part in parts)

    def __len__(self) -> int:
        return self.size.size

    def place(self, number: int) -> int:
        """Return the array index of a number; -1 if there is none."""
        if self._numbers is None:
            at = number - self._first
            return at if 0 <= at < len(self) else -1
        at = int(np.searchsorted(self._numbers, number))
        return at if at < len(self) and self._numbers[at] == number else -1

    def names(self) -> Iterator[str]:
        """Yield the names of all members."""
        numbers = self._numbers
        if numbers is None:
            numbers = np.arange(self._first, self._first + len(self), dtype=np.int32)
        for number in numbers:
            yield numbered(self.prefix, int(number))


class _Table(NamedTuple):
    """Members of a series, in the order of the directory."""

    number: NDArray[np.int32]
    offset: Places
    packed: NDArray[np.uint32]
    size: NDArray[np.uint32]
    crc: NDArray[np.uint32]
    method: NDArray[np.uint8]


class ArchiveIndex:
    """Members of an archive by name."""

    def __init__(self, blob: Blob, prefixes: Sequence[str] = ()) -> None:
        """prefixes : of series

        Raises `CorruptError` if the file is not a complete zip archive.
        """
        self._blob = blob
        self._others: dict[str, Member] = {}
        empty = _Table(
            np.empty(0, np.int32), np.empty(0, np.int64), *(np.empty(0, np.uint32),) * 3,
            np.empty(0, np.uint8),
        )  # fmt: skip
        self._parts = {prefix: [empty] for prefix in prefixes}
        try:
            self._parse()
        except BadInputError:
            raise
        except (ValueError, NotImplementedError) as error:
            reason = f"not a complete zip archive ({error})"
            raise CorruptError(f"{blob.path}: {reason}; recreate the network") from error
        self._series: dict[str, Series] = {}
        for prefix in prefixes:
            self._series[prefix] = Series(prefix, self._parts.pop(prefix))

    def __len__(self) -> int:
        return len(self._others) + sum(map(len, self._series.values()))

    def names(self) -> Iterator[str]:
        """Yield the names of all members: first those in no series, in directory order."""
        yield from self._others
        for series in self._series.values():
            yield from series.names()

    def find(self, name: str) -> Member | None:
        """Return a member; None if there is none of this name."""
        found = self._others.get(name)
        if found is not None:
            return found
        series, digits = self._series.get(name[:-DIGITS]), name[-DIGITS:]
        if series is None or not (digits.isascii() and digits.isdecimal()):
            return None
        at = series.place(int(digits))
        if at < 0:
            return None
        return Member(
            name.encode(), int(series.offset[at]), int(series.packed[at]), int(series.size[at]),
            int(series.crc[at]), int(series.method[at]),
        )  # fmt: skip

    def first_wrong(self, prefix: str, numbers: range, least: int, most: int) -> int | None:
        """Return the first number whose member is missing or not `least` .. `most` bytes long;
        None if there is none."""
        if not numbers:
            return None
        series = self._series[prefix]
        first, last = series.place(numbers[0]), series.place(numbers[-1])
        if first >= 0 and last - first == len(numbers) - 1:  # all exist
            sizes = series.size[first : last + 1]
            wrong = np.flatnonzero((sizes < least) | (sizes > most))
            return numbers[int(wrong[0])] if wrong.size else None
        for number in numbers:  # some are missing or in the dictionary
            member = self.find(numbered(prefix, number))
            if member is None or not least <= member.size <= most:
                return number
        return None

    def packed_bytes(self, prefix: str) -> int:
        """Return the compressed bytes of all members whose name starts with `prefix`."""
        found = sum(each.packed for name, each in self._others.items() if name.startswith(prefix))
        for name, series in self._series.items():
            if name.startswith(prefix):
                found += int(series.packed.sum(dtype=np.int64))
        return found

    def _parse(self) -> None:
        start, length, shift = _find_directory(self._blob)
        if start < 0:
            raise ValueError("Bad offset for central directory")
        rest, at = b"", 0
        while at < length:
            piece = self._blob.read(start + at, min(PARSED_BYTES, length - at))
            at += len(piece)
            last = at == length or not piece  # the file ends before its directory
            data = rest + piece
            rest = data[self._take(np.frombuffer(data, np.uint8), last, shift) :]
            if last:
                break
        if rest:
            raise ValueError("Truncated central directory")

    def _take(self, raw: NDArray[np.uint8], last: bool, shift: int) -> int:
        """Parse the complete records of a piece; return their end."""
        starts, used = _records(raw, last)
        if not starts.size:
            return used
        padded = np.append(raw, np.zeros(32, np.uint8))
        rows = np.lib.stride_tricks.sliding_window_view(padded, _RECORD.itemsize)[starts]
        records = rows.view(_RECORD)[:, 0]
        newer = records["needs"] > _NEWEST
        if newer.any():
            version = records["needs"][newer][0] / 10
            raise NotImplementedError(f"zip file version {version:.1f}")
        places = _places(padded, starts, records, shift)
        taken = np.zeros(starts.size, bool)
        for prefix, parts in self._parts.items():
            start = prefix.encode()
            mine = np.flatnonzero(records["name"] == len(start) + DIGITS)
            names = np.lib.stride_tricks.sliding_window_view(padded, len(start) + DIGITS)
            text = names[starts[mine] + _RECORD.itemsize] if mine.size else names[:0]
            digits = text[:, len(start) :] - np.uint8(ord("0"))
            good = (text[:, : len(start)] == np.frombuffer(start, np.uint8)).all(axis=1)
            good &= (digits <= 9).all(axis=1)
            good &= (places.packed[mine] < _MAX32) & (places.size[mine] < _MAX32)
            mine = mine[good]
            taken[mine] = True
            powers = 10 ** np.arange(DIGITS - 1, -1, -1, dtype=np.int32)
            parts.append(
                _Table(
                    digits[good].astype(np.int32) @ powers,
                    places.offset[mine],
                    places.packed[mine].astype(np.uint32),
                    places.size[mine].astype(np.uint32),
                    records["crc"][mine],
                    np.minimum(records["method"][mine], 255).astype(np.uint8),
                )
            )
        for i in np.flatnonzero(~taken):
            at = int(starts[i]) + _RECORD.itemsize
            name = raw[at : at + int(records["name"][i])].tobytes()
            text_of = name.decode("utf-8" if records["flags"][i] & _UTF8 else "cp437")
            self._others[text_of] = Member(
                name, int(places.offset[i]), int(places.packed[i]), int(places.size[i]),
                int(records["crc"][i]), min(int(records["method"][i]), 255),
            )  # fmt: skip
        return used


def _find_directory(blob: Blob) -> tuple[int, int, int]:
    """Return start and length of the directory, and bytes before the archive."""
    tail_start = max(0, blob.size - (1 << 16) - _END.size)  # the comment may take 64 KiB
    short = max(0, blob.size - _END.size)
    tail, at = blob.read(short, _END.size), 0  # the usual case: no comment
    if len(tail) == _END.size and tail[:4] == b"PK\5\6" and tail[-2:] == b"\0\0":
        end = short
    else:
        tail = blob.read(tail_start, blob.size - tail_start)
        at = tail.rfind(b"PK\5\6")
        if at < 0 or len(tail) - at < _END.size:
            raise ValueError("File is not a zip file")
        end = tail_start + at
    fields = _END.unpack_from(tail, at)
    length, offset = fields[5], fields[6]
    before = end
    place = end - _LOCATOR64.size - _END64.size
    if end >= _LOCATOR64.size:
        here = max(0, place)
        both = blob.read(here, end - here)
        locator = _LOCATOR64.unpack(both[-_LOCATOR64.size :])
        if locator[0] == b"PK\6\7":
            if locator[1] != 0 or locator[3] > 1:
                raise ValueError("zipfiles that span multiple disks are not supported")
            if place >= 0 and both[:4] == b"PK\6\6":
                length, offset = _END64.unpack_from(both)[8:]
                before = place
    shift = before - length - offset
    return offset + shift, length, max(shift, -_FAR)


def _records(raw: NDArray[np.uint8], last: bool) -> tuple[Places, int]:
    """Return the offsets of complete records in bytes that start with one, and their end.

    last : no more bytes follow
    Raises `ValueError` if a record is missing where one is expected.
    """
    room = raw.size - _RECORD.itemsize + 1
    found = np.empty(0, np.int64)
    if room > 0:
        hit = raw[:room] == _SIGNATURE[0]
        for k in (1, 2, 3):
            hit &= raw[k : k + room] == _SIGNATURE[k]
        found = np.flatnonzero(hit)
    lengths = np.full(found.size, _RECORD.itemsize, np.int64)
    for at in (28, 30, 32):  # lengths of name, extra fields and comment
        lengths += raw[found + at].astype(np.int64) + (raw[found + at + 1].astype(np.int64) << 8)
    ends = found + lengths
    if found.size and (found[0] != 0 or (ends[:-1] != found[1:]).any()):
        # a name or a comment contains the signature: follow the records
        place, chain, at = {int(one): i for i, one in enumerate(found)}, [], 0
        while at in place:
            chain.append(place[at])
            at = int(ends[chain[-1]])
        found, ends = found[chain], ends[chain]
    if ends.size and ends[-1] > raw.size:
        found, ends = found[:-1], ends[:-1]
    used = int(ends[-1]) if ends.size else 0
    rest = raw[used : used + _RECORD.itemsize]
    if rest.size == _RECORD.itemsize and rest[:4].tobytes() != _SIGNATURE:
        raise ValueError("Bad magic number for central directory")
    if last and used < raw.size:
        raise ValueError("Truncated central directory")
    return found, used


class _Places(NamedTuple):
    """Location of each record's member; impossible values are 2^62."""

    offset: Places
    packed: Places
    size: Places


def _places(
    padded: NDArray[np.uint8], starts: Places, records: NDArray[np.void], shift: int
) -> _Places:
    """Return locations, including 64-bit numbers from extra fields.

    padded : the bytes, and 32 more; shift : bytes before the archive
    Raises `ValueError` for damaged extra fields.
    """
    columns = [records[name].astype(np.uint64) for name in ("size", "packed", "offset")]
    wide = [column == _MAX32 for column in columns]
    needed = sum(each.astype(np.int64) for each in wide)
    extra = records["extra"].astype(np.int64)
    places = starts + _RECORD.itemsize + records["name"]
    heads = np.lib.stride_tricks.sliding_window_view(padded, 28)
    some = np.flatnonzero(extra)
    fields = heads[places[some]] if some.size else heads[:0]
    kind, length = fields[:, :4].copy().view("<u2").T
    # the usual case: one field with only the 64-bit numbers that are needed
    plain = (kind == 1) & (length + 4 == extra[some]) & (length == 8 * needed[some])
    words = fields[plain, 4:].copy().view("<u8")
    which, at = some[plain], np.zeros(int(plain.sum()), np.int64)
    for column, long in zip(columns, wide, strict=True):
        mine = long[which]
        column[which[mine]] = words[mine, at[mine]]
        at += mine
    for i in some[~plain]:
        raw = padded[places[i] : places[i] + extra[i]].tobytes()
        for column, value in zip(columns, _wide(raw, [int(c[i]) for c in columns]), strict=True):
            column[i] = value
    size, packed, offset = (np.minimum(column, _FAR).astype(np.int64) for column in columns)
    return _Places(offset + shift, packed, size)


def _wide(extra: bytes, values: list[int]) -> list[int]:
    """Return size, packed size and offset, replaced by the values of the extra fields."""
    while len(extra) >= 4:
        kind, length = struct.unpack_from("<HH", extra)
        if length + 4 > len(extra):
            raise ValueError(f"Corrupt extra field {kind:04x} (size={length})")
        if kind == 1:
            data = extra[4 : 4 + length]
            for i, name in enumerate(("File size", "Compress size", "Header offset")):
                if values[i] != _MAX32:
                    continue
                if len(data) < 8:
                    raise ValueError(f"Corrupt zip64 extra field. {name} not found.")
                values[i] = int.from_bytes(data[:8], "little")
                data = data[8:]
        extra = extra[4 + length :]
    return values
