"""Steps of a pass: every chunk once, and an equal share of each shard per step."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from mapper.graph.rows import StreamedRows
from mapper.partitioning.pass_steps import LEAST_CHUNKS, STEPS, steps_by_shard, steps_of
from mapper.planning.worker_plan import SHARD_ENTRIES
from tests.mapper.helpers import random_graph, rows_of


@given(st.integers(0, 700), st.integers(1, 90), st.integers(0, 5), st.integers(0, 3))
def test_steps_by_shard(chunks: int, size: int, seed: int, index: int) -> None:
    """size : chunks per shard"""
    entries = chunks * SHARD_ENTRIES // size
    steps = steps_by_shard(chunks, entries, seed, index)
    assert all(some == sorted(some) for some in steps)
    assert sorted(chunk for some in steps for chunk in some) == list(range(chunks))
    assert len(steps) == max(1, min(chunks // LEAST_CHUNKS, STEPS))
    lengths = [len(some) for some in steps]
    assert max(lengths) - min(lengths) <= 1
    size = max(1, SHARD_ENTRIES * chunks // max(1, entries))
    of_shard = np.zeros((-(-chunks // size), len(steps)), int)
    for step, some in enumerate(steps):
        np.add.at(of_shard[:, step], np.array(some, int) // size, 1)
    whole = of_shard[: chunks // size]
    assert (abs(whole - size / len(steps)) < 1).all()


def test_each_seed_and_pass_has_its_own_order() -> None:
    orders = [steps_by_shard(500, 9 * SHARD_ENTRIES, *pair) for pair in ((1, 0), (1, 1), (2, 0))]
    assert orders[0] != orders[1] != orders[2] != orders[0]
    assert steps_by_shard(500, 9 * SHARD_ENTRIES, 1, 0) == orders[0]


def test_held_rows_are_scanned_in_random_order() -> None:
    rng = np.random.default_rng(0)
    graph = random_graph(rng, 300, block_size=7)
    rows, streamed = rows_of(graph), StreamedRows(graph, graph.vertex_sizes(), 0)
    assert rows.chunks > 5
    steps = steps_of(rows, 1, 0, np.random.default_rng(3), 5)
    order = np.random.default_rng(3).permutation(rows.chunks).tolist()
    assert [chunk for some in steps for chunk in some] == order
    assert {len(some) for some in steps[:-1]} == {5}
    by_shard = steps_by_shard(streamed.chunks, streamed.entries, 1, 0)
    assert steps_of(streamed, 1, 0, rng) == by_shard
