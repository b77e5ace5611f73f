"""Full check of a network or a mapping by an independent implementation.

Nothing here uses the store's reader, its kernels or the metrics of `chipsim`: members are read by
Python's `zipfile` and `zlib`, numbers by a numpy decoder, sums from one entry per synapse. It is
slower and deliberately shares no code with the checked modules, except for checks that are not part
of the format (regular files, sound JSON).
"""

from __future__ import annotations

import math
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from mapper.errors import CheckFailedError
from mapper.evaluation.verify_members import ZipMembers
from mapper.evaluation.verify_numbers import decode_varints
from mapper.evaluation.verify_weights import WeightCheck, has_weights
from mapper.executors.worker_interface import Ranges, all_at_once
from storage.jsontext import parse_json, shown

LARGEST_ID = 2**31 - 2  # docs/format.md: a network has at most 2^31 - 1 vertices


@dataclass(frozen=True, slots=True)
class Connections:
    """Entries of the lists of some vertices: owner, neighbour, 1 if incoming, size, weight."""

    owner: NDArray[np.int64]
    other: NDArray[np.int64]
    incoming: NDArray[np.int64]
    size: NDArray[np.int64]
    weight: NDArray[np.int64]


@njit(cache=True, nogil=True)
def _split(numbers, first, vertices, default_size, default_weight, table):
    """Split the numbers of a block into rows of (owner, other, incoming, size, weight).

    Returns the number of rows, or -1 if the records are invalid.
    """
    at = 0
    row = 0
    for v in range(first, first + vertices):
        if at >= numbers.size:
            return -1
        count = numbers[at]
        at += 1
        previous = -1
        for _ in range(count):
            if at + 1 >= numbers.size:
                return -1
            flag = numbers[at]
            other = numbers[at + 1]
            at += 2
            if flag > 15 or other > LARGEST_ID or (flag & 2 and previous < 0):
                return -1
            if flag & 2:
                other += previous  # at most 2^32 and checked next: no overflow
                if other > LARGEST_ID:
                    return -1
            previous = other
            size = default_size
            weight = default_weight
            if not flag & 4:
                if at >= numbers.size:
                    return -1
                size = numbers[at]
                at += 1
            if not flag & 8:
                if at >= numbers.size:
                    return -1
                weight = numbers[at]
                at += 1
            table[row, 0] = v
            table[row, 1] = other
            table[row, 2] = flag & 1
            table[row, 3] = size
            table[row, 4] = weight
            row += 1
    if at != numbers.size:
        return -1
    return row


_COUNTS = (
    "neurons",
    "synapses",
    "synapses_read",
    "self_loops",
    "repeated",
    "connections",
    "block_size",
    "attribute_block_size",
    "default_size",
    "default_weight",
    "total_size",
    "total_weight",
    "largest_block_bytes",
)


def _check_meta(meta: dict[str, Any]) -> None:
    """Raise `TypeError` or `KeyError` for violations of docs/format.md apart from the records."""
    for name, known in (("format", ("mapper-network",)), ("version", (1, 2))):
        if type(meta[name]) is not type(known[0]) or meta[name] not in known:
            raise TypeError(f"{name} is {shown(meta[name])}, not {known[0]!r}")
    for name in _COUNTS:
        least = 1 if name in ("neurons", "block_size", "attribute_block_size") else 0
        if type(meta[name]) is not int or not least <= meta[name] < 2**63:
            raise TypeError(f"{name} is {shown(meta[name])}")
    if meta["neurons"] > LARGEST_ID + 1:
        raise TypeError(f"{meta['neurons']} neurons are too many")
    if meta["connections"] > 2 * meta["neurons"] * (meta["neurons"] - 1):
        raise TypeError(f"{meta['connections']} connections are too many")
    for name in ("undirected", "weights_are_rates"):
        if type(meta[name]) is not bool:
            raise TypeError(f"{name} is {shown(meta[name])}")
    if not _is_unit(meta["weight_unit"]) or not math.isfinite(
        meta["total_weight"] * float(meta["weight_unit"]) * 1e4  # including the hops of all spikes
    ):
        raise TypeError(f"weight_unit is {shown(meta['weight_unit'])}")
    if type(meta["provenance"]) is not dict or type(meta["attributes"]) is not dict:
        raise TypeError("provenance or attributes is not an object")
    for name, about in meta["attributes"].items():
        labels = about["labels"]
        fine = type(about["offset"]) is int and -(2**63) <= about["offset"] <= 0
        fine = fine and _is_unit(about["unit"]) and "/" not in name
        if labels is not None:
            fine = fine and type(labels) is list and {str}.issuperset(map(type, labels))
        real = meta["version"] == 2 and about.get("real", False)
        if type(real) is not bool or (real and name in ("size", "rate", "id")):
            raise TypeError(f"attribute {shown(name)} is {shown(about)}")
        if real:
            fine = fine and labels is None
        if labels is not None or name == "size" or real:
            fine = fine and about["offset"] == 0 and about["unit"] == 1
        if not fine or (name == "rate" and about["offset"] != 0):
            raise TypeError(f"attribute {shown(name)} is {shown(about)}")


def _is_unit(value: Any) -> bool:
    return type(value) in (int, float) and 0 < value < math.inf


class SlowReader:
    """Reader of network files, written from docs/format.md.

    longest : bytes of the longest block read so far
    """

    longest = 0

    def __init__(self, path: Path) -> None:
        self.path = path
        self._members = ZipMembers(path)
        try:
            self.meta: dict[str, Any] = self._read_meta()
            self.neurons: int = self.meta["neurons"]
        except BaseException:
            self.close()
            raise

    def _read_meta(self) -> dict[str, Any]:
        raw = self._members.described
        if raw is None:
            if "meta.json" not in self.members():
                raise CheckFailedError(f"{self.path}: not a network file: it has no meta.json")
            # deflate compresses names of neurons at most 20 times
            most = (4 << 20) + 64 * self._members.about("meta.json").compress_size
            raw = self.read("meta.json", 0, most)
        try:
            meta = parse_json(raw)
        except ValueError as error:
            raise CheckFailedError(f"{self.path}: meta.json is not valid JSON ({error})") from error
        try:
            _check_meta(meta)
        except (KeyError, TypeError, AttributeError) as error:
            raise CheckFailedError(f"{self.path}: meta.json is damaged: {error}") from error
        return dict(meta)

    def read(self, member: str, least: int, most: int) -> bytes:
        """Read a member of `least` to `most` bytes; members of other sizes are not inflated."""
        try:
            about = self._members.about(member)
            if about.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
                raise CheckFailedError(f"{self.path}: {member} is neither deflated nor stored")
            if not least <= about.file_size <= most:
                raise CheckFailedError(
                    f"{self.path}: {member} has {about.file_size} bytes, it can have {least} to "
                    f"{most}"
                )
            return self._members.read(member)
        except (KeyError, zipfile.BadZipFile, zlib.error, OSError, EOFError, RuntimeError) as error:
            # RuntimeError: a damaged directory requests a password or an unknown method
            reason = " ".join(str(error).split())[:120]
            raise CheckFailedError(f"{self.path}: {member}: {reason}") from error

    def members(self) -> list[str]:
        return self._members.names()

    def _real(self, name: str, step: int) -> NDArray[np.float64]:
        raw = b""
        for index, first in enumerate(range(0, self.neurons, step)):
            size = 8 * min(step, self.neurons - first)
            raw += self.read(f"attributes/{name}/{index:08d}", size, size)
        values = np.frombuffer(raw, "<f8")
        if not np.isfinite(values).all():
            raise CheckFailedError(f"{self.path}: attribute {name!r} has non-finite numbers")
        return values

    def attribute(self, name: str) -> NDArray[Any]:
        """Return the stored values of an attribute plus its offset."""
        step = self.meta["attribute_block_size"]
        if self.meta["version"] == 2 and self.meta["attributes"][name].get("real", False):
            return self._real(name, step)
        parts = [np.empty(0, np.int64)]
        for index, first in enumerate(range(0, self.neurons, step)):
            member = f"attributes/{name}/{index:08d}"
            here = min(step, self.neurons - first)
            raw = self.read(member, here, 10 * here)
            parts.append(decode_varints(raw, f"{self.path}: {member}"))
        values = np.concatenate(parts)
        about = self.meta["attributes"][name]
        if values.size != self.neurons:
            raise CheckFailedError(f"{self.path}: attribute {name!r} has {values.size} values")
        if about["labels"] is not None and values.max() >= len(about["labels"]):
            raise CheckFailedError(f"{self.path}: attribute {name!r} exceeds its labels")
        if not math.isfinite(float(values.max()) * about["unit"]):
            raise CheckFailedError(f"{self.path}: attribute {name!r} exceeds 1e308")
        return values + about["offset"]

    def sizes(self) -> NDArray[np.int64]:
        if "size" in self.meta["attributes"]:
            return self.attribute("size")
        return np.ones(self.neurons, np.int64)

    @property
    def blocks(self) -> int:
        return -(-self.neurons // int(self.meta["block_size"]))

    def connections(self, blocks: range | None = None) -> Iterator[Connections]:
        """Yield the connections block by block; blocks : some of them, default all."""
        step = self.meta["block_size"]
        for index in range(self.blocks) if blocks is None else blocks:
            first = index * step
            member = f"blocks/{index:08d}"
            here = min(step, self.neurons - first)
            # at most a count per vertex, and a flag and three numbers per connection
            most = 10 * here + 31 * self.meta["connections"]
            raw = self.read(member, here, min(most, self.meta["largest_block_bytes"]))
            self.longest = max(self.longest, len(raw))
            numbers = decode_varints(raw, f"{self.path}: {member}")
            table = np.empty((numbers.size // 2, 5), np.int64)
            rows = _split(
                numbers,
                first,
                here,
                self.meta["default_size"],
                self.meta["default_weight"],
                table,
            )
            if rows < 0:
                raise CheckFailedError(f"{self.path}: {member}: its records are inconsistent")
            yield Connections(*table[:rows].T)

    def close(self) -> None:
        self._members.close()


def _mixed(*columns: NDArray[np.int64]) -> int:
    """Return an order-independent hash of the set of rows (sums of splitmix64)."""
    state = np.zeros(columns[0].size, np.uint64)
    for column in columns:
        state += column.astype(np.uint64) + np.uint64(0x9E3779B97F4A7C15)
        state = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        state = (state ^ (state >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        state ^= state >> np.uint64(31)
    return int(state.sum(dtype=np.uint64))


class RecordSums(NamedTuple):
    """Sums over the records of some blocks.

    forward, backward : hashes of the synapses as listed by their sources and their targets
    longest : bytes of the longest block
    """

    entries: int
    weight: int
    forward: int
    backward: int
    longest: int
    weights: WeightCheck


def sum_blocks(blocks: range, path: Path) -> RecordSums:
    """Read some blocks; raise `CheckFailedError` for an error in one of them."""
    reader = SlowReader(path)
    try:
        meta, n = reader.meta, reader.neurons
        entries = weight = forward = backward = 0
        weights = WeightCheck(path, meta)
        for index, part in zip(blocks, reader.connections(blocks), strict=True):
            weights.add(index, int(np.count_nonzero(part.incoming == 0)), reader.read)
            if part.other.size and (part.other.min() < 0 or part.other.max() >= n):
                raise CheckFailedError(f"{path}: a connection leads beyond vertex {n - 1}")
            step = np.diff(part.other)
            if np.any((step < 0) & (np.diff(part.owner) == 0)):
                raise CheckFailedError(f"{path}: ids of a vertex are not in order")
            twice = (step == 0) & (np.diff(part.owner) == 0) & (np.diff(part.incoming) == 0)
            if np.any(twice):
                raise CheckFailedError(f"{path}: a synapse is listed twice")
            if np.any(part.other == part.owner):
                raise CheckFailedError(f"{path}: a vertex is connected to itself")
            if meta["undirected"]:
                ahead = part.owner < part.other
                if part.incoming.any():
                    raise CheckFailedError(f"{path}: an undirected network has directions")
            else:
                ahead = part.incoming == 0
            pair = (part.owner, part.other, part.size, part.weight)
            forward += _mixed(*(column[ahead] for column in pair))
            swapped = (part.other, part.owner, part.size, part.weight)
            backward += _mixed(*(column[~ahead] for column in swapped))
            entries += part.owner.size
            weight += int(part.weight.sum())
        return RecordSums(entries, weight, forward, backward, reader.longest, weights)
    finally:
        reader.close()


def verify_network(path: Path, ranges: Ranges = all_at_once) -> dict[str, Any]:
    """Check all guarantees of docs/format.md; return counts. Raises `CheckFailedError`.

    ranges : reads the blocks, see `mapper.executors.worker_interface`
    """
    reader = SlowReader(path)
    try:
        meta, n = reader.meta, reader.neurons
        entries = weight = forward = backward = longest = 0
        weights = WeightCheck(path, meta)
        for part in ranges(sum_blocks, reader.blocks, path):
            entries, weight = entries + part.entries, weight + part.weight
            forward, backward = forward + part.forward, backward + part.backward
            longest = max(longest, part.longest)
            weights.join(part.weights)
        if (forward - backward) % 2**64:
            raise CheckFailedError(f"{path}: a synapse differs between its two ends")
        found = {
            "connections": entries,
            "synapses": entries // 2,
            "total_weight": weight // 2,
            "total_size": int(reader.sizes().sum()),
            "largest_block_bytes": longest,
        }
        for name, value in found.items():
            if meta[name] != value:
                raise CheckFailedError(f"{path}: {name} is {meta[name]}, the records give {value}")
        weights.finish()
        for name in meta["attributes"]:
            reader.attribute(name)
        read = meta["synapses"] + meta["self_loops"] + meta["repeated"]
        if meta["synapses_read"] != read:
            raise CheckFailedError(f"{path}: synapses_read is {meta['synapses_read']}, not {read}")
        unknown = sorted(set(reader.members()) - _expected(meta))
        if unknown:
            raise CheckFailedError(f"{path}: unexpected member {unknown[0]}")
        return {"neurons": n, **found, "members": len(reader.members())}
    finally:
        reader.close()


def _expected(meta: dict[str, Any]) -> set[str]:
    """Return the names of all members that the network must have."""
    blocks = -(-meta["neurons"] // meta["block_size"])
    chunks = -(-meta["neurons"] // meta["attribute_block_size"])
    weights = blocks if has_weights(meta) else 0
    return {
        "meta.json",
        *(f"weights/{index:08d}" for index in range(weights)),
        *(f"blocks/{index:08d}" for index in range(blocks)),
        *(f"attributes/{name}/{i:08d}" for name in meta["attributes"] for i in range(chunks)),
    }
