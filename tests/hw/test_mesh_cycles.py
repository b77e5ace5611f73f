# amaranth: UnusedElaboratable=no
"""The mesh delivers every packet in exactly the same cycle as the reference implementation."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import pytest

from hw.errors import HwError
from hw.noc.mesh import MAX_ELABORATED, Mesh
from hw.noc.packet import Packet as Packets
from hw.noc.router import Router
from tests.chipsim.noc_scenarios import SCENARIOS, random_traffic
from tests.hw.bench import deliveries
from tests.hw.mutants import GreedyArbiter
from tests.reference.noc import simulate


@pytest.mark.heavy
@pytest.mark.sample(1)
@pytest.mark.parametrize("name", SCENARIOS)
def test_every_delivery_matches_reference(name: str, tmp_path: Path) -> None:
    given = SCENARIOS[name]
    bits = max(1, len(given.packets).bit_length())
    mesh = Mesh(given.width, given.height, axon_bits=bits, depth=given.depth)
    expected = simulate(given.width, given.height, given.depth, given.packets)
    deliveries(mesh, given.packets, expected, tmp_path)


@pytest.mark.heavy
@pytest.mark.sample(0.25)
def test_unloaded_latency_is_hops_plus_one_for_all_pairs(tmp_path: Path) -> None:
    """t_fixed = 1 and t_hop = 1: one packet at a time, each after the last one has arrived."""
    packets, expected, cycle = [], [], 0
    for source, target in product(range(9), repeat=2):
        hops = abs(source % 3 - target % 3) + abs(source // 3 - target // 3)
        packets.append((cycle, source, target))
        expected.append(cycle + hops + 1)
        cycle += hops + 2
    deliveries(Mesh(3, 3), packets, expected, tmp_path)
    assert simulate(3, 3, 4, packets) == expected


@pytest.mark.heavy
def test_a_failure_names_a_waveform(tmp_path: Path) -> None:
    with pytest.raises(pytest.fail.Exception, match=r"packet 0 .*cycle 2, not 3\nwaveform: .*vcd"):
        deliveries(Mesh(1, 2), [(0, 0, 1)], [3], tmp_path)
    assert "router_0_1" in (tmp_path / "failure.vcd").read_text()


def test_success_writes_no_waveform(tmp_path: Path) -> None:
    deliveries(Mesh(1, 2), [(0, 0, 1)], [2], tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.heavy
@pytest.mark.sample(0.5)
def test_the_comparison_detects_an_unfair_arbiter(tmp_path: Path) -> None:
    def router(layout: Packets, depth: int) -> Router:
        return Router(layout, depth, arbiter=GreedyArbiter)

    packets = random_traffic(4, 0.9, 30, seed=1)
    mesh = Mesh(2, 2, depth=2, router=router)
    with pytest.raises(pytest.fail.Exception, match="cycle"):
        deliveries(mesh, packets, simulate(2, 2, 2, packets), tmp_path)


@pytest.mark.heavy
@pytest.mark.sample(0.5)
def test_a_destination_outside_the_mesh_is_detected_at_the_border(tmp_path: Path) -> None:
    with pytest.raises(pytest.fail.Exception, match="router 2,0 sends east, out of the mesh"):
        deliveries(Mesh(3, 1), [(0, 0, 3)], [9], tmp_path, columns=4)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"width": 0}, "mesh: width is 0; give a whole number from 1 to 256"),
        ({"height": 257}, "mesh: height is 257; give a whole number from 1 to 256"),
        ({"width": 2.0}, r"mesh: width is 2\.0; give"),
        ({"depth": 0}, "mesh: depth is 0; give a whole number from 1 to 1024"),
        ({"axon_bits": 33}, "packet: axon_bits is 33; give a whole number from 1 to 32"),
    ],
)
def test_bad_parameters_are_named(arguments: dict[str, object], message: str) -> None:
    with pytest.raises(HwError, match=message):
        Mesh(**({"width": 2, "height": 2} | arguments))


def test_a_mesh_that_takes_too_long_is_refused_before_it_is_elaborated() -> None:
    mesh = Mesh(17, 16)
    assert mesh.nodes > MAX_ELABORATED
    with pytest.raises(HwError, match="17x16 would take too long; simulate at most 256 routers"):
        mesh.elaborate(None)
