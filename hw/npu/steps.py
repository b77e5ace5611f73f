"""The three nested loops of the matrix unit and the ALU: micro-ops, outer steps, inner steps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from amaranth.hdl import Module, Mux, Signal, Value

ADDRESS = 16


class Loops:
    """Counters that advance one step at a time.

    micro_op : number of the micro-op of the step
    offsets : accumulated offset of every stride
    last : the step is the last one
    inner_ends, outer_ends : the step is the last one of its loop
    after : value of `micro_op` after the step
    """

    def __init__(self, m: Module, f: Any, strides: Sequence[str], micro_ops: bool = True) -> None:
        """strides : names of fields without `_out`, `_in`
        micro_ops : False for a single micro-op
        """
        self.m, self.f = m, f
        self._uops = f.uops if micro_ops else Value.cast(1)
        self.micro_op, self._left = Signal(10), Signal(10)
        self.outer, self.inner = Signal(9), Signal(12)
        self._strides = [(getattr(f, f"{name}_out"), getattr(f, f"{name}_in")) for name in strides]
        self.offsets = {name: Signal(ADDRESS, name=f"{name}_offset") for name in strides}
        self._starts = {name: Signal(ADDRESS, name=f"{name}_start") for name in strides}
        self.inner_ends, self.outer_ends, self.last = Signal(), Signal(), Signal()
        m.d.comb += [
            self.inner_ends.eq(self.inner + 1 == f.n_in),
            self.outer_ends.eq(self.inner_ends & (self.outer + 1 == f.n_out)),
            self.last.eq(self.outer_ends & (self._left + 1 == self._uops)),
        ]

    @property
    def empty(self) -> Value:
        return (self.f.n_out == 0) | (self.f.n_in == 0) | (self._uops == 0)

    def set_up(self, first: Any) -> None:
        """Start the loops; first : micro-op of the instruction that starts"""
        self.m.d.sync += [
            self.micro_op.eq(first), self._left.eq(0), self.outer.eq(0), self.inner.eq(0),
            *(each.eq(0) for each in (*self.offsets.values(), *self._starts.values())),
        ]  # fmt: skip

    def step(self) -> None:
        m = self.m
        with m.If(self.inner_ends):
            m.d.sync += [self.inner.eq(0), self.outer.eq(self.outer + 1)]
        with m.Else():
            m.d.sync += self.inner.eq(self.inner + 1)
        with m.If(self.outer_ends):
            m.d.sync += [
                self.outer.eq(0), self._left.eq(self._left + 1),
                self.micro_op.eq(self.micro_op + 1),
            ]  # fmt: skip
        for (name, offset), (outer, inner) in zip(self.offsets.items(), self._strides, strict=True):
            start = self._starts[name]
            outer_next = (start + outer)[:ADDRESS]
            m.d.sync += offset.eq(
                Mux(self.outer_ends, 0, Mux(self.inner_ends, outer_next, offset + inner))
            )
            with m.If(self.inner_ends):
                m.d.sync += start.eq(Mux(self.outer_ends, 0, outer_next))
