"""Blocks from runs: connections of a vertex range are gathered, sorted and merged."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from storage.graph import Block, BlockArrays
from storage.quantise import MAX_DECIMALS, Rounding, to_units
from storage.sorting.radix import sort_packed, sort_pairs
from storage.sorting.runs import EXACT_BELOW, RecordLayout, Run, RunStore, Unpacking, _gather

UNPACKED_RECORDS = 1 << 20  # records of a run unpacked at a time


@njit(cache=True, nogil=True)
def _merge_sorted(keys, values, low, bits, first, lists):
    """Turn sorted connections into lists, adding equal keys. Returns the entries kept.

    low : bits of a weight below each key; 0 if `values` holds the weights
    """
    indptr, ids, weights, incoming, sizes = lists
    mask = (np.int64(1) << bits) - 1
    weight_mask = (np.int64(1) << low) - 1
    at = 0
    previous = np.int64(-1)
    vertex = 0
    indptr[0] = 0
    for i in range(keys.size):
        key = keys[i] >> low
        weight = keys[i] & weight_mask if low else values[i]
        if key == previous:
            weights[at - 1] += weight
            sizes[at - 1] += 1
            continue
        previous = key
        owner = (key >> (bits + 1)) - first
        while vertex < owner:
            vertex += 1
            indptr[vertex] = at
        ids[at] = (key >> 1) & mask
        weights[at] = weight
        incoming[at] = key & 1
        sizes[at] = 1
        at += 1
    while vertex < indptr.size - 1:
        vertex += 1
        indptr[vertex] = at
    return at


def range_blocks(
    store: RunStore, first: int, last: int, block_size: int, unit: float, entries: int
) -> Iterator[tuple[Block, Rounding]]:
    """Yield the blocks of vertices `first` .. `last`-1; the first carries the rounding of all.

    unit : weights are converted to whole units before equal connections are added
    entries : estimated number of entries
    """
    keys, values, rounding, low = _sorted_range(store, first, last, unit, entries)
    bits = store.bits
    starts = np.append(np.arange(0, last - first, block_size), last - first)
    inner = np.searchsorted(keys, starts << (bits + 1 + low))
    for index in range(starts.size - 1):
        part = slice(inner[index], inner[index + 1])
        count = int(starts[index + 1] - starts[index])
        size = int(inner[index + 1] - inner[index])
        lists = BlockArrays.empty(count, size)
        relative = int(starts[index])
        used = _merge_sorted(keys[part], values[part], low, bits, relative, lists)
        yield lists.block(first + relative, used, sized=used < size), rounding
        rounding = Rounding()


def _sorted_range(
    store: RunStore, first: int, last: int, unit: float, entries: int
) -> tuple[NDArray[np.int64], NDArray[np.int64], Rounding, int]:
    """Return sorted keys and their values, the rounding of weights, and the number of low key
    bits that hold the weight (0: weights are in the values).
    """
    factors = [_factor(run, unit) for run in store.runs]
    whole = all(factors)
    largest = max((r.largest * f for r, f in zip(store.runs, factors, strict=True)), default=0)
    key_bits = (last - first - 1).bit_length() + store.bits + 1
    low = max(1, largest.bit_length()) if whole else 0
    if key_bits + low > 63:
        low = 0
    keys = np.empty(entries, np.int64)
    values = np.empty(0 if low else entries, np.int64)
    at, rounding = 0, Rounding()
    for run, factor in zip(store.runs, factors, strict=True):
        start = at
        how = factor or 1, low
        keys, values, at = gather_range(store, run, first, last, how, keys, values, at)
        if not whole:
            kind: Any = np.float64 if run.raw else np.int64
            given = values[start:at].view(kind)
            if run.decimals > 0:
                given = given / 10.0**run.decimals
            values[start:at], own = to_units(given, unit)
            rounding = rounding.joined(own)
    keys, values = keys[:at], values[:at]
    if not low:
        low = max(1, int(values.max(initial=0)).bit_length())
        if key_bits + low > 63:
            return *sort_pairs(keys, values), rounding, 0
        keys <<= low
        keys |= values
    sort_packed(keys, np.empty_like(keys), low, low + key_bits)
    return keys, values, rounding, low


def gather_range(
    store: RunStore,
    run: Run,
    first: int,
    last: int,
    how: tuple[int, int],
    keys: NDArray[np.int64],
    values: NDArray[np.int64],
    at: int,
) -> tuple[NDArray[np.int64], NDArray[np.int64], int]:
    """Append a run's connections of the range after the first `at` keys; grow arrays if needed.

    how : factor of the weights, and number of weight bits below the key (`Unpacking`)
    """
    factor, low = how
    shift = store.shift
    layout = RecordLayout(shift, store.bits, run.key_bytes, run.weight_bytes)
    buckets = store.buckets_of(first, last)
    bucket, behind = buckets.start - run.first, buckets.stop - run.first
    while bucket < behind:  # a piece of buckets at a time
        stop = (
            int(np.searchsorted(run.starts, run.starts[bucket] + UNPACKED_RECORDS, side="right"))
            - 1
        )
        stop = min(max(stop, bucket + 1), behind)
        starts = run.starts[bucket : stop + 1]
        data = run.read(int(starts[0]), int(starts[-1]))
        base = (run.first + bucket << shift) - first
        unpacking = Unpacking(base, last - first, run.constant, factor, low)
        done, count = 0, int(starts[-1] - starts[0])
        while done < count:
            at, done = _gather(data, done, starts, layout, unpacking, keys, values, at)
            if done < count:
                keys = np.resize(keys, at + at // 2 + 1024)
                values = values if low else np.resize(values, keys.size)
        bucket = stop
    return keys, values, at


def _factor(run: Run, unit: float) -> int:
    """Return the factor from the run's weights to whole units; 0 if there is no exact one."""
    if run.raw:
        return 0
    exponent = (
        0
        if unit == 1.0
        else next((d for d in range(1, MAX_DECIMALS + 1) if unit == float(f"1e-{d}")), -1)
    )
    if exponent < run.decimals:
        return 0
    factor = int(10 ** (exponent - run.decimals))
    exact = unit == 1.0 and run.decimals == 0
    return factor if exact or run.largest * factor < EXACT_BELOW else 0
