"""Congestion of a traffic sample: choice of the sample, accuracy, and no side effects."""

from __future__ import annotations

from dataclasses import fields

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from chipsim.chip.model import Chip
from chipsim.traffic import congestion_sample, pairs
from chipsim.traffic.arrays import Traffic, measure
from chipsim.traffic.congestion_sample import Places, one_of_each_square
from chipsim.traffic.metrics import summarise
from tests.chipsim.strategies import Case, cases
from tests.reference import mesh_routes

SIDE = 64
CHIP = Chip("wide", SIDE, SIDE)
SAMPLED = ("congestion", "congestion_pairs", "congestion_share")


class Source:
    """A neuron on each core; a block holds the neurons of some cores."""

    def __init__(self, far: int, near: int, weight: int) -> None:
        rng = np.random.default_rng(3)
        y, x = np.divmod(np.repeat(np.arange(CHIP.cores), near), SIDE)
        y, x = (np.clip(one + rng.integers(-2, 3, one.size), 0, SIDE - 1) for one in (y, x))
        own = np.repeat(np.arange(CHIP.cores), far)
        anywhere = own * CHIP.cores + rng.integers(0, CHIP.cores, own.size)
        nearby = np.repeat(np.arange(CHIP.cores), near) * CHIP.cores + y * SIDE + x
        self.keys = np.unique(np.concatenate([anywhere, nearby]))
        self.weights = np.where(np.isin(self.keys, nearby), weight, 1)
        self.block_count = 64

    def read_block(self, index: int) -> Slice:
        size = CHIP.cores // self.block_count
        return Slice(self, index * size, (index + 1) * size)


class Slice:
    def __init__(self, source: Source, first: int, last: int) -> None:
        self.first = first
        ends = np.arange(first, last + 1) * CHIP.cores
        at = np.searchsorted(source.keys, ends)
        own = slice(at[0], at[-1])
        targets = (source.keys[own] % CHIP.cores).astype(np.int32)
        self.lists = at - at[0], targets, source.weights[own]

    def outgoing(self) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.int64]]:
        return self.lists


def measured(source: Source, threads: int = 1) -> Traffic:
    core = np.arange(CHIP.cores, dtype=np.int32)
    return measure(CHIP, core, source, sizes=np.ones(CHIP.cores, np.int64), threads=threads)


@pytest.mark.heavy
@pytest.mark.sample(1)
@pytest.mark.jit
@pytest.mark.parametrize(("far", "near", "weight"), [(90, 9, 20), (6, 9, 20), (90, 0, 1)])
def test_a_sample_is_near_all_traffic(
    far: int, near: int, weight: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The mean and all other metrics are exact; threads and stripes change no bit."""
    source = Source(far, near, weight)
    whole = measured(source)
    assert whole.congestion_sample is None
    exact = summarise(CHIP, whole)
    monkeypatch.setattr(congestion_sample, "NEARBY_STEPS", 4)
    monkeypatch.setattr(congestion_sample, "ROUTERS_PER_CORE", 1200)  # of up to 4,096
    found = measured(source)
    sample = found.congestion_sample
    assert sample is not None
    assert sample.chosen.sum(axis=1).tolist() == [CHIP.cores // 4] * 4
    told = summarise(CHIP, found)
    assert told["congestion"] == "sampled"
    assert told["congestion_share"] == told["congestion_pairs"] / (far_pairs(whole))
    assert 0.2 < told["congestion_share"] < 0.7
    assert told["congestion_mean"] == pytest.approx(exact["congestion_mean"], rel=1e-12)
    assert told["congestion_max"] == pytest.approx(exact["congestion_max"], rel=0.05)
    assert told["congestion_max"] != exact["congestion_max"]
    inner = slice(4, -4)
    inside, right = found.congestion[inner, inner], whole.congestion[inner, inner]
    assert np.sqrt(np.mean((inside / right - 1) ** 2)) < 0.06
    apart = {name: value for name, value in told.items() if not name.startswith("congestion")}
    assert apart == {n: v for n, v in exact.items() if not n.startswith("congestion")}
    for field in fields(Traffic):
        value = getattr(found, field.name)
        if isinstance(value, np.ndarray) and field.name != "congestion":
            assert np.array_equal(value, getattr(whole, field.name)), field.name
    again = measured(source, threads=3)
    assert again.congestion.tobytes() == found.congestion.tobytes()
    monkeypatch.setattr(pairs, "STRIPE_PAIRS", 1000)
    again = measured(source, threads=2)
    np.testing.assert_allclose(again.congestion, found.congestion, rtol=1e-13)


def far_pairs(traffic: Traffic) -> int:
    source, target, _ = traffic.pairs.arrays()
    return int((source != target).sum())


@pytest.mark.jit
@pytest.mark.parametrize("limit", ["ROUTERS_PER_CORE", "NEARBY_STEPS"])
def test_nothing_changes_up_to_the_limit(limit: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Small boxes, and all traffic nearby."""
    source = Source(3, 9, 5)
    whole = measured(source)
    monkeypatch.setattr(congestion_sample, "ROUTERS_PER_CORE", 1)
    monkeypatch.setattr(congestion_sample, limit, SIDE * SIDE - 1)  # the chip has one more
    found = measured(source)
    assert found.congestion_sample is None
    assert found.congestion.tobytes() == whole.congestion.tobytes()
    assert summarise(CHIP, found) == summarise(CHIP, whole)


@pytest.mark.heavy
@pytest.mark.sample(0.5)
@settings(max_examples=50)
@given(cases(), st.integers(0, 3))
def test_sample_matches_reference(case: Case, near: int) -> None:
    """Boxes, pairs, far pairs and their visits of each core, and which pairs are far."""
    chip = case.chip
    table = measure(case.chip, case.cores(), case.blocks(), **case.options()).pairs
    source, target, weight = table.arrays()
    places = Places.of(chip)
    expected = np.zeros((10, chip.cores), np.int64)
    quadrants = []
    for s in np.unique(source).tolist():
        boxes = [0, 0, 0, 0]
        for t, w in zip(target[source == s].tolist(), weight[source == s].tolist(), strict=True):
            dx, dy = mesh_routes.ways(chip, s, t)
            quadrant = {(False, False): 0, (False, True): 1, (True, False): 2, (True, True): 3}
            far = abs(dx) > near or abs(dy) > near
            quadrants.append(quadrant[dy < 0, dx < 0] if far else 4)
            if s != t:
                boxes = [max(a, b) for a, b in zip(boxes, (dy, -dy, dx, -dx), strict=True)]
                expected[1, s] += 1
                if far:
                    expected[2 + quadrants[-1], s] += 1
                    expected[6 + quadrants[-1], s] += w * (abs(dx) + abs(dy) + 1)
        south, north, east, west = boxes
        expected[0, s] = (south + north + 1) * (east + west + 1)
    sums = np.zeros((10, chip.cores), np.int64)
    for index in range(table.ranges):
        for flows in table.stripes_of(index):
            congestion_sample._survey(*flows, places, near, sums)
    assert sums.tolist() == expected.tolist()
    chosen = np.random.default_rng(near).random((4, chip.cores)) < 0.5
    parts = tuple(np.zeros((2, len(one)), one.dtype) for one in (source, target, weight))
    counts = congestion_sample._divide(source, target, weight, places, near, chosen, parts)
    pairs_of = list(zip(source.tolist(), target.tolist(), weight.tolist(), strict=True))
    whose = list(zip(pairs_of, quadrants, strict=True))
    followed = (
        [pair for pair, q in whose if q == 4],
        [pair for pair, q in whose if q < 4 and chosen[q, pair[0]]],
    )
    for row, (count, expected_pairs) in enumerate(zip(counts, followed, strict=True)):
        found = [part[row, :count].tolist() for part in parts]
        assert list(zip(*found, strict=True)) == expected_pairs


@given(st.integers(1, 20), st.integers(1, 20), st.integers(1, 6))
def test_one_core_of_each_square(width: int, height: int, side: int) -> None:
    chip = Chip("c", width, height)
    chosen = one_of_each_square(chip, side)
    for grid in chosen.reshape(4, height, width):
        for y in range(0, height, side):
            for x in range(0, width, side):
                part = grid[y : y + side, x : x + side]
                assert part.sum() == 1 if part.size == side * side else part.sum() <= 1
    assert chosen.sum(axis=0).max() <= (1 if side > 1 else 4)


def test_rows_and_columns_are_sampled_equally() -> None:
    """Squares choose differently."""
    side = 4
    for grid in one_of_each_square(Chip("c", 64, 64), side).reshape(4, 64, 64):
        parts = grid.reshape(4, 16, 4, 16).transpose(0, 2, 1, 3).reshape(16, 16, 16)
        assert (parts.sum(axis=1) == 1).all() and (parts.sum(axis=2) == 1).all()
        squares = grid.reshape(16, side, 16, side).transpose(0, 2, 1, 3).reshape(256, 16)
        assert np.bincount(squares.argmax(axis=1), minlength=16).min() > 2


def test_ranges_follow_from_the_cores() -> None:
    """Stripes end at range boundaries; all pairs of small chips are one range."""
    for cores, size in ((512, 512), (4096, 512), (123_904, 1936), (2**31 - 1, 2**25)):
        sums = pairs.PairSums(cores)
        for source in (0, size - 1, size, cores - 1):
            if source < cores:
                sums.add(np.array([source * cores]), np.array([1]))
        table = sums.table()
        found = [
            sorted({s for flows in table.stripes_of(n) for s in flows[0].tolist()})
            for n in range(table.ranges)
        ]
        if size == cores:
            assert found == [[0, size - 1]]
        else:
            assert found == [[0, size - 1], [size], [cores - 1]]
