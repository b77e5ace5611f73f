# amaranth: UnusedElaboratable=no
"""The router on its own: every route, and the guarantees of its streams."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from amaranth.hdl import unsigned

from hw.errors import HwError
from hw.noc.packet import coordinate_bits, packet_layout
from hw.noc.router import LEGS, LOCAL, PORTS, Router
from tests.hw.bench import joined, simulate
from tests.reference.noc import route

SIDE = 4


def comes(port: int, at: tuple[int, int], to: tuple[int, int]) -> bool:
    """Return whether an XY-routed packet reaches a router by this input."""
    (x, y), (to_x, to_y) = at, to
    return {
        "north": to_x == x and to_y >= y, "south": to_x == x and to_y <= y,
        "east": to_x <= x, "west": to_x >= x, "local": True,
    }[PORTS[port]]  # fmt: skip


def test_seventeen_legs() -> None:
    """Exactly the paths by which packets pass a router of a mesh."""
    pairs = {
        (port, route(x, y, *to))
        for x, y, *to in product(range(SIDE), repeat=4)
        for port in range(len(PORTS))
        if comes(port, (x, y), (to[0], to[1]))
    }
    assert pairs == {(port, output) for output, legs in enumerate(LEGS) for port in legs}
    assert len(pairs) == 17


@pytest.mark.parametrize("port", [0, 3])
def test_a_packet_that_turns_back_is_seen(port: int, tmp_path: Path) -> None:
    router = Router(packet_layout(2, 2, 2))

    async def bench(ctx: Any) -> None:
        ctx.set(router.x, 1)
        ctx.set(router.y, 1)
        ctx.set(router.inputs[port].payload, {"x": 0, "y": 0, "axon": 0})
        ctx.set(router.inputs[port].valid, 1)
        for _ in range(3):
            await ctx.tick()

    with pytest.raises(pytest.fail.Exception, match=f"router: {PORTS[port]} packet turns back, or"):
        simulate(router, bench, tmp_path)


@pytest.mark.heavy
def test_every_route_of_4x4_from_every_input(tmp_path: Path) -> None:
    """All positions, inputs and destinations that occur in a mesh, each on its own."""
    router = Router(packet_layout(2, 2, 2))
    valid = joined(stream.valid for stream in router.outputs)

    async def bench(ctx: Any) -> None:
        for stream in router.outputs:
            ctx.set(stream.ready, 1)
        for x, y in product(range(SIDE), repeat=2):
            ctx.set(router.x, x)
            ctx.set(router.y, y)
            for port, to_x, to_y in product(range(len(PORTS)), range(SIDE), range(SIDE)):
                if not comes(port, (x, y), (to_x, to_y)):
                    continue
                packet = {"x": to_x, "y": to_y, "axon": port % 4}
                stream = router.inputs[port]
                ctx.set(stream.payload, packet)
                ctx.set(stream.valid, 1)
                await ctx.tick()
                ctx.set(stream.valid, 0)
                expected = route(x, y, to_x, to_y)
                case = f"at {x},{y} from {PORTS[port]} to {to_x},{to_y}"
                assert ctx.get(valid) == 1 << expected, case
                found = ctx.get(router.outputs[expected].payload)
                assert found == router.layout.const(packet), case
                await ctx.tick()
            assert ctx.get(valid) == 0

    simulate(router, bench, tmp_path)


def scenario(depth: int, seed: int, path: Path) -> None:
    """Random packets into all inputs, random receivers: order, stability, nothing lost or added."""
    router = Router(packet_layout(2, 2, 8), depth)
    ready_in = joined(stream.ready for stream in router.inputs)
    places = [
        [to for to in product(range(SIDE), repeat=2) if comes(port, (1, 2), to)]
        for port in range(len(PORTS))
    ]

    async def bench(ctx: Any) -> None:
        rng = np.random.default_rng(seed)  # here, so that a repeated run is the same
        ctx.set(router.x, 1)
        ctx.set(router.y, 2)
        inside: dict[tuple[int, int], list[int]] = {}
        offers: list[tuple[int, int, int] | None] = [None] * len(PORTS)
        number, passed, waits = 0, 0, {}
        for cycle in range(300):
            for port, stream in enumerate(router.inputs):
                if cycle < 250 and offers[port] is None and rng.random() < 0.7:
                    to_x, to_y = places[port][rng.integers(len(places[port]))]
                    offers[port] = (to_x, to_y, number % 256)
                    number += 1
                    ctx.set(stream.payload, {"x": to_x, "y": to_y, "axon": offers[port][2]})
                ctx.set(stream.valid, offers[port] is not None)
            takes = rng.random(len(PORTS)) < (0.6 if cycle < 250 else 1.0)
            for stream, take in zip(router.outputs, takes, strict=True):
                ctx.set(stream.ready, bool(take))
            offered = [
                ctx.get(s.payload).as_bits() if ctx.get(s.valid) else None for s in router.outputs
            ]
            accepted = ctx.get(ready_in)
            for port, bits in waits.items():
                assert offered[port] == bits, f"cycle {cycle}: {PORTS[port]} is not stable"
            waits = {p: b for p, b in enumerate(offered) if b is not None and not takes[p]}
            for port, bits in enumerate(offered):
                if bits is not None and takes[port]:
                    axon = bits >> 4
                    flows = [f for f, q in inside.items() if f[1] == port and q[:1] == [axon]]
                    assert flows, f"cycle {cycle}: {axon} leaves {PORTS[port]} out of order"
                    inside[flows[0]].pop(0)
                    passed += 1
            for port, offer in enumerate(offers):
                if offer is not None and accepted >> port & 1:
                    inside.setdefault((port, route(1, 2, *offer[:2])), []).append(offer[2])
                    offers[port] = None
            await ctx.tick()
        assert passed == number > 250, (passed, number)

    simulate(router, bench, path)


@pytest.mark.sample(2)
@pytest.mark.parametrize("depth", [1, 2, 4])
def test_random_packets_and_receivers(depth: int, tmp_path: Path) -> None:
    scenario(depth, seed=depth, path=tmp_path)


def test_no_stream_waits_for_another_in_the_same_cycle(tmp_path: Path) -> None:
    """Inputs are ready, and outputs valid, independent of the other side."""
    router = Router(packet_layout(2, 2, 2), depth=1)

    async def bench(ctx: Any) -> None:
        assert all(ctx.get(stream.ready) for stream in router.inputs)
        ctx.set(router.local_in.valid, 1)  # to 0,0: the own core
        await ctx.tick()
        for take in (0, 1, 0):
            ctx.set(router.local_out.ready, take)
            assert ctx.get(router.outputs[LOCAL].valid)
            assert not ctx.get(router.local_in.ready)

    simulate(router, bench, tmp_path)


def test_bad_parameters_are_named() -> None:
    with pytest.raises(HwError, match=r"router: layout is unsigned\(8\); create one with packet_"):
        Router(unsigned(8))  # type: ignore[arg-type]
    with pytest.raises(HwError, match="router: depth is 0; give a whole number from 1 to 1024"):
        Router(packet_layout(1, 1, 1), 0)
    for name, widths in (("x", (0, 1, 1)), ("y", (1, 33, 1)), ("axon", (1, 1, -1))):
        with pytest.raises(HwError, match=f"packet: {name}_bits is .*whole number from 1 to 32"):
            packet_layout(*widths)


@pytest.mark.parametrize(("side", "bits"), [(1, 1), (2, 1), (3, 2), (4, 2), (5, 3), (256, 8)])
def test_bits_of_a_coordinate(side: int, bits: int) -> None:
    assert coordinate_bits(side) == bits


def test_equal_widths_make_equal_layouts() -> None:
    assert packet_layout(2, 3, 4) == packet_layout(2, 3, 4) != packet_layout(3, 2, 4)
    assert packet_layout(2, 3, 4).const({"x": 1, "y": 5, "axon": 9}).as_bits() == 0b1001_101_01
