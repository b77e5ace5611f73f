"""Test benches: drive and observe streams cycle by cycle, with waveforms of failures."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest
from amaranth.hdl import Cat, Value
from amaranth.sim import Simulator

from hw.noc.mesh import Mesh
from tests.reference.noc import Packet

Bench = Callable[[Any], Any]


def simulate(design: Any, bench: Bench, waveform: Path) -> None:
    """Run a design with a test bench; after a failure, run it again to write a waveform.

    The failure then names the file. Writing waveforms takes longer than the rest of the run.
    """
    try:
        _run(design, bench)
    except AssertionError as error:
        path = waveform / "failure.vcd"
        try:
            _run(design, bench, path)
        except AssertionError:
            pytest.fail(f"{error}\nwaveform: {path}")
        raise


def _run(design: Any, bench: Bench, path: Path | None = None) -> None:
    simulator = Simulator(design)
    simulator.add_clock(1e-6)
    simulator.add_testbench(bench)
    if path is None:
        simulator.run()
    else:
        with simulator.write_vcd(str(path)):
            simulator.run()


def joined(values: Iterable[Any]) -> Value:
    """Return many signals as one value: reading one is much faster than reading each."""
    return Cat(Value.cast(value) for value in values)


def deliveries(
    mesh: Mesh,
    packets: Sequence[Packet],
    expected: Sequence[int],
    waveform: Path,
    columns: int | None = None,
) -> None:
    """Inject packets into a mesh whose cores accept everything; check the delivery cycle of each.

    A packet's number is its axon. ``columns`` gives the destinations the width of another mesh.
    Fails at the first difference, and if anything is delivered twice, at another node, or after the
    last packet.
    """
    valid_in = joined(stream.valid for stream in mesh.local_in)
    payload_in = joined(stream.payload for stream in mesh.local_in)
    ready_in = joined(stream.ready for stream in mesh.local_in)
    out = joined(x for stream in mesh.local_out for x in (stream.valid, stream.payload))
    size = mesh.layout.size
    assert len(packets) <= 2**mesh.layout.axon_bits

    async def bench(ctx: Any) -> None:
        order = sorted(range(len(packets)), key=lambda i: packets[i][0])
        waiting = [[i for i in order if packets[i][1] == n] for n in range(mesh.nodes)]
        delivered: dict[int, int] = {}
        for stream in mesh.local_out:
            ctx.set(stream.ready, 1)
        for cycle in range(max(expected, default=0) + 5):
            valid = payload = 0
            for node, queue in enumerate(waiting):
                if queue and packets[queue[0]][0] <= cycle:
                    y, x = divmod(packets[queue[0]][2], columns or mesh.width)
                    fields = mesh.layout.const({"x": x, "y": y, "axon": queue[0]})
                    valid |= 1 << node
                    payload |= fields.as_bits() << (node * size)
            ctx.set(valid_in, valid)
            ctx.set(payload_in, payload)
            *_, ready, found = await ctx.tick().sample(ready_in, out)
            for node, queue in enumerate(waiting):
                if (valid & ready) >> node & 1:
                    queue.pop(0)
                bits = found >> (node * (size + 1))
                if bits & 1:
                    got = mesh.layout.from_bits(bits >> 1 & 2**size - 1).axon
                    assert got not in delivered, f"cycle {cycle}: packet {got} twice"
                    assert got < len(packets) and packets[got][2] == node, (cycle, got, node)
                    delivered[got] = cycle
                    assert expected[got] == cycle, (
                        f"packet {got} {packets[got]}: cycle {cycle}, not {expected[got]}"
                    )
        assert len(delivered) == len(packets), f"{len(packets) - len(delivered)} lost"

    simulate(mesh, bench, waveform)
