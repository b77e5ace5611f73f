"""Second column of a network file: signed synaptic weights (docs/format.md).

A member of weights belongs to a block of connections. It holds a weight for each outgoing
connection of the block, in its order, and then one for each self-loop, which blocks do not store.
Weights are float64; integers and float32 values take fewer bytes, without loss.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from storage.errors import BadInputError, CorruptError
from storage.sorting.weights import Weights
from storage.store.codec import decode_numbers, encode_numbers
from storage.store.meta import SynapticMeta

WHOLE, SINGLE, DOUBLE = range(3)  # encoding of weights: the first byte of a member
EXACT = 2.0**53  # integers below it are exact in float64
_REAL = {SINGLE: "<f4", DOUBLE: "<f8"}


class Synapses(NamedTuple):
    """Synapses of some sources, by source, then by target; each of shape (synapses,).

    source, target : ndarray[int64]
    weight : ndarray[float64]
    """

    source: NDArray[np.int64]
    target: NDArray[np.int64]
    weight: NDArray[np.float64]


def checked_weights(weight: NDArray[np.integer] | NDArray[np.floating]) -> None:
    """Raise `BadInputError` unless all weights are finite and exact in float64."""
    if not weight.size:
        return
    ends = weight.min(), weight.max()  # NaN passes through min and max
    for end in ends:
        if not np.isfinite(end):
            raise BadInputError(f"weight {end} is not finite; give finite values")
        if np.issubdtype(weight.dtype, np.integer) and abs(int(end)) >= EXACT:
            raise BadInputError(f"weight {end} exceeds 2^53; scale the weights down")


def encode_weights(weights: Weights) -> bytes:
    """Return the member of a block; raise `BadInputError` if sums of pairs overflow float64."""
    if not np.isfinite(weights.weight).all():
        raise BadInputError(
            "the sum of weights of repeated synapses exceeds 1e308; scale them down"
        )
    loop = weights.source == weights.target
    owner, sizes = weights.source[loop] - weights.first, weights.size[loop]
    gaps = np.diff(owner, prepend=0)
    loops = encode_numbers(np.append(owner.size, np.column_stack([gaps, sizes]).ravel()))
    values = np.concatenate([weights.weight[~loop], weights.weight[loop]]) + 0.0  # no -0.0
    if np.all((np.abs(values) < EXACT) & (np.rint(values) == values)):
        whole = values.astype(np.int64)
        return bytes([WHOLE]) + loops + encode_numbers(whole << 1 ^ whole >> 63)
    with np.errstate(over="ignore"):
        single = values.astype("<f4")
    kind = SINGLE if np.array_equal(single.astype(np.float64), values) else DOUBLE
    return bytes([kind]) + loops + values.astype(_REAL[kind]).tobytes()


def describe_weights(weights: Weights, length: int) -> SynapticMeta:
    """Return statistics of a block's weights; length : bytes of its member."""
    values = weights.weight
    return SynapticMeta(
        self_loops=int(np.count_nonzero(weights.source == weights.target)),
        negative=int(np.count_nonzero(values < 0)),
        zeros=int(np.count_nonzero(values == 0)),
        least=float(values.min(initial=np.inf)) + 0.0,
        largest=float(values.max(initial=-np.inf)) + 0.0,
        largest_bytes=length,
    )


def joined(blocks: Sequence[SynapticMeta]) -> SynapticMeta:
    """Return the statistics of all blocks together."""
    weighed = [block for block in blocks if block.least <= block.largest]
    return SynapticMeta(
        self_loops=sum(block.self_loops for block in blocks),
        negative=sum(block.negative for block in blocks),
        zeros=sum(block.zeros for block in blocks),
        least=min((block.least for block in weighed), default=0.0),
        largest=max((block.largest for block in weighed), default=0.0),
        largest_bytes=max((block.largest_bytes for block in blocks), default=0),
    )


def decode_weights(
    data: bytes,
    bounds: tuple[int, int],
    source: NDArray[np.int64],
    target: NDArray[np.int32],
    where: str,
) -> Synapses:
    """Decode the synapses of a block from its member of weights and its outgoing connections.

    bounds : first vertex of the block, and the first after it
    source, target : of the outgoing connections, shape (connections,)
    Raises `CorruptError` with `where` if the bytes violate the format.
    """
    kind, at = data[0], 1
    count, at = _leading(data, at, 1, where)
    loops = int(count[0])
    if kind not in (WHOLE, *_REAL) or loops > bounds[1] - bounds[0]:
        raise CorruptError(f"{where}: starts with kind {kind} and {loops} self-loops")
    heads, at = _leading(data, at, 2 * loops, where)
    owner = bounds[0] + np.cumsum(heads[::2])
    if owner.size and (owner[-1] >= bounds[1] or heads[2::2].min(initial=1) < 1):
        raise CorruptError(f"{where}: its self-loops are outside the block")
    total = source.size + loops
    if kind == WHOLE:
        raw = decode_numbers(data[at:], total, where)
        values = (raw >> 1 ^ -(raw & 1)).astype(np.float64)
    else:
        width = 4 if kind == SINGLE else 8
        if len(data) - at != width * total:
            raise CorruptError(f"{where}: has {len(data) - at} bytes for {total} weights")
        written = np.frombuffer(data, _REAL[kind], offset=at)
        if not np.isfinite(written).all():  # before the cast, which warns about some NaNs
            raise CorruptError(f"{where}: a weight is not finite")
        values = written.astype(np.float64)
    sources = np.concatenate([source, owner])
    targets = np.concatenate([target.astype(np.int64), owner])
    if not loops:
        return Synapses(sources, targets, values)
    order = np.lexsort((targets, sources))
    return Synapses(sources[order], targets[order], values[order])


def _leading(data: bytes, at: int, count: int, where: str) -> tuple[NDArray[np.int64], int]:
    """Decode `count` varints from an offset; also return the offset after them."""
    if not count:
        return np.empty(0, np.int64), at
    last = np.flatnonzero(np.frombuffer(data[at : at + 10 * count], np.uint8) < 128)
    if last.size < count:
        raise CorruptError(f"{where}: ends inside its self-loops")
    end = at + int(last[count - 1]) + 1
    return decode_numbers(data[at:end], count, where), end
