"""Metrics of machines recomputed independently by `mapper verify`, against chipsim."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings

from chipsim.chip.faults import working_links
from chipsim.traffic.arrays import measure
from mapper.evaluation.verify_machine import DistanceCosts, MachineLayout, WalkedLinks
from mapper.evaluation.verify_traffic import Flows
from tests.chipsim.measured import score
from tests.chipsim.strategies import Case, cases
from tests.reference import link_traffic


@pytest.mark.heavy
@pytest.mark.sample(0.25)
@settings(max_examples=300)
@given(cases(always=True))
def test_metrics_of_machines(case: Case) -> None:
    chip = case.chip
    layout = MachineLayout.of(chip.to_json())
    if chip.machine is None:  # the report has no machine
        assert layout is None
        return
    assert layout is not None
    links, casts, trees = routes = tuple(WalkedLinks(layout) for _ in range(3))
    costs, flows = DistanceCosts(layout), Flows(*layout.routers)
    core = np.array(case.core, np.int64)
    sent = link_traffic.flows(case.edges, case.undirected)
    source, target, weight = np.array(sent, np.int64).reshape(-1, 3).T
    a, b = core[source], core[target]
    links.add(a, b, weight)
    costs.add(a, b, weight)
    flows.add(layout.router(a), layout.router(b), weight, a != b)
    largest: Counter[int] = Counter()
    for s, _, w in case.edges:
        largest[s] = max(largest[s], w)
    rates = np.array(case.rates or [largest[v] for v in range(core.size)], np.int64)
    pairs = {(s, case.core[t]) for s, t, _ in case.edges if case.core[s] != case.core[t]}
    owner, reached = np.array(sorted(pairs), np.int64).reshape(-1, 2).T
    casts.add(core[owner], reached, rates[owner])
    costs.add_casts(core[owner], reached, rates[owner])
    trees.add_trees(core, owner, reached, rates)

    found = costs.metrics(routes, int(weight.sum()), 1.0, 1.0)
    stated = score(chip, case.cores(), case.blocks(), **case.options())
    of_machine = {
        f"{part}.{name}": value
        for part in ("machine", "core", "multicast")
        for name, value in stated[part].items()
        if part == "machine" or "cross" in name or "cost" in name
    }
    assert set(found) == set(of_machine)
    for name, value in of_machine.items():
        assert found[name] == pytest.approx(value, rel=1e-12), name
    traffic = measure(chip, case.cores(), case.blocks(), **case.options())
    for one, loads in zip(
        routes, (traffic.unicast_links, traffic.core_links, traffic.multicast_links), strict=True
    ):
        expected = loads[working_links(chip)]
        assert sorted(one.loads().tolist()) == sorted(expected.tolist())
    steps = np.abs(np.array(layout.ways(a, b)))
    assert int((steps * weight).sum()) == stated["hops_total"]
    if not layout.torus:
        routers = flows.router_loads()
        assert routers is not None
        np.testing.assert_allclose(routers, traffic.congestion.ravel(), rtol=1e-9, atol=1e-12)
