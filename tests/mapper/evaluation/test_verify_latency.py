"""Routers and latency recomputed by `mapper verify`, against the metrics of chipsim."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chipsim.chip.time import ChipTime
from chipsim.traffic.arrays import measure
from chipsim.traffic.latency import mapped_latency
from mapper.evaluation.verify_latency import Routers, Steps, latency
from mapper.evaluation.verify_machine import MachineLayout
from tests.chipsim.measured import score
from tests.chipsim.strategies import Case, cases
from tests.reference import link_traffic, mesh_routes


@pytest.mark.heavy
@pytest.mark.sample(0.25)
@settings(max_examples=300)
@given(cases(), st.sampled_from([0.03, 0.3, 1.0]))
def test_routers_and_latency(case: Case, tick: float) -> None:
    chip = replace(case.chip, time=ChipTime(tick=tick))
    assert chip.time is not None
    layout = MachineLayout.of(chip.to_json())
    core = np.array(case.core, np.int64)
    rates = case.rates or [1 + v % 4 for v in range(core.size)]
    edges = [(s, t, w % 7) for s, t, w in case.edges]
    blocks = link_traffic.blocks_of(edges, core.size)
    options = {**case.options(), "rates": np.array(rates, np.int64)}

    def steps(pairs: list[tuple[int, int]]) -> Steps:
        """Return steps between routers, numbered row by row."""
        ways = [mesh_routes.ways(chip, a, b) for a, b in pairs]
        places = [[mesh_routes.place(chip, end) for end in pair] for pair in pairs]
        number = [[y * chip.routers[0] + x for x, y in ends] for ends in places]
        columns = np.array([(*n, *w) for n, w in zip(number, ways, strict=True)], np.int64)
        a, b, dx, dy = columns.reshape(-1, 4).T
        return a, b, dx, dy

    through = {way: Routers(*chip.routers) for way in ("synapse", "core", "tree")}
    unicast: Counter[tuple[int, int]] = Counter()
    for s, t, w in link_traffic.flows(edges, case.undirected):
        if core[s] != core[t]:
            unicast[case.core[s], case.core[t]] += w
    through["synapse"].add(*steps(list(unicast)), np.array(list(unicast.values()), np.int64))
    reached = sorted({(s, case.core[t]) for s, t, _ in edges if core[s] != core[t]})
    rate = np.array([rates[s] for s, _ in reached], np.int64)
    casts = steps([(case.core[s], c) for s, c in reached])
    through["core"].add(*casts, rate)
    through["tree"].add_trees(np.array([s for s, _ in reached], np.int64), *casts, rate)

    metrics = score(chip, case.cores(), blocks, **options)
    traffic = measure(chip, case.cores(), blocks, **options)
    links = {
        "synapse": traffic.unicast_links,
        "core": traffic.core_links,
        "tree": traffic.multicast_links,
    }
    for way, part in (
        ("synapse", metrics),
        ("core", metrics["core"]),
        ("tree", metrics["multicast"]),
    ):
        found = through[way].loads("router_load", links[way], 1.0)
        assert found == {name: part[name] for name in found}
    cycles = metrics["tick_cycles"]
    stated = mapped_latency(chip, traffic, chip.time, cycles)
    shared = chip.routers != (chip.width, chip.height)
    assert (stated is None) == (shared and chip.delivery == "tree")
    if stated is None:
        return
    ends = "synapse" if chip.delivery == "synapse" else "core"
    senders = np.zeros(chip.cores, np.int64)
    if ends == "synapse":
        for (a, _), w in unicast.items():
            senders[a] += w
    else:
        for (s, _), n in zip(reached, rate, strict=True):
            senders[core[s]] += n
    routers = steps([(c, c) for c in range(chip.cores)])[0]
    service = np.ones(links[ends].shape)
    hops = service.copy()
    if layout is not None:
        service /= layout.bandwidths()
        hops = layout.hop_cycles(1.0)
    recomputed = latency(
        through[chip.delivery].ways(links[chip.delivery], through[ends]),
        through[ends].ways(links[ends], through[ends]),
        tick / cycles, service, hops, (routers, senders),
    )  # fmt: skip
    expected = {f"noc_latency.{name}": value for name, value in stated.to_json().items()}
    assert recomputed.pop("noc_latency.advice", None) == expected.pop("noc_latency.advice", None)
    assert recomputed == pytest.approx(expected, rel=1e-9)
