"""The strategy of partitioning depends on time as well as on memory."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from chipsim.chip.model import Chip
from mapper.planning.plan import Plan
from mapper.planning.processor_time import START, processor_seconds
from mapper.planning.strategy import make_plan
from mapper.settings import UNLIMITED, preset
from storage.store.network import NetworkFile
from tests.mapper.helpers import random_network

CHIP = Chip("c", 64, 64, neurons=256)
KINDS = [(10_000, 49, 1.0), (20_000, 30, 1.0), (40_000, 4, 0.13), (70_000, 72, 0.05)]
"""Neurons, synapses per neuron, and stored bytes per synapse relative to a random network."""


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return random_network(tmp_path_factory.mktemp("plan") / "net.bin", 1000, 8000)


class Planned:
    """A network of another size, and its plans."""

    def __init__(self, path: Path, neurons: int, degree: float, density: float = 1.0) -> None:
        self.network = NetworkFile(path)
        synapses = int(neurons * degree)
        self.network.vertices, self.network.connections = neurons, 2 * synapses
        self.network.meta = replace(self.network.meta, total_size=neurons, synapses=synapses)
        self.network.stored_bytes = lambda index=None: int(4 * density * synapses)  # type: ignore[method-assign]

    def plan(self, name: str = "default", **changes: Any) -> tuple[Plan, float]:
        """Return the plan and its seconds."""
        changes = {"memory_bytes": 64 << 30, **changes}
        settings = preset(name, **changes)
        plan = make_plan(self.network, CHIP, settings)
        return plan, sum(processor_seconds(self.network, CHIP, settings, plan).values())


@pytest.mark.parametrize("objective", ["core", "multicast"])
@pytest.mark.parametrize("name", ["fast", "default"])
@pytest.mark.parametrize("kind", KINDS)
def test_nets_take_at_most_twice_the_time_of_unicast(
    kind: tuple[int, int, float], name: str, objective: str, path: Path
) -> None:
    some = Planned(path, *kind)
    usual = some.plan(name, objective="unicast")[1]
    for factor in (1, 2, 5):
        plan, seconds = some.plan(name, objective=objective, net_time=factor)
        if plan.nets_held or plan.nets_after:
            assert seconds <= factor * usual + START + 0.1
            assert 0 < plan.net_work <= 1
    unlimited, _ = some.plan(name, objective=objective, net_time=UNLIMITED)
    assert (unlimited.nets_held, unlimited.brief, unlimited.net_work) == (True, False, 1.0)


def test_more_time_is_used(path: Path) -> None:
    some = Planned(path, *KINDS[1])
    found = [some.plan(objective="multicast", net_time=n)[0] for n in (0, 1, 2, 3, 1000)]
    assert not (found[0].nets_held or found[0].nets_after)
    assert found[-1].nets_held
    assert found[-1].net_work == 1
    ranks = [(plan.nets_held, not plan.brief, plan.net_work) for plan in found[1:]]
    assert ranks[0] < ranks[-1]


def test_small_networks_and_strong_take_any_time(path: Path) -> None:
    for objective in ("core", "multicast"):
        small = Planned(path, 1000, 100).plan(objective=objective, net_time=0)[0]
        assert (small.nets_held, small.brief, small.net_work) == (True, False, 1.0)
        assert not Planned(path, 1000, 101).plan(objective=objective, net_time=0)[0].nets_held
        strong = Planned(path, *KINDS[1]).plan("strong", objective=objective)[0]
        assert (strong.nets_held, strong.brief, strong.net_work) == (True, False, 1.0)


def test_more_memory_takes_no_more_time(path: Path) -> None:
    """The whole microcircuit: nets would fit from 16 GiB on, and take minutes."""
    circuit = Planned(path, 77_169, 3690)
    for objective in ("core", "multicast"):
        found = [circuit.plan(objective=objective, memory_bytes=n << 30)[1] for n in (1, 3, 8, 64)]
        assert max(found) <= 1.1 * found[0]


@pytest.mark.parametrize("objective", ["core", "multicast", "time"])
def test_nets_are_left_out_if_memory_is_short(objective: str, path: Path) -> None:
    """Levels, rows and nets share the memory: a run without nets would fit."""
    some = Planned(path, 400_000, 2)
    held = set()
    for megabytes in range(300, 900, 4):
        plan = some.plan(objective=objective, net_pins=0, memory_bytes=megabytes << 20)[0]
        if not some.plan(objective="unicast", memory_bytes=megabytes << 20)[0].shortage:
            assert not plan.shortage
        held.add(plan.nets_after)
    assert held == {False, True}


def test_regular_networks_are_partitioned_by_nets(path: Path) -> None:
    """Twins (vertices in the same nets) make it fast; the stored bytes indicate them."""
    regular, random = (Planned(path, 70_000, 72, density) for density in (0.05, 1.0))
    assert regular.plan(objective="multicast")[0].nets_held
    assert not random.plan(objective="multicast")[0].nets_held


def test_the_plan_reports_omissions(path: Path) -> None:
    plan = Planned(path, *KINDS[0]).plan(objective="multicast")[0]
    assert plan.brief
    assert plan.strategy.startswith("brief partition by nets in memory; net refinement with ")
    assert replace(plan, net_work=0.25).strategy.endswith("with 25% of its usual work")
