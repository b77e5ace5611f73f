"""Exchanges between parts above a limit: every kernel against its reference implementation."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from mapper.concurrency.threads import ThreadTeam
from mapper.limits import exchange, relief
from mapper.limits.capacity import _add_targets
from mapper.limits.enforce import Items, _collect
from mapper.limits.exchange import Net, _bump, _fill_table, _over, _slot
from mapper.limits.relief import LinkedLists, Targets, _link, _relieve, _relink
from mapper.limits.use import BitCosts, Use, count_fans, count_use, weight_of_excess
from storage.store.memory import MemoryGraph
from tests.mapper.limits.test_limits import directed, random_items
from tests.reference.exchange import Case, Draws, Search

SEEDS = range(20)


def lists_of(
    head: NDArray[np.int64], following: NDArray[np.int64], previous: NDArray[np.int64]
) -> list[list[int]]:
    """Convert linked lists to plain lists; backward links must match forward links."""
    found = []
    for first in head.tolist():
        members, before, v = [], -1, first
        while v >= 0:
            assert previous[v] == before
            members.append(v)
            before, v = v, int(following[v])
        found.append(members)
    return found


@pytest.mark.parametrize("seed", SEEDS)
def test_table_is_a_dictionary(seed: int) -> None:
    rng = np.random.default_rng(seed)
    keys = np.full(64, -1, np.int64)
    known: dict[int, int] = {}
    for key in rng.integers(0, 80, 200).tolist():
        at = _slot(keys, key)
        assert known.get(key, -1) == (at if keys[at] == key else -1)
        if len(known) < 50 and key not in known:
            assert keys[at] == -1
            keys[at] = key
            known[key] = at


@pytest.mark.parametrize("seed", SEEDS)
def test_excess_of_a_part_follows_its_use(seed: int) -> None:
    rng = np.random.default_rng(seed)
    use, limits = rng.integers(0, 9, (5, 3)), rng.integers(0, 9, 5)
    weight = rng.integers(1, 5, 5)
    for _ in range(20):
        r, k, change = int(rng.integers(5)), int(rng.integers(3)), int(rng.integers(-3, 4))
        plain = [sum(weight[i] * max(0, use[i, k] - limits[i]) for i in range(5))]
        value = int(use[r, k])
        plain.append(plain[0] + _bump(use, limits, weight, r, k, change))
        assert use[r, k] == value + change
        assert _over(use, limits, weight, k) == plain[1]


@pytest.mark.parametrize("seed", SEEDS)
def test_lists_of_items(seed: int) -> None:
    rng = np.random.default_rng(seed)
    count, parts = int(rng.integers(1, 20)), int(rng.integers(2, 5))
    part = rng.integers(0, parts, count)
    items = np.flatnonzero(rng.random(count) < 0.8)
    lists = LinkedLists(np.full(parts, -1, np.int64), *np.full((2, count), -1, np.int64))
    _link(items, part, lists)
    expected = [[v for v in items.tolist() if part[v] == k] for k in range(parts)]
    assert lists_of(*lists) == expected
    for v in rng.choice(items, 30).tolist() if items.size else []:
        own, to = int(part[v]), int(rng.integers(parts))
        _relink(v, own, to, lists)
        part[v] = to
        expected[own].remove(v)
        expected[to].insert(0, v)
        assert lists_of(*lists) == expected


@pytest.mark.parametrize("undirected", [False, True])
@pytest.mark.parametrize("seed", SEEDS)
def test_sources_and_targets_of_a_block(seed: int, undirected: bool) -> None:
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 40))
    graph, edges = directed(rng, n, int(rng.integers(0, 150)), undirected)
    items = random_items(rng, n, bool(seed % 2))
    wanted = rng.random(items.count) < 0.6
    fans = count_fans(graph)
    fan_in, sizes = items.total(fans.into), graph.vertex_sizes()
    start = np.where(wanted, np.cumsum(np.where(wanted, fan_in, 0)) - fan_in, -1)
    cursor, rows = start.copy(), np.empty(int(fan_in[wanted].sum()), np.int32)
    size_sum, synapse_sum = np.zeros((2, n), np.int64)
    for block in graph.blocks():
        _collect(
            block.first, block.indptr, block.ids, block.incoming, undirected, items.item, cursor,
            rows,
        )  # fmt: skip
        indptr, targets, _ = block.outgoing()
        _add_targets(block.first, indptr, targets, sizes, fans.into, size_sum, synapse_sum)
    for v in range(items.count):
        sources = sorted(s for s, t in edges if items.item[t] == v)
        assert cursor[v] == (start[v] + len(sources) if wanted[v] else -1)
        if wanted[v]:
            assert sorted(rows[start[v] : cursor[v]].tolist()) == sources
    for u in range(n):
        assert size_sum[u] == sum(sizes[t] for s, t in edges if s == u)
        assert synapse_sum[u] == sum(fans.into[t] for s, t in edges if s == u)


def random_search(seed: int) -> tuple[MemoryGraph, Case, np.random.Generator, NDArray[np.int32]]:
    rng = np.random.default_rng(seed)
    n, parts = int(rng.integers(4, 26)), int(rng.integers(2, 7))
    graph, edges = directed(rng, n, int(rng.integers(0, 90)))
    items = random_items(rng, n, bool(seed % 2))
    place = rng.integers(0, parts, items.count).astype(np.int32)
    sizes, into = graph.vertex_sizes(), count_fans(graph).into
    with ThreadTeam(1) as team:
        copies = bool(seed % 3 == 0)
        bits = BitCosts(seed % 2, seed % 3)
        use = count_use(graph, place[items.item], parts, sizes, into, team, copies, bits)
    limits = np.ceil(use.table.mean(axis=1) * 1.1).astype(np.int64) + 1
    weight = weight_of_excess(limits)
    case = Case(
        edges, items.item.tolist(), place.tolist(), sizes.tolist(), parts, limits.tolist(),
        weight.tolist(), copies, bits,
    )  # fmt: skip
    return graph, case, rng, place


@pytest.mark.parametrize("bounded", [False, True])
@pytest.mark.parametrize("seed", range(60))
def test_relieve(seed: int, bounded: bool) -> None:
    """The same moves as the reference, and all sums as recomputed."""
    graph, case, rng, place = random_search(seed)
    if bounded:
        case.least = rng.integers(0, 2 * case.limits[0] // 3 + 2, case.parts).tolist()
        case.limits.append(case.limits[0])
        case.weight.append(case.weight[0])
    item = np.array(case.item, np.int32)
    fixed = rng.random(place.size) < 0.1
    items = Items(item, fixed)
    kind = rng.integers(0, 3, place.size).astype(np.int32)
    domain = rng.random((3, case.parts)) < (0.7 if seed % 2 else 1.0)
    active = rng.random(case.parts) < 0.8
    active[rng.integers(case.parts)] = True
    inside = np.flatnonzero(active[place]).astype(np.int64)
    listed = np.flatnonzero(active)
    sizes, fans = graph.vertex_sizes(), count_fans(graph)
    with ThreadTeam(1) as team:
        use = count_use(
            graph, place[item], case.parts, sizes, fans.into, team, case.copies,
            BitCosts(*case.bits),
        )  # fmt: skip
    if bounded:
        assert case.least is not None
        lack = np.array(case.least) + case.limits[5] - use.table[0]
        use = Use(np.vstack([use.table, lack]), use.reach)
    limits, weight = np.array(case.limits), np.array(case.weight)
    rows = [case.rows(v) for v in range(place.size)]
    flat = np.array([s for row in rows for s in row], np.int32)
    end = np.cumsum([len(row) for row in rows])
    start = end - [len(row) for row in rows]
    keys, counts = np.full(8192, -1, np.int64), np.zeros(8192, np.int32)
    used = np.array([_fill_table(inside, start, end, flat, place, case.parts, keys, counts), 8000])
    lists = LinkedLists(np.full(case.parts, -1, np.int64), *np.full((2, place.size), -1, np.int64))
    _link(inside, place, lists)
    queue = rng.permutation(listed)
    roomy = listed[rng.random(listed.size) < 0.5]
    empty = listed[lists.head[listed] < 0]
    state = rng.integers(1, 2**63, 1, dtype=np.uint64)
    chains = int(rng.integers(0, 20))
    search = Search(
        case, listed.tolist(), lists_of(*lists), roomy.tolist(), empty.tolist(),
        fixed.tolist(), [set(np.flatnonzero(domain[k]).tolist()) for k in kind.tolist()],
        Draws(int(state[0])), relief.OF_SOURCES, relief.SPREAD, relief.ROOMY,
        relief.SAMPLE, relief.LINKS, relief.PULLS,
    )  # fmt: skip
    before, old = case.total(), place.copy()
    expected = search.relieve(queue.tolist(), chains)
    totals = items.total(sizes), items.total(fans.into)
    totals += (BitCosts(*case.bits).of(*totals),)
    net = Net(item, *items.members(), *totals, start, end, flat, fixed, kind, domain)
    sums = exchange.ExchangeSearch(
        place, use.reach, use.table, limits, weight, keys, counts, used, case.copies
    )
    targets = Targets(active, listed, roomy, empty)
    work = np.array([1 << 60])
    found = _relieve(queue, targets, lists, net, sums, work, chains, state)
    assert place.tolist() == case.place
    assert found == expected
    assert found[1] == case.total() - before
    assert use.table.tolist() == case.use()
    assert lists_of(*lists) == search.lists
    assert int(state[0]) == search.draws.state
    assert (place[fixed] == old[fixed]).all()
    moved = place != old
    assert domain[kind, place][moved].all()
    assert (place[~active[old]] == old[~active[old]]).all()
