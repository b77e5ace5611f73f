"""Turns and routes around broken links against the reference implementation, and their rules."""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings

from chipsim.chip.faults import MAX_ROUTERS, working_links
from chipsim.chip.machine import Block, Machine
from chipsim.chip.model import Chip
from chipsim.detours.tables import Detours, detours_of
from chipsim.detours.turns import link_ranks
from chipsim.errors import ChipError
from chipsim.traffic.links import loads_of, route_flows
from tests.chipsim.faulty_chips import CHIPS, faulty_chip, known
from tests.chipsim.measured import score
from tests.chipsim.strategies import Case, cases
from tests.reference import chipsim as naive
from tests.reference import mesh_routes
from tests.reference.detours import BACK, NAMES, Link, Router


def detours(chip: Chip) -> Detours:
    found = detours_of(chip)
    assert found is not None
    return found


def walked(table: Detours, columns: int, source: int, target: int) -> list[Link] | None:
    """Return the links of a route from its table, None if there is none."""
    row = table.routes[source]
    if not row[target] >> 10 & 1:
        return None
    links: list[Link] = []
    here, way = target, int(row[target]) >> 8 & 3
    while source != target:
        here = int(table.after[here, way ^ 1])
        links.insert(0, ((here % columns, here // columns), NAMES[way]))
        came = int(row[here]) >> 2 * way & 3
        if came == way ^ 1:
            return links
        way = came
    return links


def forwarded(table: Detours, columns: int, source: int, target: int) -> list[Link]:
    """Return the links of a route from the table by destination."""
    row = table.routes_back[target]
    links: list[Link] = []
    here, out = source, int(row[source]) >> 8 & 3 ^ 1
    while here != target:
        links.append(((here % columns, here // columns), NAMES[out]))
        here = int(table.after[here, out])
        out = int(row[here]) >> 2 * (out ^ 1) & 3 ^ 1
    return links


@pytest.mark.sample(40)
@pytest.mark.parametrize("seed", range(CHIPS))
def test_turns_and_routes_match_reference(seed: int) -> None:
    chip = faulty_chip(seed)
    found, expected = detours(chip), known(chip)
    turns = {
        ((v % expected.columns, v // expected.columns), NAMES[came], NAMES[out])
        for v, mask in enumerate(found.turns.tolist())
        for came in range(4)
        for out in range(4)
        if mask >> (4 * came + out) & 1
    }
    assert turns == expected.turns
    longest = 0
    for s, source in enumerate(expected.places):
        routes = expected.routes(source)
        for t, target in enumerate(expected.places):
            links = walked(found, expected.columns, s, t)
            assert links == routes.get(target)
            if links is not None:
                assert forwarded(found, expected.columns, s, t) == links
                longest = max(longest, len(links))
    assert found.longest == longest


def follows(links: list[Link], after: dict[Link, Router], source: Router, target: Router) -> bool:
    """Return whether links lead from one router to another, one after the other."""
    here = source
    for link in links:
        if link not in after or link[0] != here:
            return False
        here = after[link]
    return here == target


def has_cycle(edges: dict[Link, set[Link]]) -> bool:
    """Return whether links wait for each other in a circle: links without waits are removed."""
    left = {link: set(others) for link, others in edges.items()}
    while left:
        free = [link for link, others in left.items() if not others & left.keys()]
        if not free:
            return True
        for link in free:
            del left[link]
    return False


@pytest.mark.sample(40)
@pytest.mark.parametrize("seed", range(CHIPS))
def test_routes_reach_every_usable_core_and_cannot_deadlock(seed: int) -> None:
    """Checked on the routes alone, from the faults in the chip's fields."""
    chip = faulty_chip(seed)
    table, faults = detours(chip), known(chip)
    assert not any(working_links(chip)[NAMES.index(name), y, x] for (x, y), name in faults.broken)
    usable = {faults.place(chip, core) for core in np.flatnonzero(chip.usable).tolist()}
    waits: dict[Link, set[Link]] = defaultdict(set)
    for source in sorted(usable):
        tree: dict[Link, Link] = {}
        for target in sorted(usable):
            ends = [place[1] * faults.columns + place[0] for place in (source, target)]
            links = walked(table, faults.columns, *ends)
            assert links is not None
            assert follows(links, faults.after, source, target)
            assert len(set(links)) == len(links)
            for one, then in pairwise(links):
                assert then[1] != BACK[one[1]]
                waits[one].add(then)
                # a link has one predecessor among all routes of a source: they form a tree
                assert tree.setdefault(then, one) == one
    assert not has_cycle(waits)
    assert (link_ranks(table.after, table.turns) >= 0).all()


def test_the_check_for_cycles_finds_one() -> None:
    square: list[Link] = [((0, 0), "east"), ((1, 0), "south"), ((1, 1), "west"), ((0, 1), "north")]
    waits = {a: {b} for a, b in zip(square, square[1:] + square[:1], strict=True)}
    assert has_cycle(waits)
    del waits[square[2]]
    assert not has_cycle(waits)
    # All turns of a 2x2 mesh: its four links form a circle.
    after = np.array([[1, -1, 2, -1], [-1, 0, 3, -1], [3, -1, -1, 0], [-1, 2, -1, 1]], np.int32)
    assert not (link_ranks(after, np.full(4, 0xFFFF, np.uint16)) >= 0).all()


@pytest.mark.sample(20)
@pytest.mark.parametrize("seed", range(CHIPS // 2))
def test_xy_routes_that_work_and_are_permitted_remain(seed: int) -> None:
    chip = faulty_chip(seed)
    faults = known(chip)
    bare = Chip("bare", chip.width, chip.height, machine=chip.machine)
    if bare.machine is not None and bare.machine.torus:
        return  # the way round may be either
    kept = 0
    for a in np.flatnonzero(chip.usable).tolist():
        for b in np.flatnonzero(chip.usable).tolist():
            links = mesh_routes.route(bare, a, b)
            turns = {
                (faults.after.get(one, (-1, -1)), one[1], then[1]) for one, then in pairwise(links)
            }
            if all(link in faults.after for link in links) and turns <= faults.turns:
                kept += 1
                assert mesh_routes.route(chip, a, b) == links
    assert kept


def test_one_broken_link() -> None:
    """The row of the link takes a detour of two hops; other rows are unchanged."""
    chip = Chip("c", 4, 4, broken_links=((5, 6),))
    flows = (np.array([4, 0], np.int32), np.array([7, 3], np.int32), np.array([1, 1], np.int64))
    loads = loads_of(route_flows(chip, *flows)[0])
    assert loads.sum() == 5 + 3
    assert loads[0, 0].tolist() == [1, 1, 1, 0]
    assert loads[:, 1, 1].tolist()[:2] == [0, 0]
    assert loads[1, 1, 2] == 0


def test_a_broken_router_breaks_its_links_and_empties_its_cores() -> None:
    chip = Chip("c", 3, 3, broken_routers=(4,))
    assert chip.unavailable == (4,)
    assert chip.links == 24 - 8
    ring = [0, 1, 2, 5, 8, 7, 6, 3]
    for at, core in enumerate(ring):
        for other in range(8):
            shorter = min((at - other) % 8, (other - at) % 8)
            hops = len(mesh_routes.route(chip, core, ring[other]))
            assert shorter <= hops <= 7
    assert Chip("c", 3, 3, unavailable=(4,)).links == 24


# links of a ring without cost have no circumference either
FREE_RING = Case(
    Chip(
        "ring", 2, 2, unavailable=(0,), broken_routers=(0,),
        machine=Machine(2, 2, torus="x", link_cost=(0, 0)),
    ),
    [1, 2], [(0, 1, 1)], [0, 0], None, False, [],
)  # fmt: skip


@pytest.mark.heavy
@pytest.mark.sample(0.5)
@settings(max_examples=300)
@example(case=FREE_RING)
@given(cases(faulty=True))
def test_scores_of_faulty_chips_match_reference(case: Case) -> None:
    def expected(chip: Chip) -> dict[str, Any]:
        return naive.score(
            chip, case.core, case.edges, sizes=case.sizes, rates=case.rates,
            undirected=case.undirected,
        )  # fmt: skip

    chip = case.chip
    try:
        wanted = expected(chip)
    except np.linalg.LinAlgError:  # a queue is exactly full: the reference has no cycles of a tick
        chip = replace(chip, time=None)
        wanted = expected(chip)
    found = score(chip, case.cores(), case.blocks(), **case.options())
    assert_close(found, wanted)
    assert json.loads(json.dumps(found)) == found


def assert_close(found: dict[str, Any], expected: dict[str, Any]) -> None:
    assert list(found) == list(expected)
    for name, value in expected.items():
        if isinstance(value, dict):
            assert_close(found[name], value)
        elif isinstance(value, str):
            assert found[name] == value
        else:
            assert found[name] == pytest.approx(value, rel=1e-9, abs=1e-12), name


def test_separated_cores_are_refused() -> None:
    with pytest.raises(ChipError) as error:
        Chip("c", 3, 2, broken_links=((0, 1), (3, 4)))
    assert str(error.value) == (
        "chip c: broken links separate core [0, 0] from core [1, 0]; make the cores of one side "
        "unavailable"
    )
    # Unavailable cores may be separated, but not in use.
    chip = Chip("c", 3, 1, broken_links=((0, 1),), unavailable=(0,))
    with pytest.raises(ChipError, match=r"no route leads from core \[0, 0\] to core \[1, 0\]"):
        score(chip, np.array([0, 1], np.int32), [], sizes=np.ones(2, np.int64))


def test_large_chips_are_refused() -> None:
    side = int(np.sqrt(MAX_ROUTERS)) + 1
    with pytest.raises(ChipError, match=r"at most 16,384 routers; the chip has 16,641"):
        Chip("c", side, side, broken_links=((0, 1),))
    assert detours_of(Chip("c", side, side)) is None


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        (
            {"broken_links": ((0, 2),)},
            "broken link: cores [0, 0] and [2, 0] are not adjacent; give",
        ),
        ({"broken_links": ((0, 0),)}, "cores [0, 0] and [0, 0] share a router"),
        ({"broken_links": ((0, 12),)}, "core of a broken link 12 is outside the 4x3 mesh"),
        ({"broken_links": ((0, 3),)}, "[0, 0] and [3, 0] are not adjacent"),
        ({"broken_links": ((0, 1, 2),)}, "broken_links holds (0, 1, 2); give pairs of adjacent"),
        ({"broken_links": (5,)}, "broken_links holds 5; give pairs"),
        ({"broken_routers": (True,)}, "core of a broken router True is outside"),
        ({"broken_routers": tuple(range(12))}, "all 12 cores are unavailable"),
    ],
)
def test_bad_faults(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(ChipError) as error:
        Chip("c", 4, 3, **fields)
    assert message in str(error.value)


def test_faults_are_sorted_without_repeats() -> None:
    chip = Chip("c", 4, 3, broken_links=((5, 4), (0, 1), (4, 5)), broken_routers=(11, 3, 11))
    assert chip.broken_links == ((0, 1), (4, 5))
    assert chip.broken_routers == (3, 11)
    assert chip.unavailable == (3, 11)
    assert replace(chip) == chip


def test_links_of_tiles_and_tori() -> None:
    """Cores of a tile share its links; on a torus the last router is next to the first."""
    machine = Machine(6, 2, "x", tile=Block(2, 2, 0.0))
    chip = Chip("c", 6, 2, machine=machine, broken_links=((1, 8),))
    assert working_links(chip)[:2, 0].tolist() == [[False, True, True], [True, False, True]]
    chip = replace(chip, broken_links=((0, 5),))
    assert working_links(chip)[:2, 0].tolist() == [[True, True, False], [False, True, True]]
    with pytest.raises(ChipError, match=r"cores \[0, 0\] and \[1, 1\] share a router"):
        replace(chip, broken_links=((0, 7),))
