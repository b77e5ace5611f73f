"""Proved properties of arbiter, buffer and router: each around a part with free inputs.

A property is a method `prove_...`; a harness states all of them, or one. Its assumptions are the
requirements of the data sheets on the surroundings. Symbolic constants (chosen by the solver, then
fixed) stand for "any": any input, any packet of a flow by its number.
"""

from __future__ import annotations

from functools import reduce
from operator import add
from types import SimpleNamespace
from typing import Any

from amaranth.asserts import AnyConst
from amaranth.hdl import Assert, Assume, Cat, Module, Mux, ResetSignal, Signal, Value, signed
from amaranth.lib import wiring

from hw.noc.arbiter import Arbiter, one_hot
from hw.noc.buffer import Buffer
from hw.noc.packet import packet_layout
from hw.noc.router import LEGS, PORTS, Router, route

COUNT = 6
"""Bits of counters: they do not overflow in the few cycles of a bounded proof."""


class Harness(wiring.Component):
    """A part with free inputs, and its properties.

    only : name of the one property to state, without `prove_`; None for all of them
    """

    def __init__(self, dut: Any, only: str | None = None) -> None:
        names = [name for name in dir(self) if name.startswith("prove_")]
        self.properties = [name for name in names if only in (None, name.removeprefix("prove_"))]
        assert self.properties or only == "own", only
        self.dut = dut
        self.free = {
            "__".join(map(str, path)): (member, value)
            for path, member, value in dut.signature.flatten(dut)
            if member.flow == wiring.In
        }
        super().__init__({name: wiring.In(member.shape) for name, (member, _) in self.free.items()})

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        m.submodules.dut = self.examined()
        m.d.comb += Assume(~ResetSignal())
        for name, (_, value) in self.free.items():
            m.d.comb += Value.cast(value).eq(Value.cast(getattr(self, name)))
        self.prepare(m)
        for name in self.properties:
            getattr(self, name)(m)
        return m

    def examined(self) -> Any:
        """Return the part, or its logic for properties that access internal signals."""
        return self.dut

    def prepare(self, m: Module) -> None:
        """State assumptions, and logic that properties share."""

    @classmethod
    def names(cls) -> list[str]:
        """Return the names of all properties."""
        return [name.removeprefix("prove_") for name in dir(cls) if name.startswith("prove_")]


class ArbiterHarness(Harness):
    """Requests stay until they are granted and the receiver is ready."""

    def __init__(self, arbiter: type[Arbiter] = Arbiter, only: str | None = None) -> None:
        super().__init__(arbiter(len(PORTS)), only)

    def prepare(self, m: Module) -> None:
        dut = self.dut
        stay = Signal.like(dut.requests)
        m.d.sync += stay.eq(dut.requests & ~(dut.grants & dut.ready.replicate(dut.count)))
        m.d.comb += Assume(~(stay & ~dut.requests).any())

    def prove_grants_are_one_hot(self, m: Module) -> None:
        m.d.sync += Assert(one_hot(self.dut.grants) | ~self.dut.grants.any())

    def prove_grant_implies_request(self, m: Module) -> None:
        m.d.sync += Assert(~(self.dut.grants & ~self.dut.requests).any())

    def prove_request_implies_some_grant(self, m: Module) -> None:
        m.d.sync += Assert(self.dut.grants.any() | ~self.dut.requests.any())

    def prove_grant_is_held_until_taken(self, m: Module) -> None:
        held = Signal.like(self.dut.grants)
        m.d.sync += held.eq(self.dut.grants & ~self.dut.ready.replicate(self.dut.count))
        with m.If(held.any()):
            m.d.sync += Assert(self.dut.grants == held)

    def prove_request_waits_for_four_others_at_most(self, m: Module) -> None:
        dut = self.dut
        who = AnyConst(range(dut.count))
        m.d.comb += Assume(who < dut.count)
        others = Signal(COUNT)
        with m.If(~dut.requests.bit_select(who, 1) | dut.grants.bit_select(who, 1)):
            m.d.sync += others.eq(0)
        with m.Elif(dut.ready & dut.grants.any()):
            m.d.sync += others.eq(others + 1)
        m.d.sync += Assert(others < dut.count)

    def prove_all_are_served_where_the_receiver_is_ready(self, m: Module) -> None:
        """In five cycles each, which excludes an arbiter that grants nothing."""
        dut = self.dut
        who = AnyConst(range(dut.count))
        waited, always = Signal(COUNT), Signal(init=1)
        m.d.comb += Assume(who < dut.count)
        m.d.sync += always.eq(always & dut.ready)
        with m.If(dut.requests.bit_select(who, 1) & ~dut.grants.bit_select(who, 1)):
            m.d.sync += waited.eq(waited + 1)
        with m.Else():
            m.d.sync += waited.eq(0)
        with m.If(always):
            m.d.sync += Assert(waited < dut.count)


class InductiveArbiterHarness(ArbiterHarness):
    """Invariants for k-induction, of the turn and of the waiting input."""

    def prove_all_are_served_where_the_receiver_is_ready(self, m: Module) -> None:
        """Replaced by the count of other inputs served."""

    def prove_request_waits_for_four_others_at_most(self, m: Module) -> None:
        """No input from the turn to the waiting one is served: each grant brings it nearer."""
        dut = self.dut
        who, turn, away = AnyConst(range(dut.count)), Signal(4), Signal(signed(5))
        m.d.comb += [
            Assume(who < dut.count),
            turn.eq(Mux(dut.behind.any(), dut.count - reduce(add, dut.behind), 0)),
            away.eq(who - turn + Mux(who < turn, dut.count, 0)),
        ]
        others = Signal(COUNT)
        with m.If(~dut.requests.bit_select(who, 1) | dut.grants.bit_select(who, 1)):
            m.d.sync += others.eq(0)
        with m.Elif(dut.ready & dut.grants.any()):
            m.d.sync += others.eq(others + 1)
        m.d.sync += Assert(others < dut.count)
        m.d.sync += Assert(others + away <= dut.count - 1)


class BufferHarness(Harness):
    """Nothing is assumed: an offer may change while the buffer is not ready."""

    def __init__(self, depth: int, buffer: type[Buffer] = Buffer, only: str | None = None) -> None:
        super().__init__(buffer(packet_layout(1, 1, 1), depth), only)

    def prepare(self, m: Module) -> None:
        self.enters = self.dut.i.valid & self.dut.i.ready
        self.leaves = self.dut.o.valid & self.dut.o.ready
        self.entered, self.left = Signal(COUNT), Signal(COUNT)
        m.d.sync += [
            self.entered.eq(self.entered + self.enters),
            self.left.eq(self.left + self.leaves),
        ]

    def prove_level_counts_what_is_inside(self, m: Module) -> None:
        m.d.sync += Assert(self.dut.level == (self.entered - self.left)[:COUNT])

    def prove_level_is_within_bounds(self, m: Module) -> None:
        m.d.sync += Assert((self.entered - self.left)[:COUNT] <= self.dut.depth)

    def prove_ready_unless_full(self, m: Module) -> None:
        full = (self.entered - self.left)[:COUNT] == self.dut.depth
        m.d.sync += Assert(self.dut.i.ready == ~full)

    def prove_valid_unless_empty(self, m: Module) -> None:
        m.d.sync += Assert(self.dut.o.valid == (self.entered != self.left))

    def prove_what_leaves_nth_entered_nth(self, m: Module) -> None:
        dut = self.dut
        self.nth = _same_order(m, self.enters, dut.i, self.entered, self.leaves, dut.o, self.left)


class InductiveBufferHarness(BufferHarness):
    """Invariant for k-induction: the place of the nth packet. Counters wrap."""

    def prove_what_leaves_nth_entered_nth(self, m: Module) -> None:
        super().prove_what_leaves_nth_entered_nth(m)
        dut = self.dut
        number, payload = self.nth
        watch = dut.storage.read_port(domain="comb")
        ahead = (number - self.left)[:COUNT]  # packets that leave before it, if it is inside
        m.d.comb += watch.addr.eq(self.place(dut.consume + ahead))
        inside = ahead < dut.level
        m.d.sync += [
            Assert(~inside | (watch.data == payload)),
            Assert(dut.produce == self.place(dut.consume + dut.level)),
            Assert(dut.consume < dut.depth),
        ]

    def place(self, value: Value) -> Value:
        """Return a value below twice the depth modulo the depth."""
        return Mux(value >= self.dut.depth, value - self.dut.depth, value)


class RouterHarness(Harness):
    """The axon of every packet encodes its input (bits 0 to 2), and has one more free bit.

    Packets arrive only by an input from which they have a path, as in a mesh. Nothing else is
    assumed: destinations and receivers are arbitrary, and a source may change its offer. So there
    are flows on all 17 legs.

    anywhere : at any place of a 4x4 mesh, not only at 1,2 from where all routes exist; takes longer
    """

    def __init__(
        self, depth: int, only: str | None = None, anywhere: bool = False, **parts: Any
    ) -> None:
        super().__init__(Router(packet_layout(2, 2, 4), depth, **parts), only)
        self.anywhere = anywhere

    def prepare(self, m: Module) -> None:
        dut = self.dut
        place = (AnyConst(2), AnyConst(2)) if self.anywhere else (1, 2)
        m.d.comb += [dut.x.eq(place[0]), dut.y.eq(place[1])]
        for port, stream in enumerate(dut.inputs):
            m.d.comb += stream.payload.axon[:3].eq(port)
            way = route(stream.payload, dut.x, dut.y)
            legal = Cat(way[output] & (port in legs) for output, legs in enumerate(LEGS))
            m.d.comb += Assume(~stream.valid | legal.any())
        # Any flow, from an input to an output, and its transfers in this cycle.
        self.source, self.port = AnyConst(3), AnyConst(3)
        m.d.comb += [Assume(self.source < len(PORTS)), Assume(self.port < len(PORTS))]
        self.offered, self.passed = _any_of(m, dut.inputs), _any_of(m, dut.outputs)
        m.d.comb += [self.offered.index.eq(self.source), self.passed.index.eq(self.port)]
        wanted = route(self.offered.payload, dut.x, dut.y)
        self.enters = self.offered.transfer & wanted.bit_select(self.port, 1)
        self.leaves = self.passed.transfer & (self.passed.payload.axon[:3] == self.source)
        self.entered, self.left = Signal(COUNT), Signal(COUNT)
        m.d.sync += [
            self.entered.eq(self.entered + self.enters),
            self.left.eq(self.left + self.leaves),
        ]

    def prove_packets_leave_by_their_route(self, m: Module) -> None:
        for port, stream in enumerate(self.dut.outputs):
            with m.If(stream.valid):
                m.d.sync += Assert(route(stream.payload, self.dut.x, self.dut.y)[port])

    def prove_outputs_are_stable_until_taken(self, m: Module) -> None:
        waits = Signal()
        offered = Signal.like(self.passed.payload.as_value())
        m.d.sync += [
            waits.eq(self.passed.valid & ~self.passed.ready),
            offered.eq(self.passed.payload),
        ]
        with m.If(waits):
            m.d.sync += Assert(self.passed.valid & (self.passed.payload.as_value() == offered))

    def prove_nth_of_a_flow_leaves_nth_and_unchanged(self, m: Module) -> None:
        """So packets are not invented, duplicated, changed or reordered."""
        _same_order(m, self.enters, self.offered, self.entered, self.leaves, self.passed, self.left)

    def prove_inputs_are_ready_unless_full(self, m: Module) -> None:
        """Full by counting entries and exits: a lost packet would count forever."""
        inside = Signal(COUNT)
        out = (s.valid & s.ready & (s.payload.axon[:3] == self.source) for s in self.dut.outputs)
        m.d.sync += inside.eq(inside + self.offered.transfer - reduce(add, out))
        m.d.sync += Assert(self.offered.ready == (inside != self.dut.depth))

    def prove_none_waits_long_where_receivers_are_ready(self, m: Module) -> None:
        """A flow with a packet inside delivers one in 5 * depth cycles: so none is lost."""
        waited, always = Signal(COUNT), Signal(init=1)
        m.d.sync += always.eq(always & Cat(s.ready for s in self.dut.outputs).all())
        with m.If((self.entered != self.left) & ~self.leaves):
            m.d.sync += waited.eq(waited + 1)
        with m.Else():
            m.d.sync += waited.eq(0)
        with m.If(always):
            m.d.sync += Assert(waited < len(PORTS) * self.dut.depth)


class ShallowRouterHarness(RouterHarness):
    """Buffers of one packet: every packet inside is at the head."""

    def __init__(self, only: str | None = None, **parts: Any) -> None:
        super().__init__(1, only, **parts)

    def prove_a_head_waits_for_four_others_at_most(self, m: Module) -> None:
        """For any behaviour of the receivers."""
        others = Signal(COUNT)
        with m.If((self.entered == self.left) | self.leaves):
            m.d.sync += others.eq(0)
        with m.Elif(self.passed.transfer):
            m.d.sync += others.eq(others + 1)
        m.d.sync += Assert(others < len(PORTS))


def _any_of(m: Module, streams: list[Any]) -> Any:
    """Return one of several streams, chosen by `index`."""
    layout = streams[0].payload.shape()
    chosen = SimpleNamespace(
        index=Signal(range(len(streams))),
        payload=Signal(layout),
        valid=Signal(),
        ready=Signal(),
        transfer=Signal(),
    )
    m.d.comb += chosen.transfer.eq(chosen.valid & chosen.ready)
    with m.Switch(chosen.index):
        for number, stream in enumerate(streams):
            with m.Case(number):
                m.d.comb += [
                    chosen.payload.eq(stream.payload),
                    chosen.valid.eq(stream.valid),
                    chosen.ready.eq(stream.ready),
                ]
    return chosen


def _same_order(
    m: Module, enters: Value, i: Any, entered: Signal, leaves: Value, o: Any, left: Signal
) -> tuple[Value, Signal]:
    """Require that the nth to leave is the nth that entered, for any n; return n and payload."""
    number = AnyConst(COUNT)
    payload = Signal.like(i.payload.as_value())
    with m.If(enters & (entered == number)):
        m.d.sync += payload.eq(i.payload)
    with m.If(leaves):
        m.d.sync += Assert(entered != left)
        with m.If(left == number):
            m.d.sync += Assert(o.payload.as_value() == payload)
    return number, payload
