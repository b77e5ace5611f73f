"""K-way refinement: kernels against references, invariants of rounds."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from mapper.concurrency.threads import ThreadTeam
from mapper.executors.shard import State
from mapper.graph.csr import Chunk
from mapper.graph.rows import Rows, StreamedRows
from mapper.partitioning import pass_steps
from mapper.partitioning.kway_refinement import (
    Moves,
    SeekCut,
    _best_moves,
    move_in_order,
    refine_round,
)
from mapper.partitioning.pass_steps import steps_of
from storage.store.memory import MemoryGraph
from tests.mapper.helpers import (
    adjacency,
    grid_graph,
    links_of,
    lists_of,
    random_graph,
    random_parts,
    rows_of,
)
from tests.reference import streamed as naive
from tests.reference.partitioning import cut
from tests.seeds import seeds


def found_moves(
    rows: Rows, index: int, part: np.ndarray, load: np.ndarray, room: np.ndarray | None = None
) -> tuple[list[tuple[int, ...]], int, int]:
    chunk = rows.read(index)
    pull, touched = np.zeros(load.size, np.int32), np.empty(load.size, np.int32)
    moves = np.empty((4, chunk.vertices), np.int32)
    room = np.full(load.size, -1) if room is None else room
    found, outside, everything = _best_moves(chunk, part, load, room, pull, touched, moves)
    assert not pull.any()
    return [tuple(move) for move in moves[:, :found].T.tolist()], outside, everything


@pytest.mark.parametrize("seed", range(40))
def test_best_moves(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n, parts = int(rng.integers(1, 60)), int(rng.integers(1, 7))
    graph = random_graph(rng, n, largest=3, sizes=3, block_size=8)
    part, load = random_parts(rng, graph, parts)
    room = load + rng.integers(0, 2, parts)  # half of the parts are full
    for rows in (rows_of(graph), StreamedRows(graph, graph.vertex_sizes(), 0)):
        outside = 0
        for index in range(rows.chunks):
            chunk = rows.read(index)
            links = adjacency(chunk.indptr, chunk.ids, chunk.weights)
            expected = naive.best_moves(chunk.first, links, part.tolist(), load.tolist())
            assert found_moves(rows, index, part, load) == expected
            some = naive.best_moves(chunk.first, links, part.tolist(), load.tolist(), room.tolist())
            assert found_moves(rows, index, part, load, room) == some
            outside += expected[1]
        assert outside == 2 * cut(lists_of(graph), part.tolist())


def move(
    moves: Sequence[tuple[int, ...]],
    sizes: np.ndarray,
    part: np.ndarray,
    load: np.ndarray,
    room: np.ndarray,
    floor: np.ndarray,
) -> int:
    """Execute moves (vertex, target[, gain, heaviest connection]) in the given order."""
    full = [(*some, 5, 0)[:4] for some in moves]
    table = np.array(full, np.int32).reshape(-1, 4).T.copy()
    return int(move_in_order(np.arange(len(moves)), table, sizes, part, load, room, floor))


@pytest.mark.parametrize("seed", range(60))
def test_move_in_order(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n, parts = int(rng.integers(1, 60)), int(rng.integers(2, 6))
    graph = random_graph(rng, n, sizes=int(rng.integers(1, 4)))
    part, load = random_parts(rng, graph, parts)
    sizes = graph.vertex_sizes()
    room = load + rng.integers(-2, 3, parts)
    floor = np.maximum(load - rng.integers(0, 9, parts), 0)
    chosen = rng.permutation(n)[: int(rng.integers(0, n + 1))]
    others = (part[chosen] + rng.integers(1, parts, chosen.size)) % parts
    gains, heaviest = rng.integers(1, 9, (2, chosen.size)).tolist()
    moves = list(zip(chosen.tolist(), others.tolist(), gains, heaviest, strict=True))
    twin_part, twin_load = part.tolist(), load.tolist()
    before = load.copy()
    moved = move(moves, sizes, part, load, room, floor)
    assert moved == naive.move_in_order(
        moves, sizes.tolist(), twin_part, twin_load, room.tolist(), floor.tolist()
    )
    assert (part.tolist(), load.tolist()) == (twin_part, twin_load)
    assert load.tolist() == [int(sizes[part == k].sum()) for k in range(parts)]
    assert (load <= np.maximum(before, room)).all()
    assert (load >= np.minimum(before, floor)).all()


def test_a_chain_of_waiting_moves_is_released_by_one_vertex() -> None:
    """Parts 0 .. 3 are full; 0 -> 1 -> 2 -> 3 wait for each other until a vertex leaves 3."""
    part, sizes = np.array([0, 1, 2, 3], np.int32), np.ones(4, np.int64)
    load = np.array([1, 1, 1, 1, 0])
    room, floor = np.ones(5, np.int64), np.zeros(5, np.int64)
    assert move([(0, 1), (1, 2), (2, 3), (3, 4)], sizes, part, load, room, floor) == 4
    assert part.tolist() == [1, 2, 3, 4]
    assert load.tolist() == [0, 1, 1, 1, 1]


def test_moves_into_a_full_part_are_dropped() -> None:
    part, sizes = np.array([0, 1], np.int32), np.ones(2, np.int64)
    load, room = np.array([1, 1]), np.ones(2, np.int64)
    assert move([(0, 1)], sizes, part, load, room, np.zeros(2, np.int64)) == 0
    assert part.tolist() == [0, 1]


def test_moves_that_wait_for_each_other_swap() -> None:
    """Three full parts: the first of 0 and the first of 1 swap, no vertex moves from 1 to 2."""
    part, sizes = np.array([0, 1, 0, 1, 2], np.int32), np.ones(5, np.int64)
    load = np.array([2, 2, 1])
    moves = [(0, 1), (1, 2), (2, 1), (3, 0), (4, 0)]
    assert move(moves, sizes, part, load, load.copy(), np.zeros(3, np.int64)) == 2
    assert part.tolist() == [1, 1, 0, 0, 2]
    assert load.tolist() == [2, 2, 1]


@pytest.mark.parametrize(("before", "moved"), [(0, 2), (15, 2), (16, 0), (40, 0)])
def test_a_partner_is_searched_among_the_first_waiting_moves(before: int, moved: int) -> None:
    """Vertex 0 proposes to move to part 1, where a partner waits after `before` larger vertices.

    Part 2 sends many vertices to part 1, which wait before vertex 0, so vertex 0 is found last.
    """
    crowd = 20
    sizes = np.repeat([1, 2, 1, 3], (1, before, 1, crowd))
    part = np.repeat([0, 1, 2], (1, before + 1, crowd)).astype(np.int32)
    load = np.bincount(part, weights=sizes).astype(np.int64)
    partner, start = before + 1, part.copy()
    moves = [(v, 1) for v in range(partner + 1, partner + 1 + crowd)]
    moves += [(v, 0) for v in range(1, partner + 1)]
    moves += [(0, 1)]
    assert move(moves, sizes, part, load, load.copy(), np.zeros(3, np.int64)) == moved
    if moved:
        start[[0, partner]] = 1, 0
    assert part.tolist() == start.tolist()


def test_only_vertices_of_the_same_size_swap() -> None:
    part, sizes = np.array([0, 1], np.int32), np.array([2, 1])
    load = np.array([2, 1])
    assert move([(0, 1), (1, 0)], sizes, part, load, load.copy(), np.zeros(2, np.int64)) == 0
    assert part.tolist() == [0, 1]


def test_the_minimum_load_blocks_a_vertex() -> None:
    part, sizes = np.array([0, 0, 1], np.int32), np.ones(3, np.int64)
    load, room = np.array([2, 1]), np.full(2, 9)
    assert move([(0, 1), (1, 1)], sizes, part, load, room, np.array([1, 0])) == 1
    assert part.tolist() == [1, 0, 1]


@pytest.mark.parametrize("seed", seeds(20, plain=6))
def test_rounds_keep_capacity_and_minimum_load_for_any_threads(seed: int) -> None:
    rng = np.random.default_rng(seed)
    parts = int(rng.integers(2, 9))
    graph = random_graph(rng, int(rng.integers(40, 400)), sizes=3, block_size=11)
    start, load = random_parts(rng, graph, parts)
    room = load + rng.integers(-3, 6, parts)
    floor = np.maximum(load - rng.integers(-1, 12, parts), 0)
    held, streamed = rows_of(graph), StreamedRows(graph, graph.vertex_sizes(), 0)
    for rows in (held, streamed):
        found = []
        for threads in (1, 2, 3):
            part, moves = start.copy(), []
            with ThreadTeam(threads) as team:
                for index in range(3):
                    visited: list[int] = []
                    done = refine_round(rows, part, room, floor, seed, index, team, visited.append)
                    moves.append(done.moves)
                    assert sum(visited) == held.entries
                    assert 0 <= done.outside <= done.everything
            after = np.zeros(parts, np.int64)
            np.add.at(after, part, rows.sizes)
            assert (after <= np.maximum(load, room)).all()
            assert (after >= np.minimum(load, floor)).all()
            found.append((part.tolist(), moves))
        assert found[0] == found[1] == found[2]


@pytest.mark.parametrize("seed", range(10))
def test_outside_is_the_cut_if_nothing_can_move(seed: int) -> None:
    rng = np.random.default_rng(seed)
    graph = random_graph(rng, 80)
    part, load = random_parts(rng, graph, 4)
    rows, before = rows_of(graph), part.tolist()
    with ThreadTeam(2) as team:
        done = refine_round(rows, part, load, load, 0, 0, team)
    assert (done.moves, part.tolist()) == (0, before)
    assert done.outside == 2 * cut(lists_of(graph), before)
    assert done.everything == sum(w for links in links_of(rows) for _, w in links)


@pytest.mark.parametrize("seed", range(20))
def test_one_vertex_at_a_time_never_worsens(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """If every move is seen by later ones, the cut falls by each gain."""
    monkeypatch.setattr(pass_steps, "STEPS", 10**6)
    monkeypatch.setattr(pass_steps, "LEAST_CHUNKS", 1)
    rng = np.random.default_rng(seed)
    graph = random_graph(rng, 30, block_size=1)
    part, load = random_parts(rng, graph, 4)
    rows, lists = rows_of(graph), lists_of(graph)
    assert rows.chunks == rows.vertices
    room, floor = np.full(4, int(load.max()) + 1), np.zeros(4, np.int64)
    with ThreadTeam(2) as team:
        for index in range(5):
            before = cut(lists, part.tolist())
            done = refine_round(rows, part, room, floor, seed, index, team)
            assert cut(lists, part.tolist()) <= before - done.moves


def test_an_outlier_moves_to_a_part_with_room() -> None:
    """Its best part is full; it moves to the part with the heaviest connection among the others."""
    graph = MemoryGraph.from_edges(5, [0, 0, 0, 0], [1, 2, 3, 4], [9, 5, 6, 1])
    part, load = np.array([0, 1, 2, 3, 0], np.int32), np.array([2, 1, 1, 1])
    links = found_moves(rows_of(graph), 0, part, load, np.array([2, 1, 2, 2]))
    assert links[0][0] == (0, 3, 5, 6)
    assert found_moves(rows_of(graph), 0, part, load)[0][0] == (0, 1, 8, 9)
    full = np.array([2, 1, 1, 1])  # no part has room: it waits for the best
    assert found_moves(rows_of(graph), 0, part, load, full)[0][0] == (0, 1, 8, 9)
    graph = MemoryGraph.from_edges(5, [0, 0, 0, 0], [1, 2, 3, 4], [9, 5, 6, 3])  # no outlier
    links = found_moves(rows_of(graph), 0, part, load, np.array([2, 1, 2, 2]))
    assert links[0][0] == (0, 1, 6, 9)


class Watched(SeekCut):
    """Records the parts that chunks see, by their first vertex."""

    def __init__(self, parts: int) -> None:
        super().__init__(parts)
        self.seen: dict[int, tuple[list[int], list[int]]] = {}

    def seek(self, chunk: Chunk, state: State) -> Moves:
        self.seen[chunk.first] = state.part.tolist(), state.loads.tolist()
        return super().seek(chunk, state)


@pytest.mark.parametrize("delay", [0, 1])
@pytest.mark.parametrize("seed", range(12))
def test_moves_of_streamed_rows_take_effect_one_step_later(seed: int, delay: int) -> None:
    """Step s sees the parts after step s - 2 for streamed rows, after step s - 1 for held rows."""
    rng = np.random.default_rng(seed)
    graph = random_graph(rng, 160, block_size=4)
    part, load = random_parts(rng, graph, 4)
    room, floor = load + 2, np.zeros(4, np.int64)
    rows: Rows = StreamedRows(graph, graph.vertex_sizes(), 0) if delay else rows_of(graph)
    own, held, lists = part.tolist(), load.tolist(), links_of(rows)
    sizes, firsts = rows.sizes.tolist(), [rows.read(index).first for index in range(rows.chunks)]
    seeker, found, looked = Watched(4), part.copy(), []
    with ThreadTeam(2) as team:
        done = refine_round(rows, found, room, floor, seed, 3, team, seeker=seeker)
    steps = steps_of(rows, seed, 3, np.random.default_rng([seed, 3]))
    assert len(steps) > 5
    moved = 0
    for some in [*steps, *([[]] * delay)]:
        moves = []
        for index in some:
            assert seeker.seen[firsts[index]] == (own, held)
            last = firsts[index] + rows.read(index).vertices
            links = lists[firsts[index] : last]
            moves += naive.best_moves(firsts[index], links, own, held)[0]
        # of equal gains the lowest vertex, or the first one scanned
        looked.append(sorted(moves, key=lambda move: (-move[2], delay * move[0])))
        if len(looked) > delay:
            moved += naive.move_in_order(
                looked.pop(0), sizes, own, held, room.tolist(), floor.tolist()
            )
    assert (done.moves, found.tolist()) == (moved, own)


def test_halves_of_a_grid_are_repaired_with_room_for_one() -> None:
    """Some border vertices are on the wrong side and must swap one by one."""
    width = 32
    graph = grid_graph(width, width)
    right = np.arange(width * width) % width >= width // 2
    part = right.astype(np.int32)
    border = np.flatnonzero(np.isin(np.arange(width * width) % width, (15, 16)))
    wrong = border[(border // width) % 4 == 0]
    part[wrong] = 1 - part[wrong]
    room, floor = np.bincount(part) + 1, np.zeros(2, np.int64)
    lists = lists_of(graph)
    assert cut(lists, part.tolist()) > 2 * width
    with ThreadTeam(2) as team:
        for index in range(6):
            refine_round(rows_of(graph), part, room, floor, 0, index, team)
    assert cut(lists, part.tolist()) == width
    assert (np.bincount(part) <= room).all()


@pytest.mark.parametrize("seed", range(10))
def test_without_any_slack_swaps_lower_the_cut(seed: int) -> None:
    """Four communities, some vertices of each in a wrong part; all parts are completely full."""
    rng = np.random.default_rng(seed)
    n, parts = 240, 4
    home = np.arange(n) % parts
    source, target = rng.integers(0, n, (2, 12 * n))
    near = (home[source] == home[target]) | (rng.random(source.size) < 0.1)
    graph = MemoryGraph.from_edges(n, source[near], target[near], undirected=True, block_size=30)
    part = home.astype(np.int32)
    wrong = rng.permutation(n)[:60]
    part[wrong] = rng.permutation(part[wrong])
    load, floor, lists = np.bincount(part), np.zeros(parts, np.int64), lists_of(graph)
    before = cut(lists, part.tolist())
    for rows in (rows_of(graph), StreamedRows(graph, graph.vertex_sizes(), 0)):
        found, cuts = part.copy(), [before]
        with ThreadTeam(2) as team:
            for index in range(4):
                refine_round(rows, found, load, floor, seed, index, team)
                assert np.bincount(found).tolist() == load.tolist()
                cuts.append(cut(lists, found.tolist()))
        assert cuts[1] < before
        assert cuts[-1] < 0.8 * before


def test_a_graph_without_connections_is_unchanged() -> None:
    none = np.empty(0, np.int64)
    rows = rows_of(MemoryGraph.from_edges(9, none, none, undirected=True))
    part = np.arange(9, dtype=np.int32) % 3
    with ThreadTeam(1) as team:
        done = refine_round(rows, part, np.full(3, 9), np.zeros(3, np.int64), 0, 0, team)
    assert (done.moves, done.outside, done.everything) == (0, 0, 0)
