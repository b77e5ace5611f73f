"""Router of the mesh: five ports, XY routing, a buffer at each input, an arbiter at each output.

Ports (north, east, south, west and local, always counted in this order)
    ``x``, ``y``       In           position: columns count to the east, rows to the south. Inputs,
    so that all routers share one module; constant after reset.
    ``<port>_in``      In, stream   packets from the neighbour, or from the core (local)
    ``<port>_out``     Out, stream  packets to the neighbour, or to the core

Routing
    Along the row first: a packet for x' > x leaves east, x' < x west; in its column a packet for y'
    > y leaves south, y' < y north; at its destination it leaves at the local port. A packet to the
    own core takes the same way. A packet never turns back, nor from a column into a row: without
    such turns the waits between buffers are acyclic, so the mesh cannot deadlock (Dally and Seitz
    1987). So only 17 of the 25 paths from an input to an output are built (`LEGS`); a packet that
    would need another path must not be sent.

Timing
    A packet accepted in cycle t by an empty buffer is offered at its output in cycle t + 1: one
    cycle per hop. ``ready`` of an input depends on registers only; ``valid`` and ``payload`` of an
    output depend on registers and on x and y; there is no combinational path between streams, so
    routers may be wired in any way. An output passes a packet in every cycle (with depth >= 2).
    Each input offers only its oldest packet: a packet that cannot leave blocks the following ones.

Fairness
    Round robin at each output, among its legs: a packet at the head of its buffer waits for at most
    four others at the local output, and for at most three or one at the other outputs.

State
    The state of five `hw.noc.buffer.Buffer` of ``depth`` packets and of five
    `hw.noc.arbiter.Arbiter`, with 2, 4, and 5 inputs.
"""

from __future__ import annotations

from functools import reduce
from operator import or_
from typing import Any

from amaranth.hdl import Assert, Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from hw.errors import HwError
from hw.flow.sharing import shared
from hw.noc.arbiter import Arbiter
from hw.noc.buffer import Buffer, check_depth
from hw.noc.packet import Flit

PORTS = ("north", "east", "south", "west", "local")
NORTH, EAST, SOUTH, WEST, LOCAL = range(5)
ROW, COLUMN = (EAST, WEST), (NORTH, SOUTH)
LEGS = tuple(
    tuple(
        source
        for source in range(len(PORTS))
        if source == LOCAL or (source != output and not (source in COLUMN and output in ROW))
    )
    for output in range(len(PORTS))
)
"""Inputs from which packets reach each output, in the order of `PORTS`."""


class Router(wiring.Component):
    """Router for packets of ``layout``, with ``depth`` packets in the buffer of each input.

    arbiter, buffer : classes of the parts, to be replaced by others with the same ports

    Raises `HwError` if the layout is not a `Flit` or the depth is not 1 to 1024.
    """

    module_name = "router"

    def __init__(
        self,
        layout: Flit,
        depth: int = 4,
        *,
        arbiter: type[Arbiter] = Arbiter,
        buffer: type[Buffer] = Buffer,
    ) -> None:
        if not isinstance(layout, Flit):
            raise HwError(f"router: layout is {layout!r}; create one with packet_layout()")
        self.layout = layout
        self.depth = check_depth("router", depth)
        self.make_arbiter, self.make_buffer = arbiter, buffer
        members: dict[str, Any] = {"x": In(layout.x_bits), "y": In(layout.y_bits)}
        for name in PORTS:
            members[f"{name}_in"] = In(stream.Signature(layout))
            members[f"{name}_out"] = Out(stream.Signature(layout))
        super().__init__(members)

    @property
    def module_parameters(self) -> tuple[Any, ...]:
        """Key of the shared module."""
        return (self.layout, self.depth, self.make_arbiter, self.make_buffer)

    @property
    def inputs(self) -> list[Any]:
        """The five input streams in the order of `PORTS`."""
        return [getattr(self, f"{name}_in") for name in PORTS]

    @property
    def outputs(self) -> list[Any]:
        """The five output streams in the order of `PORTS`."""
        return [getattr(self, f"{name}_out") for name in PORTS]

    @shared
    def elaborate(self, platform: Any) -> Module:
        m = Module()
        buffers = [self.make_buffer(self.layout, self.depth) for _ in PORTS]
        wanted: list[dict[int, Value]] = []  # by input: outputs that its oldest packet requests
        for port, (name, source, buffer) in enumerate(
            zip(PORTS, self.inputs, buffers, strict=True)
        ):
            m.submodules[f"{name}_buffer"] = buffer
            wiring.connect(m, wiring.flipped(source), buffer.i)
            ways = _ways(port, buffer.o.payload, self.x, self.y)
            wants = Signal(len(ways), name=f"{name}_wants")
            m.d.comb += wants.eq(Mux(buffer.o.valid, Cat(ways.values()), 0))
            wanted.append(dict(zip(ways, wants, strict=True)))
            right = route(buffer.o.payload, self.x, self.y) == sum(
                way << output for output, way in ways.items()
            )
            m.d.sync += Assert(
                ~buffer.o.valid | right,
                f"router: {name} packet turns back, or from a column into a row",
            )
        takers: list[list[Value]] = [[] for _ in PORTS]  # by input: outputs that pass its packet
        for output, (name, sink) in enumerate(zip(PORTS, self.outputs, strict=True)):
            legs = LEGS[output]
            m.submodules[f"{name}_arbiter"] = arbiter = self.make_arbiter(len(legs))
            m.d.comb += [
                arbiter.requests.eq(Cat(wanted[source][output] for source in legs)),
                arbiter.ready.eq(sink.ready),
                sink.valid.eq(arbiter.requests.any()),
                sink.payload.eq(
                    _merge(arbiter.grants, [buffers[source].o.payload for source in legs])
                ),
            ]
            for source, grant in zip(legs, arbiter.grants, strict=True):
                takers[source].append(sink.ready & grant)
            _check_stable(m, name, sink)
        for name, buffer, outputs in zip(PORTS, buffers, takers, strict=True):
            taken = Cat(outputs)
            m.d.comb += buffer.o.ready.eq(taken.any())
            m.d.sync += Assert(
                ~(taken & (taken - 1)).any(), f"router: {name} packet leaves by two outputs"
            )
        return m


def _ways(port: int, packet: Any, x: Value, y: Value) -> dict[int, Value]:
    """Return the output of a packet from an input, as a bit for each output with a leg from there.

    One bit is 1, as in `route`. Cases that cannot occur at an input are not decoded: a packet that
    travels east has its column in the east, and a packet in its column stays in it.
    """
    ways: dict[int, Value] = {}
    column: Value = Const(1)
    if port == LOCAL:
        ways[EAST], ways[WEST] = packet.x > x, packet.x < x
        column = ~(ways[EAST] | ways[WEST])
    elif port in ROW:
        on = EAST if port == WEST else WEST
        column = packet.x == x
        ways[on] = ~column
    if port in COLUMN:
        on = SOUTH if port == NORTH else NORTH
        ways[LOCAL] = packet.y == y
        ways[on] = ~ways[LOCAL]
    else:
        south, north = packet.y > y, packet.y < y
        ways[SOUTH], ways[NORTH] = column & south, column & north
        ways[LOCAL] = column & ~(south | north)
    return ways


def route(packet: Any, x: Value, y: Value) -> Value:
    """Return the output port of ``packet`` at router (x, y), one-hot in the order of `PORTS`."""
    east, west = packet.x > x, packet.x < x
    south, north = packet.y > y, packet.y < y
    column = ~(east | west)
    return Cat(column & north, east, column & south, west, column & ~(north | south))


def _merge(grants: Value, payloads: list[Any]) -> Value:
    """Return the payload of the granted input, or 0: an AND-OR multiplexer."""
    pairs = zip(grants, payloads, strict=True)
    return reduce(or_, (Mux(grant, payload.as_value(), 0) for grant, payload in pairs))


def _check_stable(m: Module, name: str, sink: Any) -> None:
    """Assert that an offered output stays stable until the receiver accepts it."""
    waits = Signal(name=f"{name}_waits")
    offered = Signal.like(sink.payload.as_value(), name=f"{name}_offered")
    m.d.sync += [waits.eq(sink.valid & ~sink.ready), offered.eq(sink.payload)]
    with m.If(waits):
        m.d.sync += [
            Assert(sink.valid, f"router: {name} output withdrew a packet"),
            Assert(sink.payload.as_value() == offered, f"router: {name} output changed a packet"),
        ]
