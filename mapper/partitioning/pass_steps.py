"""The steps of a pass over the vertices, between which moves take effect.

What has all rows in memory is looked at in a random order of its chunks. Rows that are read from
elsewhere are looked at in 24 steps that take as much of each shard: a shard is a run of consecutive
chunks of about 2^23 entries, which follows from the graph alone. So whoever has some of the shards
has its share of every step, and the order depends neither on memory nor on workers.
"""

from __future__ import annotations

import numpy as np

from mapper.distributed.shards import MOST_SHARDS
from mapper.graph.rows import Rows
from mapper.runtime.worker_plan import SHARD_ENTRIES

STEPS = 24  # of a pass; fewer moves at once leave longer waits for slack
LEAST_CHUNKS = 4  # of a step: more than threads, and some that others may change places with


def steps_of(
    rows: Rows, seed: int, index: int, rng: np.random.Generator, at_hand: int = 0
) -> list[list[int]]:
    """The chunks of each step of pass `index`.

    rng : draws the order of rows that are at hand
    at_hand : chunks of a step of these; 0 for a 24th of all
    """
    if not rows.at_hand:
        return steps_by_shard(rows.chunks, rows.entries, seed, index)
    order = rng.permutation(rows.chunks)
    size = at_hand or max(LEAST_CHUNKS, -(-order.size // STEPS))
    return [order[start : start + size].tolist() for start in range(0, order.size, size)]


def steps_by_shard(chunks: int, entries: int, seed: int, index: int) -> list[list[int]]:
    """The chunks of each step of pass `index`, ascending; as many of each shard, but for one.

    The chunks of a shard, in an order drawn for it, are dealt out to the steps in turn; the next
    shard goes on with the step after. Few chunks make fewer steps.
    """
    steps = max(1, min(STEPS, chunks // LEAST_CHUNKS))
    size = max(1, SHARD_ENTRIES * chunks // max(1, entries), -(-chunks // MOST_SHARDS))
    step = np.empty(chunks, np.int64)
    for shard, first in enumerate(range(0, chunks, size)):
        count = min(size, chunks - first)
        drawn = np.random.default_rng([seed, index, shard]).permutation(count)
        step[first + drawn] = np.arange(first, first + count) % steps
    order = np.argsort(step, kind="stable")
    starts = np.cumsum(np.bincount(step, minlength=steps))[:-1]
    return [some.tolist() for some in np.split(order, starts)]
