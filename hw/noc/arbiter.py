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

    Two searches without a carry between the inputs: one among the requests at or behind the turn,
    and one among all, which counts if the first finds none.

State
    ``behind``  count - 1 bits, 0 after reset: inputs 1 and up that are at or behind the turn; none
        of them if the turn is that of input 0. A grant that is not taken keeps the turn, so that
        it is granted again: its request is still there, as it has to be.
"""

from __future__ import annotations

from typing import Any

from amaranth.hdl import Assert, Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from hw.errors import check_count
from hw.flow.sharing import shared


class Arbiter(wiring.Component):
    """Arbiter of ``count`` (1 to 64) inputs; raises `HwError` on others."""

    def __init__(self, count: int) -> None:
        self.count = check_count("arbiter: count", count, 1, 64)
        self.module_name = f"arbiter_{count}"
        self.behind = Signal(count - 1)
        super().__init__({"requests": In(count), "ready": In(1), "grants": Out(count)})

    @property
    def module_parameters(self) -> tuple[Any, ...]:
        """What makes two arbiters the same module."""
        return (self.count,)

    @shared
    def elaborate(self, platform: Any) -> Module:
        m = Module()
        behind = self.behind
        late = self.requests & Cat(Const(0, 1), behind)
        m.d.comb += self.grants.eq(Mux(late.any(), first(late), first(self.requests)))
        with m.If(self.requests.any()):
            for number, bit in enumerate(behind, start=1):
                taken, held = self.grants[:number], self.grants[1 : number + 1]
                m.d.sync += bit.eq(Mux(self.ready, taken.any(), held.any()))
        waits = Signal(self.count)  # for the assertions alone
        m.d.sync += waits.eq(Mux(self.ready, 0, self.grants))
        m.d.sync += [
            Assert(
                ~(behind[:-1] & ~behind[1:]).any(), "arbiter: inputs behind the turn have a gap"
            ),
            Assert(one_hot(self.grants) | ~self.grants.any(), "arbiter: two grants"),
            Assert(self.grants.any() == self.requests.any(), "arbiter: requests without a grant"),
            Assert(~(self.grants & ~self.requests).any(), "arbiter: grant without a request"),
            Assert(~waits.any() | (self.grants == waits), "arbiter: a request was withdrawn"),
        ]
        return m


def first(requests: Value) -> Value:
    """The first request, as one bit."""
    before = (requests[:number].any() for number in range(1, len(requests)))
    return requests & ~Cat(Const(0, 1), *before)


def one_hot(value: Value) -> Value:
    """Whether exactly one bit is 1."""
    return value.any() & ~(value & (value - 1)).any()
