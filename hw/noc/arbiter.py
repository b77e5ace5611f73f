"""Round-robin arbiter of one output, which keeps its choice until the receiver takes it.

Ports
    ``requests``  In, count bits   bit i: input i has something for this output; stays 1
                                   until granted with ``ready``
    ``ready``     In, 1 bit        the receiver takes what the output offers in this cycle
    ``grants``    Out, count bits  one-hot while there are requests, else 0; combinational

Timing
    Granted is the first input with a request at or behind the turn, in cyclic order. Without
    ``ready`` the grant is held in the next cycle, whatever else requests then; so what is offered
    is stable, as streams must be. With ``ready`` it is a transfer, and the turn passes to the
    input behind the granted one. A request is served after count - 1 other transfers at most.

State
    ``turn``  count bits, one-hot, 1 after reset: where the search begins
    ``held``  count bits, one-hot or 0, 0 after reset: the grant that the receiver has not taken yet
"""

from __future__ import annotations

from typing import Any

from amaranth.hdl import Assert, Cat, Module, Mux, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from hw.errors import check_count
from hw.flow.sharing import shared


class Arbiter(wiring.Component):
    """Arbiter of ``count`` (1 to 64) inputs; raises `HwError` on others."""

    def __init__(self, count: int) -> None:
        self.count = check_count("arbiter: count", count, 1, 64)
        self.module_name = f"arbiter_{count}"
        super().__init__({"requests": In(count), "ready": In(1), "grants": Out(count)})

    @property
    def module_parameters(self) -> tuple[Any, ...]:
        """What makes two arbiters the same module."""
        return (self.count,)

    @shared
    def elaborate(self, platform: Any) -> Module:
        m = Module()
        turn = Signal(self.count, init=1)
        held = Signal(self.count)
        chosen = Signal(self.count)
        m.d.comb += [
            chosen.eq(first_from(self.requests, turn)),
            self.grants.eq(Mux(held.any(), held, chosen)),
        ]
        with m.If(self.requests.any()):
            with m.If(self.ready):
                m.d.sync += [turn.eq(self.grants.rotate_left(1)), held.eq(0)]
            with m.Else():
                m.d.sync += held.eq(self.grants)
        m.d.sync += [
            Assert(one_hot(turn), "arbiter: turn is not one-hot"),
            Assert(one_hot(self.grants) | ~self.grants.any(), "arbiter: two grants"),
            Assert(self.grants.any() == self.requests.any(), "arbiter: requests without a grant"),
            Assert(~(self.grants & ~self.requests).any(), "arbiter: grant without a request"),
        ]
        return m


def first_from(requests: Value, turn: Value) -> Value:
    """The first request at or behind the one bit of ``turn``, as one bit.

    Subtracting that bit from the requests, written twice in a row, flips all bits from it up to the
    first request; what was 1 and is now 0 is that request.
    """
    count = len(requests)
    twice = Cat(requests, requests)
    first = twice & ~(twice - turn)
    return first[:count] | first[count : 2 * count]


def one_hot(value: Value) -> Value:
    """Whether exactly one bit is 1."""
    return value.any() & ~(value & (value - 1)).any()
