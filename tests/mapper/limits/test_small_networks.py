"""Constraints and limits of eight neurons, against an exhaustive search over all mappings."""

from __future__ import annotations

import itertools
import tomllib
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, cast

import numpy as np
import pytest

import mapper
from chipsim.chip.model import Chip
from chipsim.chip.time import ChipTime
from mapper.concurrency.threads import ThreadTeam
from mapper.errors import CheckFailedError, DoesNotFitError, MapperError
from mapper.evaluation.neurons.constraints import check_constraints
from mapper.evaluation.verify import SlowReader
from mapper.limits.axons import LimitJob, make_job
from mapper.limits.combined_constraints import Constraints, combine
from mapper.limits.constraints import (
    AnyConstraint,
    ApartConstraint,
    ConstraintFile,
    RegionConstraint,
    constraints_in,
)
from mapper.limits.exact_search import search_places
from mapper.limits.pins import core_of_items
from mapper.limits.use import excess
from storage.store.memory import MemoryGraph

NEURONS = 8


class Small(NamedTuple):
    """A network of eight neurons on a small chip, with constraints."""

    chip: Chip
    job: LimitJob
    tables: list[AnyConstraint]
    constraints: Constraints

    def keeps(self, core: np.ndarray, team: ThreadTeam) -> bool:
        """Return whether a mapping keeps all constraints and limits."""
        if any(one.fault(core) for one in self.tables) or not self.chip.usable[core].all():
            return False
        use = self.job.load.count(core, self.chip.cores, team)
        return not excess(use.table, self.job.load.limits).any()

    def possible(self, team: ThreadTeam) -> bool:
        """Return whether any mapping keeps all constraints and limits."""
        load, cores = self.job.load, self.chip.cores
        some = keeping(self.tables, cores)
        on = some[:, :, None] == np.arange(cores)
        for demand, limit in ((load.sizes, load.limits[0]), (load.fan_in, load.limits[1])):
            fits = ((on * demand[:, None]).sum(axis=1) <= limit).all(axis=1)
            on, some = on[fits], some[fits]
        if self.chip.axons_in is None:
            return bool(some.size)
        return any(self.keeps(core, team) for core in some)


def keeping(tables: list[AnyConstraint], cores: int) -> np.ndarray:
    """Return all mappings that keep the tables, shape (mappings, neurons)."""
    core = np.indices((cores,) * NEURONS, np.int32).reshape(NEURONS, -1).T
    for one in tables:
        if isinstance(one, ApartConstraint):
            for first, second in itertools.combinations(one.groups, 2):
                same = core[:, first, None] == core[:, None, second]
                core = core[~same.any(axis=(1, 2))]
        elif isinstance(one, RegionConstraint):
            inside = np.isin(core, one.cores)
            others = np.delete(np.arange(NEURONS), one.neurons)
            wrong = (~inside[:, one.neurons]).any(axis=1)
            core = core[~(wrong | (inside[:, others].any(axis=1) & one.exclusive))]
        else:
            wanted = core[:, one.neurons[:1]] if one.core is None else one.core
            core = core[(core[:, one.neurons] == wanted).all(axis=1)]
    return core


def random_text(rng: np.random.Generator, width: int, height: int) -> str:
    """Return a file of up to two regions, two tables of groups, a pin and a pair."""
    lines: list[str] = []
    for _ in range(rng.integers(0, 3)):
        neurons = rng.choice(NEURONS, rng.integers(1, 5), replace=False).tolist()
        x, y = (sorted(rng.integers(0, side, 2).tolist()) for side in (width, height))
        only = str(bool(rng.random() < 0.2)).lower()
        lines += ["[[region]]", f"neurons = {neurons}", f"exclusive = {only}"]
        lines += [f"rectangle = [{x[0]}, {y[0]}, {x[1]}, {y[1]}]"]
    for _ in range(rng.integers(0, 3)):
        cuts = np.sort(rng.choice(np.arange(1, NEURONS), int(rng.integers(2, 4)), replace=False))
        groups = [part.tolist() for part in np.split(rng.permutation(NEURONS), cuts)[:-1]]
        lines += ["[[apart]]", f"groups = {groups}"]
    if rng.random() < 0.3:
        core = int(rng.integers(width * height))
        lines += ["[[pin]]", f"neurons = [{rng.integers(NEURONS)}]", f"core = {core}"]
    if rng.random() < 0.3:
        pair = rng.choice(NEURONS, 2, replace=False).tolist()
        lines += ["[[together]]", f"neurons = {pair}"]
    return "\n".join(lines)


class Case(NamedTuple):
    """Input of a run: connections, sizes of the neurons, a chip, and a file of constraints."""

    chip: Chip
    edges: tuple[np.ndarray, np.ndarray]
    sizes: np.ndarray
    text: str

    def tables(self) -> list[AnyConstraint]:
        file = ConstraintFile(Path("c.toml"), self.text.encode())
        return constraints_in(file, self.chip, NEURONS, lambda _: None)

    def small(self) -> Small | None:
        """Return the network and its constraints; None if these are refused as contradictory."""
        tables = self.tables()
        try:
            constraints = combine(tables, NEURONS, self.chip.usable)
        except MapperError:
            return None
        graph = MemoryGraph.from_edges(NEURONS, *self.edges, sizes=self.sizes)
        return Small(self.chip, make_job(graph, self.chip, 1, constraints), tables, constraints)


def random_case(seed: int) -> Case:
    rng = np.random.default_rng(seed)
    width, height = ((2, 2), (3, 1), (2, 1), (4, 1))[rng.integers(4)]
    cores = width * height
    sizes = rng.integers(1, 3, NEURONS) if rng.random() < 0.3 else np.ones(NEURONS, np.int64)
    source, target = rng.integers(0, NEURONS, (2, int(rng.integers(6, 24))))
    source, target = np.unique(np.stack([source, target])[:, source != target], axis=1)
    chip = Chip(
        "small", width, height, neurons=-(-int(sizes.sum()) // cores) + int(rng.integers(0, 3)),
        synapses=source.size // cores + int(rng.integers(1, 5)) if rng.random() < 0.4 else None,
        axons_in=int(rng.integers(3, 8)) if rng.random() < 0.2 else None,
    )  # fmt: skip
    return Case(chip, (source, target), sizes, random_text(rng, width, height))


@pytest.mark.jit
@pytest.mark.heavy
@pytest.mark.sample(20)
@pytest.mark.parametrize("seed", range(60))
def test_a_mapping_is_found_if_there_is_one(seed: int) -> None:
    small = random_case(seed).small()
    if small is None:
        pytest.skip("its tables are refused")
    rng = np.random.default_rng([seed, 1])
    cores, items = small.chip.cores, small.constraints.core.size
    parts = int(rng.integers(1, cores + 1))
    cell = rng.permutation(cores)[:parts].astype(np.int32)
    part = rng.integers(0, parts, items).astype(np.int32)
    with ThreadTeam(1) as team:
        try:
            small.constraints.require_fit(small.chip, small.job.load.sizes, small.job.fans)
            found = core_of_items(cell, part, small.constraints, small.job, 0, 1 << 20, seed, team)
        except DoesNotFitError:
            searched = search_places(small.job, small.constraints, 0, team)
            if searched is None:
                assert not small.possible(team)
                return
            found = searched
        if small.constraints.restricts_cores:
            assert small.keeps(found[small.job.items.item], team)


@pytest.mark.parametrize("seed", range(60))
def test_bounds_and_contradictions_are_real(seed: int) -> None:
    case = random_case(seed)
    small = case.small()
    if small is None:
        assert not keeping(case.tables(), case.chip.cores).size
        return
    with ThreadTeam(1) as team:
        try:
            small.constraints.require_fit(small.chip, small.job.load.sizes, small.job.fans)
        except DoesNotFitError:
            assert not small.possible(team)


RUNS: list[dict[str, Any]] = [
    {"preset": "fast"},
    {"preset": "default"},
    {"preset": "strong"},
    {"preset": "classic"},
    {"preset": "fast", "objective": "core"},
    {"preset": "fast", "objective": "multicast"},
    {"preset": "default", "objective": "cut"},
    {"preset": "default", "objective": "time"},
    {"preset": "fast", "time_limit": 1e-9},
]


@pytest.mark.jit
@pytest.mark.heavy
@pytest.mark.sample(18)
@pytest.mark.usefixtures("light_placement")
@pytest.mark.parametrize("seed", range(90))
def test_whole_runs_map_what_can_be_mapped(seed: int) -> None:
    """All presets and objectives map every network that has a mapping, within all constraints."""
    case, words = random_case(seed), RUNS[seed % len(RUNS)]
    chip = case.chip
    if words.get("objective") == "time":
        chip = replace(chip, time=ChipTime())
    small = case.small()
    with ThreadTeam(1) as team:
        possible = small is not None and small.possible(team)
        try:
            found = mapper.map_network(
                case.edges, chip, neurons=NEURONS, sizes=case.sizes, threads=1, seed=seed,
                constraints=tomllib.loads(case.text), **words,
            )  # fmt: skip
        except mapper.MapperError:
            assert not possible
        else:
            assert small is not None
            assert small.keeps(found.core, team)


class Unnamed:
    """A network without populations, for `check_constraints`."""

    neurons = NEURONS
    meta: ClassVar[dict[str, Any]] = {"attributes": {}}


@pytest.mark.parametrize("seed", range(60))
def test_the_check_of_results_agrees(seed: int, tmp_path: Path) -> None:
    """`verify` finds a fault exactly in the mappings that break a table."""
    case, rng = random_case(seed), np.random.default_rng([seed, 2])
    path = tmp_path / "constraints.toml"
    path.write_text(case.text)
    kept = keeping(case.tables(), case.chip.cores).astype(np.int64)
    some = [*rng.permutation(kept)[:3], *rng.integers(0, case.chip.cores, (6, NEURONS))]
    for core in some:
        broken = any(one.fault(core) for one in case.tables())
        assert broken != (kept == core).all(axis=1).any()
        about = {"width": case.chip.width, "height": case.chip.height}
        with pytest.raises(CheckFailedError) if broken else nullcontext():
            check_constraints(path, about, cast("SlowReader", Unnamed()), core)
