"""Small random chips with mapped networks, for hypothesis and for plain seeds."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from hypothesis import strategies as st

from chipsim.chip.energy import ChipEnergy
from chipsim.chip.machine import Block as Part
from chipsim.chip.machine import Machine, Torus
from chipsim.chip.model import Chip
from chipsim.chip.time import ChipTime
from chipsim.errors import ChipError
from tests.reference.link_traffic import Block, Edge, blocks_of


@dataclass
class Case:
    """A network on a chip, with all arguments of `chipsim.traffic.arrays.measure`."""

    chip: Chip
    core: list[int]
    edges: list[Edge]
    sizes: list[int]
    rates: list[int] | None
    undirected: bool
    cuts: list[int]

    def blocks(self) -> list[Block]:
        return blocks_of(self.edges, len(self.core), self.cuts)

    def options(self) -> dict[str, Any]:
        rates = None if self.rates is None else np.array(self.rates, dtype=np.int64)
        return {
            "sizes": np.array(self.sizes, dtype=np.int64),
            "rates": rates,
            "undirected": self.undirected,
        }

    def cores(self) -> np.ndarray[Any, np.dtype[np.int32]]:
        return np.array(self.core, dtype=np.int32)


@st.composite
def machines(draw: st.DrawFn, width: int, height: int) -> Machine:
    """Draw optional tiles, chips and boards, on a mesh or a torus."""
    costs = st.sampled_from([0, 0.5, 1, 3, 10])
    parts: list[Part | None] = []
    within = 1, 1
    for _ in range(3):
        sides = tuple(
            draw(st.sampled_from([n for n in range(one, whole + 1, one) if whole % n == 0]))
            for one, whole in zip(within, (width, height), strict=True)
        )
        if draw(st.booleans()):
            parts.append(
                Part(
                    *sides,
                    draw(costs),
                    draw(st.sampled_from([1.0, 0.25])),
                    draw(st.sampled_from([None, None, 1, 6])),
                )
            )
            within = sides
        else:
            parts.append(None)
    torus: Torus = draw(st.sampled_from(["", "x", "y", "xy"]))
    if parts[0] is not None:
        parts[0] = replace(parts[0], bandwidth=1.0, latency=None)
    return Machine(width, height, torus, (draw(costs), draw(costs)), *parts)


def energies() -> st.SearchStrategy[ChipEnergy]:
    """Draw tables with some of the energies, at least one."""
    amount = st.none() | st.sampled_from([0.0, 0.5, 3.0])
    unit: st.SearchStrategy[Any] = st.sampled_from(["relative", "pJ"])
    some = st.tuples(amount, amount, amount, amount).filter(lambda parts: parts != (None,) * 4)
    return st.tuples(some, unit).map(lambda drawn: ChipEnergy(*drawn[0], unit=drawn[1]))


@st.composite
def faults(draw: st.DrawFn, chip: Chip) -> Chip:
    """Draw broken links and routers of a chip; usable cores stay connected."""
    wide, tall = (1, 1) if chip.machine is None else chip.machine.tile_size
    torus = "" if chip.machine is None else chip.machine.torus
    pairs = []
    for core in range(chip.cores):
        y, x = divmod(core, chip.width)
        if x + wide < chip.width or ("x" in torus and chip.width > wide):
            pairs.append((core, y * chip.width + (x + wide) % chip.width))
        if y + tall < chip.height or ("y" in torus and chip.height > tall):
            pairs.append((core, (y + tall) % chip.height * chip.width + x))
    links = draw(st.lists(st.sampled_from(pairs), max_size=8)) if pairs else []
    routers = draw(st.lists(st.integers(0, chip.cores - 1), max_size=2))
    found = chip
    for name, core in [("broken_links", link) for link in links] + [
        ("broken_routers", router) for router in routers
    ]:
        try:
            found = replace(found, **{name: (*getattr(found, name), core)})
        except ChipError:  # it would separate cores
            continue
    return found


@st.composite
def cases(draw: st.DrawFn, always: bool = False, faulty: bool = False) -> Case:
    """Draw meshes of 1x1 to 6x5, half of them machines, with up to 14 neurons.

    Isolated neurons and zero weights are common.

    always : True for machines only
    faulty : True for chips with broken links and routers
    """
    width = draw(st.integers(1, 6))
    height = draw(st.integers(1, 5))
    constants = st.sampled_from([0.0, 0.25, 1.0, 3.5])
    cycles = st.sampled_from([0.0, 0.5, 1.0, 3.0])
    time = st.builds(
        ChipTime, *[cycles] * 7, st.sampled_from([1.0, 2.0]), st.sampled_from([1.0, 0.1])
    )
    machine = draw(machines(width, height) if always else st.none() | machines(width, height))
    chip = Chip(
        "random",
        width,
        height,
        machine=machine,
        neurons=draw(st.integers(1, 9)),
        energy_router=draw(constants),
        energy_link=draw(constants | st.tuples(constants, constants)),
        latency_router=draw(constants),
        latency_link=draw(constants | st.tuples(constants, constants)),
        delivery=(delivery := draw(st.sampled_from(["synapse", "core", "tree"]))),
        single_target=delivery == "core" and draw(st.booleans()),
        time=draw(st.none() | time),
        energy_unit=draw(st.sampled_from(["relative", "pJ"])),
        energy=draw(st.none() | energies()),
    )
    if faulty:
        chip = draw(faults(chip))
    n = draw(st.integers(0, 14))
    undirected = draw(st.booleans())
    vertex = st.integers(0, max(n - 1, 0))
    weight = st.one_of(st.integers(0, 4), st.integers(0, 10**6))
    pairs = draw(
        st.dictionaries(st.tuples(vertex, vertex), weight, max_size=30) if n else st.just({})
    )
    links = {(s, t): w for (s, t), w in pairs.items() if s != t}
    if undirected:
        links |= {(t, s): w for (s, t), w in links.items() if s < t or (t, s) not in links}
        links = {(s, t): links[min(s, t), max(s, t)] for s, t in links}

    usable = np.flatnonzero(chip.usable).tolist()

    def per_neuron(high: int) -> st.SearchStrategy[list[int]]:
        return st.lists(st.integers(0, high), min_size=n, max_size=n)

    return Case(
        chip=chip,
        core=draw(st.lists(st.sampled_from(usable), min_size=n, max_size=n)),
        edges=[(s, t, w) for (s, t), w in links.items()],
        sizes=draw(per_neuron(3)),
        rates=draw(st.one_of(st.none(), per_neuron(5))),
        undirected=undirected,
        cuts=draw(st.lists(st.integers(0, n), max_size=3)),
    )
