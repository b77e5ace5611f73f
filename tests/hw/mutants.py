"""Parts with one fault each, with the ports of the correct parts: the checks must find them."""

from __future__ import annotations

import itertools
from typing import Any

from amaranth.hdl import Cat, Module, Mux, Signal, Value
from amaranth.lib import fifo
from amaranth.lib.wiring import In

from hw.barrier import Barrier
from hw.core.accumulator import Accumulator
from hw.core.core import Core
from hw.noc.arbiter import Arbiter
from hw.noc.buffer import Buffer
from tests.hw.faulty import Fault, imported


class GreedyArbiter(Arbiter):
    """Always serves the first port first: others starve."""

    def elaborate(self, platform: Any) -> Module:
        return _arbiter(self, advance=False)


class UnlockedArbiter(Arbiter):
    """Changes its grant while the receiver is not ready."""

    def elaborate(self, platform: Any) -> Module:
        return _arbiter(self, lock=False)


class ForgetfulArbiter(Arbiter):
    """Holds a grant for one cycle too long, even without a request."""

    def elaborate(self, platform: Any) -> Module:
        return _arbiter(self, release=False)


class GenerousArbiter(Arbiter):
    """Grants all requests."""

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        m.d.comb += self.grants.eq(self.requests)
        return m


class LazyArbiter(Arbiter):
    """Ignores the last port."""

    def elaborate(self, platform: Any) -> Module:
        return _arbiter(self, seen=(1 << (self.count - 1)) - 1)


def _arbiter(
    self: Arbiter,
    *,
    advance: bool = True,
    lock: bool = True,
    release: bool = True,
    seen: int = -1,
) -> Module:
    """Return an arbiter that omits something."""
    m = Module()
    turn, held = Signal(self.count, init=1), Signal(self.count)
    requests = Signal(self.count)
    m.d.comb += [
        requests.eq(self.requests & seen),
        self.grants.eq(Mux(held.any(), held, first_from(requests, turn))),
    ]
    with m.If(self.grants.any() & self.ready):
        if advance:
            m.d.sync += turn.eq(self.grants.rotate_left(1))
        m.d.sync += held.eq(0 if release else Mux(held.any(), 0, self.grants))
    with m.Elif(self.grants.any()):
        if lock:
            m.d.sync += held.eq(self.grants)
    return m


def first_from(requests: Value, turn: Value) -> Value:
    """Return the first request at or after the one bit of ``turn``, one-hot."""
    count = len(requests)
    twice = Cat(requests, requests)
    first = twice & ~(twice - turn)
    return first[:count] | first[count : 2 * count]


class LossyBuffer(Buffer):
    """Is ready when it is full, and drops the packets that arrive then."""

    def elaborate(self, platform: Any) -> Module:
        m = _queue(self)
        m.d.comb += self.i.ready.eq(1)
        return m


class RepeatingBuffer(Buffer):
    """Keeps the first packet that it passes on, and passes it on twice."""

    def elaborate(self, platform: Any) -> Module:
        repeated = Signal()
        m = _queue(self, keep=~repeated)
        m.d.comb += self.i.ready.eq(self.level != self.depth)
        with m.If(self.o.valid & self.o.ready):
            m.d.sync += repeated.eq(1)
        return m


class SwappingBuffer(Buffer):
    """A stack: the last packet leaves first."""

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        width = self.i.payload.as_value().shape().width
        cells = [Signal(width, name=f"cell_{i}") for i in range(self.depth)]
        push = self.i.valid & self.i.ready
        pop = self.o.valid & self.o.ready
        m.d.comb += [
            self.i.ready.eq((self.level != self.depth) & ~pop),
            self.o.valid.eq(self.level != 0),
            self.o.payload.eq(cells[0]),
        ]
        with m.If(push):
            m.d.sync += [b.eq(a) for a, b in itertools.pairwise(cells)]
            m.d.sync += [cells[0].eq(self.i.payload), self.level.eq(self.level + 1)]
        with m.Elif(pop):
            m.d.sync += [a.eq(b) for a, b in itertools.pairwise(cells)]
            m.d.sync += self.level.eq(self.level - 1)
        return m


def _queue(self: Buffer, keep: Any = 0) -> Module:
    """Return the correct queue except `ready`; read packets stay in it while ``keep`` is 1."""
    m = Module()
    width = self.i.payload.as_value().shape().width
    m.submodules.queue = queue = fifo.SyncFIFO(width=width, depth=self.depth)
    m.d.comb += [
        queue.w_data.eq(self.i.payload),
        queue.w_en.eq(self.i.valid),
        self.o.payload.eq(queue.r_data),
        self.o.valid.eq(queue.r_rdy),
        queue.r_en.eq(self.o.ready & ~keep),
        self.level.eq(queue.level),
    ]
    return m


class HastyBarrier(Barrier):
    """Ignores the start of a tick."""

    def elaborate(self, platform: Any) -> Module:
        return _around(self, Barrier(len(self.busy), self.capacity), {"begins": 0})


class DeafBarrier(Barrier):
    """Counts only packets, not busy cores."""

    def elaborate(self, platform: Any) -> Module:
        return _around(self, Barrier(len(self.busy), self.capacity), {"busy": 0})


class TirelessBarrier(Barrier):
    """Ignores received packets."""

    def elaborate(self, platform: Any) -> Module:
        return _around(self, Barrier(len(self.busy), self.capacity), {"received": 0})


class FickleCore(Core):
    """Withdraws its offer while a packet arrives."""

    def elaborate(self, platform: Any) -> Module:
        valid = Signal()
        m = _around(self, inner := Core(self.shape), {}, {"outgoing__valid": valid})
        m.d.comb += valid.eq(inner.outgoing.valid & ~self.incoming.valid)
        return m


class DrowsyCore(Core):
    """Raises busy a cycle late."""

    def elaborate(self, platform: Any) -> Module:
        late = Signal()
        m = _around(self, inner := Core(self.shape), {}, {"busy": late})
        m.d.sync += late.eq(inner.busy)
        return m


def faulty_accumulator(name: str, old: str, new: str) -> type[Accumulator]:
    """Return an accumulator with other source text in one place."""
    wrong = Fault("accumulator", old, new, package="hw.core")
    with imported(wrong, "hw.core.accumulator") as module:
        kind: type[Accumulator] = module.Accumulator
    kind.__name__ = name
    return kind


def _around(
    self: Any, inner: Any, inputs: dict[str, Any], outputs: dict[str, Any] | None = None
) -> Module:
    """Return a correct part with the ports of this one, with some inputs and outputs replaced."""
    m = Module()
    m.submodules.inner = inner
    own = {"__".join(map(str, path)): value for path, _, value in self.signature.flatten(self)}
    for path, member, value in inner.signature.flatten(inner):
        name = "__".join(map(str, path))
        if member.flow == In:
            m.d.comb += Value.cast(value).eq(Value.cast(inputs.get(name, own[name])))
        else:
            m.d.comb += Value.cast(own[name]).eq(Value.cast((outputs or {}).get(name, value)))
    return m
