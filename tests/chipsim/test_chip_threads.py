"""The same metrics for any number of threads, block order and stripe size."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from time import sleep
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chipsim.chip.model import Chip
from chipsim.errors import ChipError
from chipsim.parallel import AHEAD, map_ordered
from chipsim.traffic import pairs
from chipsim.traffic.arrays import Traffic, measure
from tests.chipsim.measured import score
from tests.chipsim.strategies import Case, cases
from tests.reference import link_traffic

several = settings(max_examples=150)


def assert_same(found: Traffic, expected: Traffic) -> None:
    """Require bit-identical fields."""
    assert found.totals == expected.totals
    assert found.connectivity == expected.connectivity
    for name in ("unicast_links", "multicast_links", "congestion"):
        assert getattr(found, name).tobytes() == getattr(expected, name).tobytes(), name
    for one, other in zip(found.pairs.arrays(), expected.pairs.arrays(), strict=True):
        assert one.tolist() == other.tolist()
    for name in ("count", "neurons", "synapses", "axons_in", "axons_out"):
        use = getattr(found.usage, name)
        assert use.tolist() == getattr(expected.usage, name).tolist(), name


@pytest.mark.heavy
@pytest.mark.sample(0.25)
@several
@given(cases(), st.integers(1, 3), st.booleans(), st.randoms(use_true_random=False), st.booleans())
def test_neither_threads_nor_order_change_a_bit(
    case: Case, threads: int, source: bool, random: Random, stripes: bool
) -> None:
    with pytest.MonkeyPatch.context() as patch, TemporaryDirectory() as folder:
        if stripes:  # a stripe for every source core, every run in a file
            patch.setattr(pairs, "STRIPE_PAIRS", 1)
            patch.setattr(pairs, "SPILL_BYTES", 0)
        expected = measure(case.chip, case.cores(), case.blocks(), **case.options())
        blocks = case.blocks()
        random.shuffle(blocks)
        found = measure(
            case.chip,
            case.cores(),
            link_traffic.Source(blocks) if source else iter(blocks),
            **case.options(),
            threads=threads,
            scratch=Path(folder),
        )
        assert_same(found, expected)
    assert {block.calls for block in blocks} == {1}


@pytest.mark.heavy
@pytest.mark.sample(0.25)
@several
@given(cases())
def test_stripes_change_rounding_alone(case: Case) -> None:
    expected = score(case.chip, case.cores(), case.blocks(), **case.options())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pairs, "STRIPE_PAIRS", 1)
        found = score(case.chip, case.cores(), case.blocks(), **case.options(), threads=2)
    for name, value in expected.items():
        if name.startswith("congestion"):
            assert found[name] == pytest.approx(value, rel=1e-14)
        else:
            assert found[name] == value


class Failing:
    """A source whose blocks fail with distinct messages; the first ones take longest."""

    block_count = 5

    def read_block(self, index: int) -> link_traffic.Block:
        if index == 0:
            return link_traffic.Block(0, 1, [])
        sleep(0.02 / index)
        raise ChipError(f"block {index}")


@pytest.mark.parametrize("threads", [1, 2, 4])
def test_the_first_failure_is_raised(threads: int) -> None:
    five = np.zeros(5, dtype=np.int64)
    with pytest.raises(ChipError, match="block 1"):
        score(Chip("line", 4, 1), five, Failing(), sizes=five, threads=threads)


@pytest.mark.parametrize("threads", [1, 3])
def test_results_in_order_and_few_in_flight(threads: int) -> None:
    drawn = []

    def items() -> Iterator[int]:
        for i in range(50):
            drawn.append(i)
            yield i

    for at, result in enumerate(map_ordered(lambda i: i * i, items(), threads)):
        assert result == at * at
        assert len(drawn) <= at + 1 + threads * AHEAD
    assert len(drawn) == 50


@pytest.mark.heavy
@pytest.mark.sample(1)
@pytest.mark.jit
@pytest.mark.parametrize("undirected", [False, True])
def test_a_larger_network(undirected: bool) -> None:
    """40x30 cores, all in use, so that runs are merged repeatedly; one to many stripes."""
    rng = np.random.default_rng(5)
    n, fanout = 6000, 20
    pair = rng.integers(0, n, (2, n * fanout))
    if undirected:
        pair = np.concatenate((pair, pair[::-1]), axis=1)
    keys = np.unique(pair[0] * n + pair[1])
    source, target = np.divmod(keys, n)
    source, target = source[source != target], target[source != target]
    weight = np.minimum(source, target) * 7 % 9 if undirected else rng.integers(0, 9, len(source))
    core = rng.permutation(np.arange(n) % 1200).astype(np.int32)
    chip = Chip("wide", 40, 30)

    class Slice:
        def __init__(self, first: int, last: int) -> None:
            self.first = first
            at = np.searchsorted(source, np.arange(first, last + 1))
            own = slice(at[0], at[-1])
            self.parts = at - at[0], target[own].astype(np.int32), weight[own]

        def outgoing(self) -> tuple[Any, Any, Any]:
            return self.parts

    blocks = [Slice(a, min(n, a + 70)) for a in range(0, n, 70)]
    sizes = np.ones(n, dtype=np.int64)
    whole = measure(chip, core, blocks, sizes=sizes, undirected=undirected)
    counted = (source < target) if undirected else source >= 0
    source, target, weight = source[counted], target[counted], weight[counted]
    x, y = core % 40, core // 40
    d = np.abs(x[source] - x[target]) + np.abs(y[source] - y[target])
    assert whole.unicast_links.sum() == whole.totals.hops == (weight * d).sum()
    assert whole.congestion.sum() == pytest.approx((weight * (d + 1))[d > 0].sum())
    matrix = np.zeros((1200, 1200), dtype=np.int64)
    np.add.at(matrix, (core[source], core[target]), weight)
    rows, columns = np.nonzero(matrix)
    summed = [part.tolist() for part in whole.pairs.arrays()]
    assert summed == [rows.tolist(), columns.tolist(), matrix[rows, columns].tolist()]
    for threads in (2, 3):
        shuffled = [blocks[i] for i in rng.permutation(len(blocks))]
        options = {"sizes": sizes, "undirected": undirected, "threads": threads}
        found = measure(chip, core, link_traffic.Source(shuffled), **options)
        assert_same(found, measure(chip, core, blocks, sizes=sizes, undirected=undirected))
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(pairs, "STRIPE_PAIRS", 1000)
            found = measure(chip, core, iter(shuffled), **options)
            assert found.pairs.stripes > 50
            assert_same(found, measure(chip, core, blocks, sizes=sizes, undirected=undirected))
        np.testing.assert_allclose(found.congestion, whole.congestion, rtol=1e-13)
