"""Least fill of cores, and neurons spread over all cores, against an exhaustive search."""

from __future__ import annotations

import math
import tomllib
from dataclasses import replace
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
import pytest

import mapper
from chipsim.chip.time import ChipTime
from mapper.errors import DoesNotFitError
from mapper.limits.constraints import Constraint
from tests.mapper.limits.test_small_networks import NEURONS, RUNS, keeping
from tests.mapper.limits.test_unlike_cores import LIMITS, UnlikeCase, random_unlike

FILL = Fraction("0.97")  # of the limits that `spread` lowers


class FillCase(NamedTuple):
    """A network and a chip, the least share, and whether all cores are to be used."""

    case: UnlikeCase
    share: str
    spread: bool

    @property
    def cores(self) -> int:
        return int(self.case.fields["width"] * self.case.fields["height"])

    def least(self) -> list[int]:
        return [max(1, math.ceil(Fraction(self.share) * n)) for n in self.case.limit("neurons")]

    def most(self) -> list[int]:
        """Return the most neurons of each core: the limit that `spread` leaves."""
        own = self.case.limit("neurons")
        if not self.spread:
            return own
        total = int(self.case.sizes.sum())
        share = Fraction(total, sum(own)) / FILL
        return [min(n, max(math.ceil(n * share), self.largest())) for n in own]

    def largest(self) -> int:
        """Return the largest size of neurons that move as one."""
        label = list(range(NEURONS))
        pinned: dict[int, int] = {}
        for one in self.case.tables():
            if not isinstance(one, Constraint):
                continue
            same = {label[v] for v in one.neurons.tolist()}
            if one.core is not None:
                same.add(pinned.setdefault(one.core, label[int(one.neurons[0])]))
                same = {label[v] for v in range(NEURONS) if label[v] in same} | same
                pinned[one.core] = min(same)
            label = [min(same) if mine in same else mine for mine in label]
            pinned = {core: min(same) if at in same else at for core, at in pinned.items()}
        sums = np.bincount(label, self.case.sizes, NEURONS)
        return int(sums.max())

    def mappings(self) -> np.ndarray:
        """Return all mappings within the bounds and the additive limits, (mappings, neurons)."""
        some = keeping(self.case.tables(), self.cores)
        into = np.bincount(self.case.edges[1], minlength=NEURONS)
        on = some[:, :, None] == np.arange(self.cores)
        held = (on * self.case.sizes[:, None]).sum(axis=1)
        fits = (held <= self.most()).all(axis=1)
        fits &= ((held == 0) | (held >= self.least())).all(axis=1)
        fits &= ((on * into[:, None]).sum(axis=1) <= self.case.limit("synapses")).all(axis=1)
        some = some[fits]
        if any(name in self.case.fields for name in LIMITS[2:]):
            some = some[[self.case.keeps(core) for core in some]]
        return some

    def keeps(self, core: np.ndarray) -> bool:
        held = np.bincount(core, self.case.sizes, self.cores)
        used = np.bincount(core, minlength=self.cores) > 0
        within = (held <= self.most()).all() and (held[used] >= np.array(self.least())[used]).all()
        return bool(within) and self.case.keeps(core)


def random_fill(seed: int) -> FillCase:
    rng = np.random.default_rng([seed, 5])
    case = random_unlike(seed)
    if rng.random() < 0.5:
        case.fields["core_limits"] = []
    share = ("0", "0.3", "0.5", "0.7", "0.9", "1")[rng.integers(6)]
    return FillCase(case, share, share == "0" or bool(rng.random() < 0.3))


@pytest.mark.jit
@pytest.mark.heavy
@pytest.mark.sample(18)
@pytest.mark.usefixtures("light_placement")
@pytest.mark.parametrize("seed", range(180))
def test_whole_runs_keep_the_fill_of_every_core(seed: int) -> None:
    """All presets and objectives map every network that has a mapping; refusals have none."""
    one, words = random_fill(seed), RUNS[seed % len(RUNS)]
    case, chip = one.case, one.case.chip
    if words.get("objective") == "time":
        chip = replace(chip, time=ChipTime())
    given: dict[str, Any] = words | {"min_fill": float(one.share)}
    if one.spread:
        given["spread"] = "yes"
    try:
        found = mapper.map_network(
            case.edges, chip, neurons=NEURONS, sizes=case.sizes, threads=1, seed=seed,
            constraints=tomllib.loads(case.text) if case.text else None, **given,
        )  # fmt: skip
    except mapper.MapperError:
        assert not one.mappings().size
        return
    assert one.keeps(found.core)
    if one.spread and np.unique(found.core).size < one.cores:
        every = np.sort(one.mappings(), axis=1)
        assert (np.diff(every, axis=1) > 0).sum(axis=1).max() + 1 < one.cores


def reachable(sizes: list[int], cores: int, most: int, least: int) -> bool:
    """Return whether neurons of these sizes can be divided among equal cores, by sets of loads."""
    loads = {(0,) * cores}
    for size in sizes:
        loads = {
            tuple(sorted([*one[:k], one[k] + size, *one[k + 1 :]]))
            for one in loads
            for k in range(cores)
            if one[k] + size <= most
        }
    return any(all(held == 0 or held >= least for held in one) for one in loads)


@pytest.mark.jit
@pytest.mark.heavy
@pytest.mark.sample(8)
@pytest.mark.usefixtures("light_placement")
@pytest.mark.parametrize("seed", range(60))
def test_six_cores_and_many_sizes(seed: int) -> None:
    rng = np.random.default_rng([seed, 6])
    sizes = rng.integers(1, 6, NEURONS)
    most = int(rng.integers(sizes.max(), sizes.sum()))
    share = float(rng.choice([0.5, 0.8, 0.9, 1.0]))
    source = rng.integers(0, NEURONS, 20)
    edges = source, (source + rng.integers(1, NEURONS, 20)) % NEURONS
    least = math.ceil(Fraction(repr(share)) * most)
    possible = reachable(sizes.tolist(), 6, most, least)
    words = RUNS[int(rng.integers(7))]
    try:
        found = mapper.map_network(
            edges, (3, 2), neurons=NEURONS, sizes=sizes, neurons_per_core=most, threads=1,
            min_fill=share, **words,
        )  # fmt: skip
    except DoesNotFitError:
        assert not possible
        return
    held = np.bincount(found.core, sizes, 6)
    assert ((held == 0) | ((held >= least) & (held <= most))).all()


@pytest.mark.jit
@pytest.mark.heavy
@pytest.mark.sample(0.15)
@pytest.mark.parametrize("words", RUNS[:8], ids=lambda words: "-".join(map(str, words.values())))
@pytest.mark.parametrize("limits", [{}, {"synapses_per_core": 700}, {"axons_per_core": 420}])
def test_cores_of_larger_networks(words: dict[str, Any], limits: dict[str, int]) -> None:
    """Sizes 1 to 3: cores in use are full to 90 %; spread uses all cores, each within its limit."""
    rng = np.random.default_rng(1)
    source, target = rng.integers(0, 600, (2, 4000))
    edges = source[source != target], target[source != target]
    sizes = rng.integers(1, 4, 600)
    chip = mapper.Chip("c", 5, 4, neurons=138, time=ChipTime())
    given: dict[str, Any] = {"neurons": 600, "sizes": sizes, "threads": 1, **words, **limits}
    found = mapper.map_network(edges, chip, min_fill=0.9, **given)
    held = np.bincount(found.core, sizes, 20)
    assert held[held > 0].min() >= 125
    found = mapper.map_network(edges, chip, spread="yes", **given)
    held = np.bincount(found.core, sizes, 20)
    assert held.min() > 0
    assert held.max() <= math.ceil(Fraction(int(sizes.sum()), 20) / FILL)
