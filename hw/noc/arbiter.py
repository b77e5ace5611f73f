"""Round-robin arbiter of one output, which holds its grant until the receiver accepts.

Ports
    ``requests``  In, count bits   bit i: input i has something for this output; stays 1 until
    granted with ``ready``
    ``ready``     In, 1 bit        the receiver accepts the output in this cycle
    ``grants``    Out, count bits  one-hot while there are requests, else 0; combinational

Timing
    The grant goes to the first requesting input at or after the turn, in cyclic order. Without
    ``ready`` the grant is held in the next cycle, whatever else requests then; so the output is
    stable, as streams require. With ``ready`` it is a transfer, and the turn moves to the input
    after the granted one. A request is served after at most count - 1 other transfers.

    The search is done twice without a carry between the inputs: among the requests at or after the
    turn, and among all requests; the second result counts if the first search finds none.

State
    ``behind``  count - 1 bits, 0 after reset: inputs 1 and up that are at or after the turn; all 0
    if the turn is at input 0. A grant that is not accepted keeps the turn, so it is repeated: its
    request must still be present.
"""

from __future__ import annotations

from typing import Any

from amaranth.hdl import Assert, Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from hw.errors import check_count
from hw.flow.sharing import shared


class Arbiter(wiring.Component):
    """Arbiter of ``count`` (1 to 64) inputs; raises `HwError` for other counts."""

    def __init__(self, count: int) -> None:
        self.count = check_count("arbiter: count", count, 1, 64)
        self.module_name = f"arbiter_{count}"
        self.behind = Signal(count - 1)
        super().__init__({"requests": In(count), "ready": In(1), "grants": Out(count)})

    @property
    def module_parameters(self) -> tuple[Any, ...]:
        """Key of the shared module."""
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
        waits = Signal(self.count)  # for the assertions only
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
    """Return the first request, one-hot."""
    before = (requests[:number].any() for number in range(1, len(requests)))
    return requests & ~Cat(Const(0, 1), *before)


def one_hot(value: Value) -> Value:
    """Return whether exactly one bit is 1."""
    return value.any() & ~(value & (value - 1)).any()
