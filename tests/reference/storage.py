"""Reference implementation of the kernels of `storage`, and of a network: dictionaries and lists.

A record is the sorted list of the connections of one vertex, each a `Connection`. No code is shared
with `storage` except the Block dataclass.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from storage.graph import Block

Edge = tuple[int, int, float]


class Connection(NamedTuple):
    """One entry of a record; the order of the fields is the order within a record."""

    other: int
    incoming: int
    size: int
    weight: int


Records = list[list[Connection]]


class Malformed(Exception):  # noqa: N818
    """The bytes break the format."""


# Varints


def put(value: int) -> bytes:
    groups = [value & 127]
    while value := value >> 7:
        groups.append(value & 127)
    return bytes([128 | group for group in groups[:-1]] + groups[-1:])


def get(data: bytes, at: int) -> tuple[int, int]:
    """Return the value and the position after it."""
    value = 0
    for groups in range(10):
        if at + groups >= len(data):
            raise Malformed("truncated")
        byte = data[at + groups]
        value += (byte % 128) * 128**groups
        if value >= 2**63:
            raise Malformed("too large")
        if byte < 128:
            return value, at + groups + 1
    raise Malformed("too long")


# Blocks


def encode(records: Records, default_size: int, default_weight: int) -> bytes:
    out = b""
    for record in records:
        out += put(len(record))
        for i, link in enumerate(record):
            flag = link.incoming + 2 * (i > 0)
            flag += 4 * (link.size == default_size) + 8 * (link.weight == default_weight)
            out += bytes([flag]) + put(link.other - (record[i - 1].other if i else 0))
            out += b"" if link.size == default_size else put(link.size)
            out += b"" if link.weight == default_weight else put(link.weight)
    return out


def decode(
    data: bytes, first: int, count: int, vertices: int, default_size: int, default_weight: int
) -> Records:
    at = 0
    records: Records = []
    for v in range(first, first + count):
        record: list[Connection] = []
        degree, at = get(data, at)
        for _ in range(degree):
            if at == len(data):
                raise Malformed("truncated")
            flag = data[at]
            other, at = get(data, at + 1)
            size, weight = default_size, default_weight
            if flag & 2:
                if not record:
                    raise Malformed("a gap to nothing")
                other += record[-1].other
            if not flag & 4:
                size, at = get(data, at)
            if not flag & 8:
                weight, at = get(data, at)
            if flag > 15 or other == v or other >= vertices:
                raise Malformed("flag or id")
            if record and other < record[-1].other:
                raise Malformed("not sorted")
            record.append(Connection(other, flag & 1, size, weight))
        records.append(record)
    if at != len(data):
        raise Malformed("bytes left over")
    return records


def records_of(block: Block) -> Records:
    sizes = [1] * block.connections if block.sizes is None else block.sizes.tolist()
    rows = zip(
        block.ids.tolist(), block.incoming.tolist(), sizes, block.weights.tolist(), strict=True
    )
    links = [Connection(*row) for row in rows]
    bounds = block.indptr.tolist()
    return [links[bounds[v] : bounds[v + 1]] for v in range(block.vertices)]


def block_of(first: int, records: Records, *, sized: bool = True) -> Block:
    links = [link for record in records for link in record]
    return Block(
        first,
        np.cumsum([0, *map(len, records)], dtype=np.int64),
        np.array([link.other for link in links], np.int32),
        np.array([link.weight for link in links], np.int64),
        np.array([link.incoming for link in links], np.uint8),
        np.array([link.size for link in links], np.int64) if sized else None,
    )


Lists = list[list[tuple[int, int]]]  # for each vertex: (other end, weight)


def merged_directions(records: Records) -> Lists:
    lists = []
    for record in records:
        total: dict[int, int] = defaultdict(int)
        for link in record:
            total[link.other] += link.weight
        lists.append(sorted(total.items()))
    return lists


def outgoing(records: Records) -> Lists:
    return [
        [(link.other, link.weight) for link in record if not link.incoming] for record in records
    ]


def shares(records: Records) -> list[int]:
    """Return the outgoing part of each merged connection; -1 for none."""
    found = []
    for merged, targets in zip(merged_directions(records), outgoing(records), strict=True):
        found += [dict(targets).get(other, -1) for other, _ in merged]
    return found


def lists_of(indptr: Any, ids: Any, weights: Any) -> Lists:
    rows = list(zip(ids.tolist(), weights.tolist(), strict=True))
    assert int(indptr[-1]) == len(rows)
    return [rows[indptr[v] : indptr[v + 1]] for v in range(len(indptr) - 1)]


# Sorting


def sort_pass(pairs: Sequence[tuple[int, int]], shift: int, mask: int) -> list[tuple[int, int]]:
    return sorted(pairs, key=lambda pair: (pair[0] >> shift) & mask)


def merge_sorted(pairs: Iterable[tuple[int, int]], bits: int, first: int, count: int) -> Records:
    found: dict[int, dict[tuple[int, int], list[int]]] = defaultdict(lambda: defaultdict(list))
    for key, value in pairs:
        owner, rest = divmod(key, 2 ** (bits + 1))
        found[owner][divmod(rest, 2)].append(value)
    return [
        [Connection(*link, len(given), sum(given)) for link, given in sorted(found[v].items())]
        for v in range(first, first + count)
    ]


Entry = tuple[int, int, int, int]  # owner, other end, incoming, weight


def entries_of(edges: Iterable[tuple[int, int, int]], mode: int) -> list[Entry]:
    """Return the entries of edges: 0 outgoing, 1 incoming, 2 both, 3 both, undirected graph."""
    found = []
    for u, v, weight in edges:
        found.append((u, v, int(mode == 1), weight))
        if mode >= 2:
            found.append((v, u, int(mode == 2), weight))
    return found


def bucketed(entries: Sequence[Entry], shift: int) -> list[Entry]:
    return sorted(entries, key=lambda entry: entry[0] >> shift)


def packed_entry(entry: Entry, shift: int, bits: int, key_bytes: int, weight_bytes: int) -> bytes:
    owner, other, incoming, weight = entry
    key = (owner % 2**shift) * 2 ** (bits + 1) + 2 * other + incoming
    stored = weight if weight_bytes else 0
    return key.to_bytes(key_bytes, "little") + stored.to_bytes(weight_bytes, "little")


def unpacked(
    data: bytes, key_bytes: int, weight_bytes: int, constant: int, base: int, limit: int, bits: int
) -> list[tuple[int, int]]:
    """Return (key, weight) of the records whose owner, counted from `base`, is in 0 .. limit-1."""
    found = []
    width = key_bytes + weight_bytes
    for at in range(0, len(data), width):
        key = int.from_bytes(data[at : at + key_bytes], "little") + base * 2 ** (bits + 1)
        weight = int.from_bytes(data[at + key_bytes : at + width], "little")
        if 0 <= key < limit * 2 ** (bits + 1):
            found.append((key, weight if weight_bytes else constant))
    return found


def as_decimals(values: Sequence[float], power: float) -> list[int] | None:
    """Return integers k with k / power == value for all values, if they are below 2^50."""
    found = [round(value * power) if value * power < 2**60 else 2**60 for value in values]
    good = all(k < 2**50 and k / power == v for k, v in zip(found, values, strict=True))
    return found if good else None


# Networks


def in_units(weight: float, unit: float) -> int:
    return max(round(weight / unit), 1 if weight > 0 else 0)


def network(neurons: int, edges: Iterable[Edge], *, undirected: bool, unit: float = 1) -> Records:
    """Return the records of all neurons; weights are rounded one by one, then added up."""
    found: dict[tuple[int, int], list[int]] = defaultdict(list)
    for source, target, weight in edges:
        if source != target:
            pair = (source, target)
            if undirected and source > target:
                pair = (target, source)
            found[pair].append(in_units(weight, unit))
    records: Records = [[] for _ in range(neurons)]
    for (source, target), given in found.items():
        size, total = len(given), sum(given)
        records[source].append(Connection(target, 0, size, total))
        records[target].append(Connection(source, 0 if undirected else 1, size, total))
    return [sorted(record) for record in records]


def flatten(blocks: Iterable[Block]) -> Records:
    """Return the records of all blocks, which must come in order and without gaps."""
    records: Records = []
    for block in blocks:
        assert block.first == len(records)
        records += records_of(block)
    return records


def columns(edges: Sequence[Edge]) -> Iterator[np.ndarray[Any, Any]]:
    """Yield sources, targets and weights as arrays; weights are integers if all of them are."""
    whole = all(isinstance(weight, int) for *_, weight in edges)
    yield np.array([source for source, _, _ in edges], np.int64)
    yield np.array([target for _, target, _ in edges], np.int64)
    yield np.array([weight for *_, weight in edges], np.int64 if whole else np.float64)
