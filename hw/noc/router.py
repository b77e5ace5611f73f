"""Router of the mesh: five ports, x before y, a buffer at each input, an arbiter at each output.

Ports (north, east, south, west and local, in this order wherever they are counted)
    ``x``, ``y``       In           position: columns count to the east, rows to the south. They are
                                    inputs so that all routers are one module; constant after reset.
    ``<port>_in``      In, stream   packets from the neighbour, or from the core (local)
    ``<port>_out``     Out, stream  packets to the neighbour, or to the core

Routing
    The column first: a packet for x' > x leaves east, x' < x west; in its column one for y' > y
    leaves south, y' < y north; at its destination it leaves at the local port. A packet to the
    own core takes the same way. It never turns back, nor from a column into a row: with such
    turns out, the waits of buffers for each other have no cycle, so the mesh can't deadlock
    (Dally and Seitz 1987).

Timing
    A packet accepted in cycle t by an empty buffer is offered at its output in cycle t + 1: one
    cycle a hop. ``ready`` of an input depends on registers alone; ``valid`` and ``payload`` of an
    output depend on registers and on x and y; no combinational path leads from any stream to
    another, so that routers may be wired in any way. An output passes a packet in every cycle
    (with depth >= 2). Each input offers its oldest packet alone: one that can't leave holds up
    those behind it.

Fairness
    Round robin at each output: a packet at the head of its buffer waits for four others at most.

State
    That of five `hw.noc.buffer.Buffer` of ``depth`` packets and of five `hw.noc.arbiter.Arbiter`.
"""

from __future__ import annotations

from functools import reduce
from operator import or_
from typing import Any

from amaranth.hdl import Assert, Cat, Module, Mux, Signal, Value
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from hw.errors import HwError
from hw.flow.sharing import shared
from hw.noc.arbiter import Arbiter
from hw.noc.buffer import Buffer, check_depth
from hw.noc.packet import Flit

PORTS = ("north", "east", "south", "west", "local")
NORTH, EAST, SOUTH, WEST, LOCAL = range(5)


class Router(wiring.Component):
    """Router for packets of ``layout``, with ``depth`` packets in the buffer of each input.

    arbiter, buffer : classes of the parts, for others with the same ports

    Raises `HwError` if the layout is no `Flit` or the depth is not 1 to 1024.
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
            raise HwError(f"router: layout is {layout!r}; make one with packet_layout()")
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
        """What makes two routers the same module."""
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
        arbiters = [self.make_arbiter(len(PORTS)) for _ in PORTS]
        wanted = []
        for name, source, buffer in zip(PORTS, self.inputs, buffers, strict=True):
            m.submodules[f"{name}_buffer"] = buffer
            wiring.connect(m, wiring.flipped(source), buffer.i)
            wants = Signal(len(PORTS), name=f"{name}_wants")
            m.d.comb += wants.eq(Mux(buffer.o.valid, route(buffer.o.payload, self.x, self.y), 0))
            wanted.append(wants)
        taken = []  # by output: which inputs pass their packet to it in this cycle
        for port, (name, sink, arbiter) in enumerate(
            zip(PORTS, self.outputs, arbiters, strict=True)
        ):
            m.submodules[f"{name}_arbiter"] = arbiter
            grants = arbiter.grants
            m.d.comb += [
                arbiter.requests.eq(Cat(wants[port] for wants in wanted)),
                arbiter.ready.eq(sink.ready),
                sink.valid.eq(arbiter.requests.any()),
                sink.payload.eq(_merge(grants, [buffer.o.payload for buffer in buffers])),
            ]
            taken.append(Mux(sink.ready, grants, 0))
            _check_stable(m, name, sink)
        for port, (name, buffer) in enumerate(zip(PORTS, buffers, strict=True)):
            takers = Cat(inputs[port] for inputs in taken)
            m.d.comb += buffer.o.ready.eq(takers.any())
            m.d.sync += Assert(
                ~(takers & (takers - 1)).any(), f"router: {name} packet leaves by two outputs"
            )
        return m


def route(packet: Any, x: Value, y: Value) -> Value:
    """The port by which ``packet`` leaves the router at (x, y), one-hot in the order of `PORTS`."""
    east, west = packet.x > x, packet.x < x
    south, north = packet.y > y, packet.y < y
    column = ~(east | west)
    return Cat(column & north, east, column & south, west, column & ~(north | south))


def _merge(grants: Value, payloads: list[Any]) -> Value:
    """The payload of the one that is granted, or 0: an AND-OR multiplexer."""
    pairs = zip(grants, payloads, strict=True)
    return reduce(or_, (Mux(grant, payload.as_value(), 0) for grant, payload in pairs))


def _check_stable(m: Module, name: str, sink: Any) -> None:
    """Asserts that what an output offers stays as it is until the receiver takes it."""
    waits = Signal(name=f"{name}_waits")
    offered = Signal.like(sink.payload.as_value(), name=f"{name}_offered")
    m.d.sync += [waits.eq(sink.valid & ~sink.ready), offered.eq(sink.payload)]
    with m.If(waits):
        m.d.sync += [
            Assert(sink.valid, f"router: {name} output withdrew a packet"),
            Assert(sink.payload.as_value() == offered, f"router: {name} output changed a packet"),
        ]
