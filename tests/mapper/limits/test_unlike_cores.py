"""Cores with unlike limits, for eight neurons, against an exhaustive search."""

from __future__ import annotations

import tomllib
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

import mapper
from chipsim.chip.model import Chip
from chipsim.chip.presets import from_fields
from chipsim.chip.time import ChipTime
from mapper.limits.constraints import ConstraintFile, constraints_in
from tests.mapper.limits.test_small_networks import NEURONS, RUNS, keeping, random_text

LIMITS = ("neurons", "synapses", "axons_in", "axons_out")


class UnlikeCase(NamedTuple):
    """Connections, sizes of the neurons, fields of a chip, and a file of constraints."""

    edges: tuple[np.ndarray, np.ndarray]
    sizes: np.ndarray
    fields: dict[str, Any]
    text: str

    @property
    def chip(self) -> Chip:
        return from_fields(self.fields)

    def limit(self, name: str) -> list[int]:
        """Return a limit of each core, table by table and core by core."""
        cores = self.fields["width"] * self.fields["height"]
        found = [self.fields.get(name, 10**9)] * cores
        for table in self.fields["core_limits"]:
            if "cores" in table:
                ids = table["cores"]
            else:
                x0, y0, x1, y1 = table["rectangle"]
                width = self.fields["width"]
                ids = [y * width + x for y in range(y0, y1 + 1) for x in range(x0, x1 + 1)]
            for core in ids:
                found[core] = min(found[core], table.get(name, found[core]))
        return found

    def use(self, core: np.ndarray) -> dict[str, np.ndarray]:
        """Return the use of each core, one synapse after the other."""
        cores = self.fields["width"] * self.fields["height"]
        found = {name: np.zeros(cores, np.int64) for name in LIMITS}
        np.add.at(found["neurons"], core, self.sizes)
        pairs = set()
        for s, t in zip(*(end.tolist() for end in self.edges), strict=True):
            found["synapses"][core[t]] += 1
            pairs.add((s, int(core[t])))
        for s, on in pairs:
            found["axons_in"][on] += 1
            found["axons_out"][core[s]] += on != core[s]
        return found

    def keeps(self, core: np.ndarray) -> bool:
        """Return whether a mapping keeps all limits and constraints."""
        if any(one.fault(core) for one in self.tables()):
            return False
        use = self.use(core)
        return all((use[name] <= self.limit(name)).all() for name in LIMITS)

    def tables(self) -> list[Any]:
        file = ConstraintFile(Path("c.toml"), self.text.encode())
        return constraints_in(file, self.chip, NEURONS, lambda _: None)

    def possible(self) -> bool:
        """Return whether any mapping keeps all limits and constraints."""
        cores = self.fields["width"] * self.fields["height"]
        some = keeping(self.tables(), cores)
        into = np.bincount(self.edges[1], minlength=NEURONS)
        for demand, name in ((self.sizes, "neurons"), (into, "synapses")):
            on = some[:, :, None] == np.arange(cores)
            some = some[((on * demand[:, None]).sum(axis=1) <= self.limit(name)).all(axis=1)]
        if not any(name in self.fields for name in LIMITS[2:]):
            return bool(some.size)
        return any(self.keeps(core) for core in some)


def random_unlike(seed: int, limits: tuple[str, ...] = LIMITS) -> UnlikeCase:
    """Return a network, and a chip with up to three tables that about fit it."""
    rng = np.random.default_rng(seed)
    width, height = ((2, 2), (3, 1), (2, 1), (4, 1))[rng.integers(4)]
    cores = width * height
    sizes = rng.integers(1, 3, NEURONS) if rng.random() < 0.3 else np.ones(NEURONS, np.int64)
    source, target = rng.integers(0, NEURONS, (2, int(rng.integers(6, 24))))
    source, target = np.unique(np.stack([source, target])[:, source != target], axis=1)
    fields: dict[str, Any] = {
        "name": "unlike", "width": width, "height": height,
        "neurons": -(-int(sizes.sum()) // cores) + int(rng.integers(1, 5)),
    }  # fmt: skip
    if rng.random() < 0.4:
        fields["synapses"] = source.size // cores + int(rng.integers(2, 8))
    if rng.random() < 0.2:
        fields["axons_in"] = int(rng.integers(4, 9))
    if rng.random() < 0.2:
        fields["axons_out"] = int(rng.integers(4, 12))
    fields["core_limits"] = []
    for _ in range(rng.integers(1, 4)):
        x, y = (sorted(rng.integers(0, side, 2).tolist()) for side in (width, height))
        own = {name: int(rng.integers(1, fields[name] + 1)) for name in limits if name in fields}
        names = rng.permutation(list(own))[: int(rng.integers(1, len(own) + 1))].tolist()
        some: dict[str, Any] = {"rectangle": [x[0], y[0], x[1], y[1]]}
        if rng.random() < 0.5:
            some = {"cores": sorted({int(c) for c in rng.integers(0, cores, 2)})}
        fields["core_limits"].append(some | {name: own[name] for name in names})
    text = random_text(rng, width, height) if rng.random() < 0.3 else ""
    return UnlikeCase((source, target), sizes, fields, text)


@pytest.mark.jit
@pytest.mark.heavy
@pytest.mark.sample(18)
@pytest.mark.usefixtures("light_placement")
@pytest.mark.parametrize("seed", range(180))
def test_whole_runs_keep_the_limits_of_every_core(seed: int) -> None:
    """All presets and objectives map every network that has a mapping; refusals have none."""
    case, words = random_unlike(seed), RUNS[seed % len(RUNS)]
    chip = case.chip
    if words.get("objective") == "time":
        chip = replace(chip, time=ChipTime())
    try:
        found = mapper.map_network(
            case.edges, chip, neurons=NEURONS, sizes=case.sizes, threads=1, seed=seed,
            constraints=tomllib.loads(case.text) if case.text else None, **words,
        )  # fmt: skip
    except mapper.MapperError:
        assert not case.possible()
    else:
        assert case.keeps(found.core)
        assert case.possible()


def lattice(side: int) -> tuple[np.ndarray, np.ndarray]:
    """Return both directions of the edges between neighbours of a square lattice."""
    at = np.arange(side * side).reshape(side, side)
    ends = [(at[:, :-1], at[:, 1:]), (at[:-1], at[1:])]
    source, target = (np.concatenate([pair[end].ravel() for pair in ends]) for end in (0, 1))
    return np.concatenate([source, target]), np.concatenate([target, source])


@pytest.mark.jit
@pytest.mark.parametrize(("preset", "most"), [("fast", 2.2), ("default", 1.6)])
def test_neighbours_stay_close_on_unlike_cores(preset: str, most: float) -> None:
    """A lattice that fills the chip, of which two rows hold less than half of the others."""
    edges = lattice(60)
    fields = {"name": "mesh", "width": 9, "height": 9, "neurons": 53}
    table = {"rectangle": [0, 3, 8, 4], "neurons": 25}
    plain, unlike = from_fields(fields), from_fields(fields | {"core_limits": [table]})
    hops = {}
    for name, chip in (("plain", plain), ("unlike", unlike)):
        mapping = mapper.map_network(edges, chip, preset=preset, seed=1, threads=1)
        hops[name] = mapping.metrics["hops_total"]
        limits = np.full(81, 53)
        if name == "unlike":
            limits[27:45] = 25
        assert (np.bincount(mapping.core, minlength=81) <= limits).all()
    assert hops["unlike"] <= most * hops["plain"]
