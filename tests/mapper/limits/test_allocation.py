"""Allocation of cores to kinds of items, and items on allowed cores, against brute force."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from mapper.limits.allocation import allocate, divide_cores, short_of_cores
from mapper.limits.domains import FIXED
from mapper.limits.kinds import Kinds
from mapper.limits.legalise import Cores, curve, legal_places

SEEDS = range(40)


def random_kinds(rng: np.random.Generator, items: int, rows: int, cores: int) -> Kinds:
    allowed = rng.random((rows, cores)) < 0.6
    allowed[np.arange(rows), rng.integers(0, cores, rows)] = True
    apart = np.triu(rng.random((rows, rows)) < 0.2, 1)
    kind = rng.integers(0, rows, items).astype(np.int32)
    names = tuple((f"c.toml: region {k + 1}",) for k in range(rows))
    return Kinds(kind, allowed, apart | apart.T, names)


def largest_unmet(demand: np.ndarray, room: np.ndarray, allowed: np.ndarray) -> int:
    """Return the largest demand of a set of kinds above the capacity of their cores (Hall)."""
    sets = itertools.chain.from_iterable(
        itertools.combinations(range(demand.size), size) for size in range(1, demand.size + 1)
    )
    unmet = 0
    for some in map(list, sets):
        unmet = max(unmet, int(demand[some].sum() - room[allowed[some].any(axis=0)].sum()))
    return unmet


@pytest.mark.parametrize("seed", SEEDS)
def test_allocation_is_a_largest_flow(seed: int) -> None:
    rng = np.random.default_rng(seed)
    rows, cores = int(rng.integers(1, 6)), int(rng.integers(1, 8))
    allowed = rng.random((rows, cores)) < 0.5
    wanted, room = rng.integers(0, 6, (rows, cores)), rng.integers(0, 12, cores)
    found = allocate(wanted, room, allowed, rng.permutation(cores))
    assert (found.amount >= 0).all()
    assert (found.amount[~allowed] == 0).all()
    assert (found.amount.sum(axis=0) <= room).all()
    assert (found.amount.sum(axis=1) + found.short == wanted.sum(axis=1)).all()
    assert found.short.sum() == largest_unmet(wanted.sum(axis=1), room, allowed)


@pytest.mark.parametrize("seed", SEEDS)
def test_bounds_refuse_only_what_is_impossible(seed: int) -> None:
    rng = np.random.default_rng(seed)
    kinds = random_kinds(rng, 5, 3, 3)
    needed, limit = rng.integers(1, 3, 5), int(rng.integers(2, 5))
    said = short_of_cores(kinds, needed, np.full(kinds.allowed.shape[1], limit), "neurons")
    possible = False
    for place in itertools.product(range(3), repeat=5):
        core = np.array(place, np.int32)
        load = np.bincount(core, weights=needed, minlength=3)
        possible |= bool(load.max() <= limit and kinds.kept(core))
    assert not (said and possible)
    if not kinds.apart.any() and not said and (needed == 1).all():
        assert possible


@pytest.mark.parametrize("seed", SEEDS)
def test_kinds_that_must_be_apart_share_no_core(seed: int) -> None:
    rng = np.random.default_rng(seed)
    kinds = random_kinds(rng, 30, 4, 12)
    wanted = np.zeros((4, 12), np.int64)
    np.add.at(wanted, (kinds.kind, rng.integers(0, 12, 30)), 1)
    table = divide_cores(kinds, kinds.allowed, wanted, np.full(12, 5), curve(12, 4))
    assert (table <= kinds.allowed).all()
    for i, j in np.argwhere(kinds.apart):
        assert not (table[i] & table[j]).any()
    free = ~kinds.apart.any(axis=1)
    assert (table[free] == kinds.allowed[free]).all()


@pytest.mark.parametrize("seed", SEEDS)
def test_items_move_to_allowed_cores(seed: int) -> None:
    """With unit sizes, amounts are met exactly; pinned items stay, the others if they may."""
    rng = np.random.default_rng(seed)
    items, rows, cores = 40, 3, 12
    kinds = random_kinds(rng, items, rows, cores)
    kinds = Kinds(kinds.kind, kinds.allowed, np.zeros_like(kinds.apart), kinds.name)
    place = rng.integers(0, cores, items).astype(np.int32)
    pinned = np.full(items, -1, np.int32)
    for i in rng.choice(items, 3, replace=False):
        pinned[i] = rng.choice(np.flatnonzero(kinds.allowed[kinds.kind[i]]))
    capacity = np.full(cores, 6)
    found = legal_places(place, kinds, pinned, np.ones(items, np.int64), Cores(4, capacity))
    assert (found[pinned >= 0] == pinned[pinned >= 0]).all()
    assert kinds.kept(found)
    movable = pinned < 0
    room = capacity - np.bincount(pinned[~movable], minlength=cores)
    demand = np.bincount(kinds.kind[movable], minlength=rows)
    if (room >= 0).all() and largest_unmet(demand, room, kinds.allowed) == 0:
        assert np.bincount(found, minlength=cores).max() <= 6


@pytest.mark.parametrize("seed", SEEDS)
def test_moves_within_domains_keep_all_constraints(seed: int) -> None:
    rng = np.random.default_rng(seed)
    kinds = random_kinds(rng, 12, 4, 6)
    place = np.zeros(12, np.int32)
    for i in range(12):  # a mapping within the constraints
        for core in rng.permutation(6).tolist():
            place[i] = core
            if kinds.free(place, np.arange(12) <= i)[kinds.kind[i], core]:
                break
        else:
            pytest.skip("this seed has no mapping")
    fixed = rng.random(12) < 0.2
    domains = kinds.domains(place, fixed)
    assert ((domains.kind == FIXED) == fixed).all()
    assert domains.allows(np.flatnonzero(~fixed), place[~fixed]).all()
    for _ in range(30):
        moved = place.copy()
        for i in np.flatnonzero(~fixed):
            moved[i] = rng.choice(np.flatnonzero(domains.table[domains.kind[i]]))
        assert kinds.kept(moved)


def test_the_curve_visits_every_core_once() -> None:
    assert sorted(curve(15, 5).tolist()) == list(range(15))
    assert curve(4, 2).tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize("seed", SEEDS)
def test_a_division_is_found_if_cores_have_spare_capacity(seed: int) -> None:
    """Cores belong to one of four groups in each of two tables; a neuron may be in no group."""
    rng = np.random.default_rng(seed)
    cores, none, capacity, neurons = 9, 4, 10, 54
    owner = rng.integers(0, none, (2, cores))
    group = np.array(list(itertools.product(range(none + 1), repeat=2)))  # of every kind
    core = rng.permutation(np.repeat(np.arange(cores), capacity))[:neurons]
    member = np.where(rng.random((2, neurons)) < rng.random((2, 1)), owner[:, core], none)
    present = np.zeros((len(group), cores), np.int64)  # of a mapping within the constraints
    np.add.at(present, (member[0] * (none + 1) + member[1], core), 1)
    allowed = (present > 0) | (rng.random(present.shape) < 0.5)
    grouped = (group[:, None] < none) & (group[None] < none)
    apart = (grouped & (group[:, None] != group[None])).any(axis=2)
    kinds = Kinds(np.arange(len(group), dtype=np.int32), allowed, apart, ((),) * len(group))
    wanted = np.zeros_like(present)
    for k in np.flatnonzero(present.any(axis=1)):
        drawn = rng.choice(np.flatnonzero(allowed[k]), present[k].sum())
        wanted[k] = np.bincount(drawn, minlength=cores)
    room, order = np.full(cores, capacity), curve(cores, 4)
    table = divide_cores(kinds, allowed, wanted, room, order)
    assert not allocate(wanted, room, table, order).short.any()
