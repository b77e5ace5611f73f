"""Full check of the synaptic weights of a network by an independent implementation (`verify`)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mapper.errors import CheckFailedError
from mapper.evaluation.verify_numbers import decode_varints
from storage.jsontext import shown

_WIDTH = {1: 4, 2: 8}  # bytes per weight, by the first byte of a member


def has_weights(meta: dict[str, Any]) -> bool:
    """Return whether a network has synaptic weights."""
    return meta["version"] == 2 and meta.get("synaptic") is not None


def _values(raw: bytes, kind: int, count: int, where: str) -> NDArray[np.float64]:
    if kind == 0:
        numbers = decode_varints(raw, where)
        odd = numbers % 2 == 1
        values = np.where(odd, -(numbers // 2) - 1, numbers // 2).astype(np.float64)
    elif len(raw) % _WIDTH[kind]:
        raise CheckFailedError(f"{where}: ends inside a weight")
    else:
        values = np.frombuffer(raw, f"<f{_WIDTH[kind]}").astype(np.float64)
    if values.size != count or not np.isfinite(values).all():
        raise CheckFailedError(f"{where}: {values.size} weights for {count} synapses")
    return values


class BlockWeights(NamedTuple):
    """A member of weights.

    size : its bytes
    loops : synapses of each self-loop
    values : of the outgoing connections of the block in its order, then of the self-loops
    """

    size: int
    loops: NDArray[np.int64]
    values: NDArray[np.float64]


def read_weights(
    path: Path,
    meta: dict[str, Any],
    index: int,
    outgoing: int,
    read: Callable[[str, int, int], bytes],
) -> BlockWeights:
    """Read the weights of a block with `outgoing` outgoing connections.

    read : returns a member, given limits of its size
    Raises `CheckFailedError` for violations of docs/format.md.
    """
    name = f"weights/{index:08d}"
    where = f"{path}: {name}"
    raw = read(name, 2, 20 * (meta["connections"] + 2**31))
    data = np.frombuffer(raw, np.uint8)
    last = np.flatnonzero(data[1:] < 128) + 2  # position after each varint
    loops = int(decode_varints(raw[1 : int(last[0])], where)[0]) if last.size else -1
    first = index * meta["block_size"]
    here = min(meta["block_size"], meta["neurons"] - first)
    if data[0] > 2 or not 0 <= loops <= here or last.size <= 2 * loops:
        raise CheckFailedError(f"{where}: its self-loops are inconsistent")
    heads = decode_varints(raw[1 : int(last[2 * loops])], where)[1:]
    gaps, sizes = heads[::2], heads[1::2]
    if loops and (np.any(gaps[1:] < 1) or gaps.sum() >= here or np.any(sizes < 1)):
        raise CheckFailedError(f"{where}: its self-loops are outside the block")
    values = _values(raw[int(last[2 * loops]) :], int(data[0]), outgoing + loops, where)
    return BlockWeights(len(raw), sizes, values)


class WeightCheck:
    """Reads all members of weights, block by block, and compares their sums with meta.json."""

    def __init__(self, path: Path, meta: dict[str, Any]) -> None:
        self._path, self._meta = path, meta
        self._found = {"self_loops": 0, "negative": 0, "zeros": 0, "largest_bytes": 0}
        self._ends: list[float] = []
        self._loops_read = 0

    def add(self, index: int, outgoing: int, read: Callable[[str, int, int], bytes]) -> None:
        """Add the weights of a block, if the network has weights; see `read_weights`."""
        if not has_weights(self._meta):
            return
        size, loops, values = read_weights(self._path, self._meta, index, outgoing, read)
        self._loops_read += int(loops.sum())
        self._found["self_loops"] += loops.size
        self._found["negative"] += int(np.count_nonzero(values < 0))
        self._found["zeros"] += int(np.count_nonzero(values == 0))
        self._found["largest_bytes"] = max(self._found["largest_bytes"], size)
        self._ends += [float(values.min()), float(values.max())] if values.size else []

    def join(self, other: WeightCheck) -> None:
        """Add the weights of other blocks."""
        largest = max(one._found["largest_bytes"] for one in (self, other))
        for name, count in other._found.items():
            self._found[name] += count
        self._found["largest_bytes"] = largest
        self._ends += other._ends
        self._loops_read += other._loops_read

    def finish(self) -> None:
        """Compare the sums with meta.json."""
        meta = self._meta
        if not has_weights(meta):
            return
        found = self._found | {
            "least": min(self._ends, default=0.0),
            "largest": max(self._ends, default=0.0),
        }
        for name, value in found.items():
            if meta["synaptic"].get(name) != value:
                raise CheckFailedError(
                    f"{self._path}: synaptic {name} is "
                    f"{shown(meta['synaptic'].get(name))}, the weights give {value}"
                )
        if meta["self_loops"] != self._loops_read:
            raise CheckFailedError(
                f"{self._path}: self_loops is {meta['self_loops']}, the weights give "
                f"{self._loops_read}"
            )
