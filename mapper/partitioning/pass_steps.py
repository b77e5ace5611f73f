"""Steps of a pass over the vertices; moves are applied between steps.

Rows in memory are visited in a random order of chunks. Other rows are visited in 24 steps with an
equal share of each shard; a shard is a run of consecutive chunks of about 2^23 entries, determined
by the graph alone. So every worker has a share of every step, and the order depends neither on
memory nor on workers.
"""

from __future__ import annotations

import numpy as np

from mapper.executors.shards import MOST_SHARDS
from mapper.graph.rows import Rows
from mapper.planning.worker_plan import SHARD_ENTRIES

STEPS = 24  # per pass; fewer simultaneous moves leave vertices waiting longer for slack
LEAST_CHUNKS = 4  # per step: more than threads, and enough for exchanges of places


def steps_of(
    rows: Rows, seed: int, index: int, rng: np.random.Generator, at_hand: int = 0
) -> list[list[int]]:
    """Return the chunks of each step of pass `index`.

    rng : draws the order of rows in memory
    at_hand : chunks per step of rows in memory; 0 for a 24th of all
    """
    if not rows.at_hand:
        return steps_by_shard(rows.chunks, rows.entries, seed, index)
    order = rng.permutation(rows.chunks)
    size = at_hand or max(LEAST_CHUNKS, -(-order.size // STEPS))
    return [order[start : start + size].tolist() for start in range(0, order.size, size)]


def steps_by_shard(chunks: int, entries: int, seed: int, index: int) -> list[list[int]]:
    """Return the chunks of each step of pass `index`, ascending; equal shares of each shard, +-1.

    The chunks of a shard, in a random order per shard, are dealt to the steps round-robin; the next
    shard continues with the following step. Few chunks give fewer steps.
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
