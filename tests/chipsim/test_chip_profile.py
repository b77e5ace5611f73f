"""Traffic by core, by distance and by destination against sums over synapses."""

from __future__ import annotations

from collections import Counter, defaultdict

import numpy as np
import pytest
from hypothesis import given, settings

import chipsim.traffic.profile
from chipsim.chip.model import Chip
from chipsim.traffic.arrays import measure
from chipsim.traffic.profile import DESTINATIONS, destinations_kept
from chipsim.traffic.sweep_kernel import _sort
from tests.chipsim.strategies import Case, cases
from tests.reference import link_traffic, mesh_routes

several = settings(max_examples=150)


def strongest(to: Counter[int], kept: int) -> tuple[list[int], list[int]]:
    """Return targets and weights of a core, padded with -1 and 0."""
    ranked = sorted(to.items(), key=lambda item: (-item[1], item[0]))[:kept]
    more = kept - len(ranked)
    return [t for t, _ in ranked] + [-1] * more, [w for _, w in ranked] + [0] * more


@pytest.mark.heavy
@pytest.mark.sample(0.25)
@several
@given(cases())
def test_profile_matches_sums_over_synapses(case: Case) -> None:
    chip, core = case.chip, case.core
    traffic = measure(chip, case.cores(), case.blocks(), **case.options())
    outgoing, incoming, within, distances = Counter(), Counter(), Counter(), Counter()
    to: dict[int, Counter[int]] = defaultdict(Counter)
    for s, t, w in link_traffic.flows(case.edges, case.undirected):
        a, b = core[s], core[t]
        distances[mesh_routes.distance(chip, a, b)] += w
        if a == b:
            within[a] += w
        else:
            outgoing[a] += w
            incoming[b] += w
            to[a][b] += w
    found, cores = traffic.profile, range(chip.cores)
    assert found.outgoing.tolist() == [outgoing[c] for c in cores]
    assert found.incoming.tolist() == [incoming[c] for c in cores]
    assert found.within.tolist() == [within[c] for c in cores]
    assert found.distances.tolist() == [distances[d] for d in range(sum(chip.routers) - 1)]
    for c in cores:
        targets, shares = strongest(to[c], destinations_kept(chip))
        assert found.destination[c].tolist() == targets
        assert found.share[c].tolist() == shares
    assert found.outgoing.sum() == found.incoming.sum() == traffic.totals.cut
    assert found.distances @ np.arange(found.distances.size) == traffic.totals.hops


def test_only_the_strongest_destinations_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    chip = Chip("line", 6, 1)
    monkeypatch.setattr(chipsim.traffic.profile, "DESTINATIONS", 3 * chip.cores)
    edges = [(0, 1, 4), (0, 2, 9), (0, 3, 4), (0, 4, 9), (0, 5, 5)]
    sizes = np.ones(6, np.int64)
    core = np.arange(6, dtype=np.int32)
    profile = measure(chip, core, link_traffic.blocks_of(edges, 6), sizes=sizes).profile
    assert profile.destination.tolist() == [[2, 4, 5]] + [[-1] * 3] * 5
    assert profile.share.tolist() == [[9, 9, 5]] + [[0] * 3] * 5


@pytest.mark.parametrize(
    ("width", "height", "kept"), [(1, 1, 0), (8, 8, 63), (64, 64, 16), (256, 256, 1), (300, 300, 0)]
)
def test_number_of_destinations_kept(width: int, height: int, kept: int) -> None:
    chip = Chip("any", width, height)
    assert destinations_kept(chip) == kept
    assert kept * chip.cores <= DESTINATIONS


@pytest.mark.parametrize("n", [0, 1, 2, 5, 40, 300])
def test_few_cores_are_sorted(n: int) -> None:
    rng = np.random.default_rng(n)
    values = rng.integers(-50, 50, n + 3)
    expected = [*sorted(values[:n].tolist()), *values[n:].tolist()]
    _sort(values, n)
    assert values.tolist() == expected
