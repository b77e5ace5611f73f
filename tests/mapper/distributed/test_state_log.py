"""State log: followers reconstruct the state however late they read; sharding of chunks."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mapper.distributed.state_log import Delta, StateLog, updated
from mapper.executors.shard import State
from mapper.executors.shards import MOST_SHARDS, Shards
from mapper.planning.worker_plan import SHARD_ENTRIES

few = settings(max_examples=60)


@few
@given(st.integers(0, 10_000), st.integers(1, 70_000), st.integers(1, 31))
def test_a_delta_comes_back(seed: int, n: int, bits: int) -> None:
    """Gaps and labels of any size, including the largest."""
    rng = np.random.default_rng(seed)
    part = rng.integers(0, 1 << bits, n).astype(np.int32)
    vertices = np.sort(rng.permutation(n)[: int(rng.integers(0, min(n, 50) + 1))]).astype(np.int32)
    places, labels = Delta.of(vertices, part).unpacked()
    assert places.tolist() == vertices.tolist()
    assert labels.tolist() == part[vertices].tolist()
    assert places.dtype == labels.dtype == np.dtype(np.int32)


def test_a_delta_has_small_gaps() -> None:
    """One byte per gap and one byte per label, if both are small."""
    part = np.arange(100_000, dtype=np.int32) % 200
    vertices = np.arange(5, 100_000, 7, dtype=np.int32)
    delta = Delta.of(vertices, part)
    assert delta.unpacked()[0].tolist() == vertices.tolist()
    assert delta.unpacked()[1].tolist() == part[vertices].tolist()
    assert len(delta.gaps) + len(delta.labels) < 2.01 * vertices.size


@few
@given(st.integers(0, 10_000), st.integers(1, 60), st.integers(1, 9), st.integers(1, 12))
def test_followers_know_the_state(seed: int, n: int, labels: int, steps: int) -> None:
    """Three followers that read every update, some updates, or only the beginning."""
    rng = np.random.default_rng(seed)
    state_log, followers = StateLog(), [(0, State.none()) for _ in range(3)]
    sizes = rng.integers(0, 4, n) << int(rng.integers(0, 40))
    state = State.none()
    for step in range(steps):
        if step == 0 or rng.random() < 0.2:
            part = rng.integers(0, labels, n).astype(np.int32)
            state = State(part, _loads(part, sizes, labels), sizes, (step,))
            state_log.begin(state)
        for _ in range(
            int(rng.integers(0, 3))
        ):  # several settled changes before a follower reads them
            vertices = rng.permutation(n)[: int(rng.integers(0, n + 1))].astype(np.int32)
            state.part[vertices] = rng.integers(0, labels, vertices.size)
            state.loads[:] = _loads(state.part, sizes, labels)
            state_log.settled(vertices)
        for index, share in enumerate((1.0, 0.4, 0.0)):
            if step == steps - 1 or rng.random() < share:
                version, known = followers[index]
                update = state_log.since(version)
                if update is not None:
                    assert update.version > version
                    known = updated(known, update)
                followers[index] = state_log.version, known
                assert known.part.tolist() == state.part.tolist()
                assert known.loads.tolist() == state.loads.tolist()
                assert known.sizes.tolist() == sizes.tolist()
                assert known.constants == state.constants
                assert known.part is not state.part


def _loads(part: np.ndarray, sizes: np.ndarray, labels: int) -> np.ndarray:
    loads = np.zeros(labels, np.int64)
    np.add.at(loads, part, sizes)
    return loads


def test_unchanged_state_is_not_sent() -> None:
    state_log = StateLog()
    part = np.arange(10, dtype=np.int32)
    state_log.begin(State(part))
    state_log.settled(slice(0, 10))
    update = state_log.since(1)
    assert update is None
    part[[3, 8]] = 0
    state_log.settled(slice(2, 9))
    update = state_log.since(1)
    assert update is not None
    assert update.whole is None
    (delta,) = update.deltas
    assert delta.unpacked()[0].tolist() == [3, 8]


@few
@given(st.integers(0, 3000), st.integers(0, 1 << 34), st.integers(1, 9))
def test_shards_are_runs_of_chunks(chunks: int, entries: int, owners: int) -> None:
    shards = Shards(chunks, entries, owners)
    of = [shards.of(chunk) for chunk in range(chunks)]
    assert of == sorted(of)
    assert sorted(set(of)) == list(range(shards.count))
    assert {shards.owner(chunk) for chunk in range(chunks)} <= set(range(owners))
    if chunks and entries / chunks <= SHARD_ENTRIES:
        largest = max(np.bincount(of)) * entries / chunks
        assert largest <= SHARD_ENTRIES
    places = [place for window in shards.windows(range(chunks), owners) for place in window]
    assert places == list(range(chunks))


def test_the_number_of_shards_is_limited() -> None:
    assert Shards(10 * MOST_SHARDS, 10 * MOST_SHARDS * SHARD_ENTRIES, 1).count == MOST_SHARDS


@pytest.mark.parametrize("others", [[0], [0, 2], [3, 2, 0]])
def test_shards_of_a_lost_worker_go_to_others(others: list[int]) -> None:
    shards = Shards(40, 40 * SHARD_ENTRIES, 4)
    before = [shards.owner(chunk) for chunk in range(40)]
    assert np.bincount(before).tolist() == [10, 10, 10, 10]
    shards.give_away(1, others)
    after = [shards.owner(chunk) for chunk in range(40)]
    assert all(now == was for now, was in zip(after, before, strict=True) if was != 1)
    assert {now for now, was in zip(after, before, strict=True) if was == 1} == set(others)
    shares = shards.by_owner(list(range(40)), [0, 1, 2, 39])
    assert sorted(place for places in shares.values() for place in places) == [0, 1, 2, 39]
