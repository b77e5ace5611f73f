"""Cores with one wrong constant or condition: random programs find every one."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from itertools import count, islice
from types import ModuleType

import pytest

from tests.hw.faulty import Fault, each_fault, imported, symptom
from tests.hw.npu.programs import SHAPES
from tests.hw.npu.three_ways import Wanted, difference, programs_from

PROGRAMS = 120
"""Number of programs in which a fault must show."""
BENCH = "tests.hw.npu.core_bench"
FAULTS = [
    # Queues, tokens, streams
    Fault("frontend.control", "depth=self.shape.queue_places", "depth=self.shape.queue_places + 1"),
    Fault("frontend.control", "self._signal[one][other]", "self._signal[other][one]"),
    Fault("frontend.control", ".wait[one]\n", ".wait[other]\n"),
    Fault("frontend.control", "(tokens[other][unit] != 0)", "(tokens[other][unit] + 1 != 0)"),
    Fault("frontend.control", "tokens[one][other] + gives - taken)", "tokens[one][other] + gives)"),
    Fault("frontend.control", "Mux(clears, 0,", "Mux(0, 0,"),
    Fault("frontend.control", "goes.eq(queue.r_rdy & ~busy[unit] & ready)",
          "goes.eq(queue.r_rdy & ready)"),
    Fault("frontend.control", "[wait.stream] >= wait.count", "[wait.stream] > wait.count"),
    Fault("frontend.control", "self.counts[number] - taken", "self.counts[number]"),
    Fault("isa.registers", '("load", "store", "weights")', '("store", "load", "weights")'),
    Fault("memories.receive", "(comes & number.all())", "(comes & (number == 0))"),
    Fault("memories.receive", "flit.data[: COUNT_BITS - 1]", "flit.data[: COUNT_BITS - 2]"),
    Fault("store.sending", "Kind.REQUEST, Kind.TOKEN)", "Kind.TOKEN, Kind.REQUEST)"),
    Fault("store.sending", "Cat(part[:low], vector", "Cat(part[:low] ^ 1, vector", "16x16"),
    # Latencies
    Fault("gemm.unit", "latency.matrix - 2", "latency.matrix - 1"),
    Fault("alu.unit", "latency.alu - 1", "latency.alu"),
    Fault("alu.unit", "latency.lookup - latency.req", "1 + latency.lookup - latency.req"),
    Fault("load.unit", "latency.load - 1 - SETUP", "latency.load - SETUP"),
    Fault("load.unit", "latency.stream - 1", "latency.stream"),
    Fault("store.unit", "latency.store - PIPELINE", "latency.store - PIPELINE + 1"),
    # Loads
    Fault("load.areas", "self.y + f.pad_b >= f.y_size", "self.y + f.pad_b > f.y_size"),
    Fault("load.areas", "self.plane.eq(f.y_size * f.x_size)", "self.plane.eq(f.x_size * f.x_size)"),
    Fault("load.areas", "(flat | ~pixel_ends)", "1"),
    Fault("load.areas", "(f.x_stride == f.c_size) & (f.wrap == 0)", "f.x_stride == f.c_size"),
    Fault("load.areas", "turn.eq(f.pad_l + f.wrap)", "turn.eq(f.wrap)"),
    Fault("load.areas", "(x + 1 == turn), f.y_stride, 0)", "(x == turn), f.y_stride, 0)"),
    Fault("load.areas", "(x + 1 == turn), f.y_stride, 0)", "(x + 1 == turn), f.x_stride, 0)"),
    Fault("load.unit", "(_lane(m, Mux(pad, value, byte)", "(_lane(m, Mux(pad, 0, byte)"),
    Fault("load.unit", "<< (f.pp + 2)", "<< (f.pp + 1)"),
    Fault("load.unit", "whole = lane.part == size.entry - 1",
          "whole = lane.part == size.entry - 2"),
    Fault("load.unit", "number % vectors == vectors - 1", "number % vectors == 0"),
    Fault("load.unit", "self.word + self.size.words", "self.word"),
    Fault("load.unit", "at + me.distance", "at", "4x4-dual"),
    Fault("memories.feature", "((read.vector >> 1) + ahead) >> 2", "read.vector >> 3"),
    Fault("memories.feature", "Mux(chosen[0], Cat", "Mux(~chosen[0], Cat"),
    Fault("load.windows", "f.kw + self.shape.columns - 1)", "f.kw + self.shape.columns)"),
    Fault("load.windows", "plane_at + plane", "plane_at + plane + 1", "8x8"),
    Fault("load.filter", "me.layer.value, byte", "0, byte"),
    Fault("load.filter", "right < layer.columns * layer.sw", "right <= layer.columns * layer.sw"),
    Fault("load.filter", "header.y + layer.sh)", "header.y + layer.sw)"),
    # Products
    Fault("steps", "Mux(self.outer_ends, 0, outer_next))\n", "outer_next)\n"),
    Fault("steps", "outer_next, offset + inner", "outer_next, offset + outer"),
    Fault("gemm.unit", "slot >= self.shape.rows - 1", "slot >= self.shape.rows - 2", "4x4"),
    Fault("gemm.unit", "farthest >= me.arrived", "farthest > me.arrived"),
    Fault("gemm.unit", "farthest >= me.base", "farthest > me.base"),
    Fault("gemm.unit", "INIT_ZERO, INIT_BIAS = 1, 2", "INIT_ZERO, INIT_BIAS = 2, 1"),
    Fault("gemm.unit", "begins.eq(slot == 0)", "begins.eq(slot == 1)", "4x4"),
    Fault("gemm.unit", '"tap": (4,', '"tap": (1,'),
    Fault("gemm.unit", 'KINDS.index("INT16"), 1, me', 'KINDS.index("INT16"), 2, me', "4x4-dual"),
    Fault("gemm.unit", "Const(0), me.acc_distance", "Const(0), me.wgt_distance", "4x4-dual"),
    Fault("gemm.row", 'is_kind["DEPTHWISE"] | binary', "binary"),
    Fault("gemm.row", "(~upper.any())", "upper.any()"),
    Fault("gemm.row", "Cat(first[c], others[c])", "Cat(others[c], first[c])", "4x4-dual"),
    Fault("gemm.row", "Mux(kernels, low, w[c])", "w[c]", "4x4-dual"),
    Fault("gemm.popcount", "(a & b) | (either & c)", "a & b"),
    Fault("gemm.multiplier", ".as_signed() + found[LOW - 1])", ".as_signed())", "4x4-dual"),
    Fault("core", "transparent_for=products", "transparent_for=[]"),
    Fault("core", "transparent_for=[calculated]", "transparent_for=[]"),
    # The ALU
    Fault("alu.lanes", "~less ^ me.turns", "~less"),
    Fault("alu.unit", "f.imm[:6]", "f.imm[:5]"),
    Fault("alu.unit", "shifts.eq(k.is_alu(\"RSHR\") | k.slow)", "shifts.eq(k.is_alu(\"RSHR\"))"),
    Fault("alu.lanes", "Mux(takes, s, x)", "Mux(takes, x, s)"),
    Fault("alu.lanes", "Mux(left, x[::-1], x)", "Mux(left, x[::-1].as_signed(), x)"),
    Fault("alu.lanes", "Mux(me.shifts, up, ~me.adds)", "~me.adds"),
    Fault("alu.lanes", "shift.eq(chosen[: 32 - M0_BITS])", "shift.eq(chosen[: 31 - M0_BITS])"),
    Fault("alu.lanes", "sum_of(near, me.zero, up)", "sum_of(near, me.zero & 0, up)"),
    Fault("alu.lanes", " + me.first[M0_BITS - 1]", ""),
    Fault("alu.lanes", "Mux(me.mac, rest, me.offset)", "Mux(me.mac, rest, -me.offset)"),
    Fault("alu.lanes", "Mux(me.leaky & (t < 0)", "Mux(me.leaky & (t >= 0)"),
    Fault("alu.arithmetic", "kept[min(much, bits) - 1]", "kept[0]"),
    Fault("alu.arithmetic", "upper.all() | ~upper.any()", "~upper.any()"),
    Fault("alu.arithmetic", "Mux(least > high, high, least)", "Mux(least > high, low, least)"),
    Fault("alu.unit", "(phase == r // lanes)", "(phase == r % lanes)", "4x4"),
    Fault("alu.unit", "found.slot == BLOCKS - 1", "found.slot == BLOCKS - 2"),
    Fault("alu.unit", "(1 + found.offsets + found.leaks)", "(1 + found.offsets)"),
    Fault("alu.unit", "(asked.block // BLOCKS)", "(asked.block // (BLOCKS // 2))"),
    Fault("alu.decoded", 'names.index("p"))[:6]', 'names.index("p"))[:3]'),
    # Tables and products of accumulators
    Fault("alu.decoded", "part == size.table - 1", "part == size.table - 2"),
    Fault("alu.decoded", "table + part // PARTS", "table + part // PARTS + 1"),
    Fault("alu.decoded", "self.addr % PARTS", "part % PARTS"),
    Fault("alu.unit", "Mux(table.reads, table.head", "Mux(table.en, table.head"),
    Fault("alu.unit", "(stage4.entry, stage3.entry)", "(stage3.entry, stage3.entry)"),
    Fault("alu.unit", "(stage4.phase, stage3.phase)", "(stage3.phase, stage3.phase)", "4x4"),
    Fault("alu.lanes", "m.d.sync += within", "m.d.comb += within"),
    Fault("alu.lanes", "exact_log2(TABLE_ENTRIES)", "exact_log2(TABLE_ENTRIES) - 1"),
    Fault("alu.lanes", "word_select(within, lane).as_signed()", "word_select(within, lane)"),
    Fault("alu.lanes", "me.other[:M0_BITS].as", "me.other[: M0_BITS - 1].as"),
    Fault("alu.lanes", "me.mac | me.times, product", "me.mac, product"),
    Fault("alu.lanes", "me.mac | me.times, product", "me.times, product"),
    # Stores
    Fault("store.unit", "Mux(partial, size.entry - 1, pairs)",
          "Mux(partial, size.entry - 2, pairs)"),
    Fault("store.unit", "Mux(f.up, f.x_stride << 1, f.x_stride)", "f.x_stride"),
    Fault("store.unit", "Mux(part != 0, me.distance, 0)", "me.distance", "4x4-dual"),
    Fault("store.unit", "number[-1].replicate", "number[0].replicate", "4x4-dual"),
    Fault("store.unit", "below ^ f.up", "below"),
    Fault("store.unit", "(x + 1 == f.wrap), f.y_stride, 0)", "(x == f.wrap), f.y_stride, 0)"),
    Fault("store.unit", "(x + 1 == f.wrap), f.y_stride, 0)", "(x + 1 == f.wrap), y_step, 0)"),
    Fault("store.unit", "pixel + x_step - back", "pixel + x_step"),
]  # fmt: skip
SOUND = Fault("frontend.control", "Fetch, the four queues", "Fetch, four queues")
"""No fault: only a docstring changes."""


@cache
def programs(name: str) -> tuple[Iterator[Wanted], list[Wanted]]:
    """Return an iterator over further programs, and the list of those generated so far."""
    return programs_from(SHAPES[name], 0, PROGRAMS), []


def each_program(name: str) -> Iterator[Wanted]:
    more, known = programs(name)
    for at in count():
        if at == len(known):
            try:
                known.append(next(more))
            except StopIteration:
                return
        yield known[at]


def found_by(fault: Fault, most: int | None = None) -> str | None:
    """Return the first symptom of a fault in the first programs; None without one."""
    programs = islice(each_program(fault.shape), most)
    return symptom(fault, BENCH, SHAPES[fault.shape], programs, difference)


@pytest.mark.slow_hw
@pytest.mark.jit
@each_fault(FAULTS)
def test_faults_are_found(fault: Fault) -> None:
    assert found_by(fault) is not None, f"no program shows {fault.new!r}"


@pytest.mark.heavy
@pytest.mark.sample(0.25)
@pytest.mark.jit
def test_a_sound_core_is_not_at_fault() -> None:
    """An import without a fault, in the same way: differences do not come from the import."""
    assert found_by(SOUND, most=20) is None


def imported_now() -> dict[str, ModuleType]:
    return {name: each for name, each in sys.modules.items() if name.startswith("hw.npu")}


def test_importing_a_fault_leaves_other_modules_unchanged() -> None:
    import_module("hw.npu.core_run")
    before = imported_now()
    with imported(FAULTS[0], BENCH) as module:
        assert module.CoreSimulator is not before["hw.npu.core_run"].CoreSimulator
    assert imported_now() == before
