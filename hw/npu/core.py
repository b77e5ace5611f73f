"""The NPU core: fetch, four units that work side by side, and their memories.

Data sheet: docs/npu.md.
"""

from __future__ import annotations

from typing import Any

from amaranth.hdl import Cat, Module
from amaranth.lib import wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from hw.npu.alu import AluUnit
from hw.npu.control import Control
from hw.npu.feature import FeatureMemory
from hw.npu.gemm import GemmUnit
from hw.npu.isa import UNITS
from hw.npu.load import LoadUnit
from hw.npu.memories import Contents, NpuMemories
from hw.npu.shape import NpuShape, Widths
from hw.npu.store import StoreUnit


class NpuCore(wiring.Component):
    """Ports

    start : begins a frame, 1 for one cycle in which `busy` is 0; odd : it is an odd one
    busy : the frame is under way
    started, ended : per unit, an instruction starts in this cycle, or ends with it; to watch

    memories : what they hold, for simulations
    """

    module_name = "npu_core"

    def __init__(self, shape: NpuShape, contents: Contents = Contents()) -> None:  # noqa: B008
        self.shape, self.contents = shape, contents
        self.memories = NpuMemories(shape, contents)
        super().__init__(
            {
                "start": In(1),
                "odd": In(1),
                "busy": Out(1),
                "started": Out(len(UNITS)),
                "ended": Out(len(UNITS)),
            }
        )

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        me: Any = self
        shape, memories = self.shape, self.memories
        m.submodules.control = control = Control(shape, memories.im)
        m.submodules.maps = maps = FeatureMemory(shape, memories.fm)
        m.submodules.load = load = LoadUnit(shape, memories)
        m.submodules.gemm = gemm = GemmUnit(shape)
        m.submodules.alu = alu = AluUnit(shape)
        m.submodules.store = store = StoreUnit(shape)
        c: Any = control
        m.d.comb += [
            c.start.eq(me.start), me.busy.eq(c.busy), me.started.eq(c.started),
            me.ended.eq(c.ended), load.odd.eq(me.odd), store.odd.eq(me.odd),
            load.base.eq(c.registers.base_load), load.distance.eq(c.registers.load_src),
            store.base.eq(c.registers.base_store), store.distance.eq(c.registers.store_src),
            gemm.base.eq(c.registers.base_weights),
            gemm.acc_distance.eq(c.registers.gemm_acc), gemm.wgt_distance.eq(c.registers.gemm_wgt),
        ]  # fmt: skip
        units: list[Any] = [load, gemm, alu, store]
        for number, unit in enumerate(units):
            m.d.comb += [
                unit.word.eq(c.word[number]),
                unit.starts.eq(c.starts[number]),
                c.ends[number].eq(unit.ends),
            ]
        for read, port in zip(load.maps, maps.reads, strict=True):
            wiring.connect(m, read, port)
        m.d.comb += [
            maps.stored.en.eq(store.vector.en), maps.stored.vector.eq(store.vector.vector),
            maps.stored.data.eq(store.vector.data), store.vector.waits.eq(maps.stored.waits),
        ]  # fmt: skip
        self._buffers(m, load, gemm, alu, store)
        self._tables(m, load, gemm, alu)
        return m

    def _buffers(self, m: Module, load: Any, gemm: Any, alu: Any, store: Any) -> None:
        """INP, WM, ACC and OUT."""
        memories, size = self.memories, Widths(self.shape)
        m.submodules.inp = inp = Memory(memories.inp)
        for write in load.inputs:
            _connect_write(m, inp.write_port(), write)
        read = inp.read_port()
        m.d.comb += [read.addr.eq(gemm.input), gemm.vector.eq(read.data)]

        m.submodules.wm = wm = Memory(memories.wm)
        for address, rows in zip(gemm.weights, gemm.rows, strict=True):
            read = wm.read_port()
            m.d.comb += [read.addr.eq(address), rows.eq(read.data)]

        m.submodules.acc = acc = Memory(memories.acc)
        for write in load.sums:
            _connect_write(m, acc.write_port(), write)
        products = [acc.write_port() for _ in gemm.sums]
        for port, write in zip(products, gemm.sums, strict=True):
            _connect_write(m, port, write)
        for entry, found in zip(gemm.entry, gemm.acc, strict=True):
            read = acc.read_port(transparent_for=products)
            m.d.comb += [read.addr.eq(entry), found.eq(read.data)]
        calculated = acc.write_port(granularity=size.acc)
        _connect_write(m, calculated, alu.sums)
        for entry, found in zip(alu.entry, alu.acc, strict=True):
            read = acc.read_port(transparent_for=[calculated])
            m.d.comb += [read.addr.eq(entry), found.eq(read.data)]

        m.submodules.out = out = Memory(memories.out)
        _connect_write(m, out.write_port(granularity=alu.grain), alu.results)
        for memory, found in ((out, store.result), (acc, store.acc)):
            read = memory.read_port()
            m.d.comb += [read.addr.eq(store.entry), read.en.eq(~store.holds), found.eq(read.data)]

    def _tables(self, m: Module, load: Any, gemm: Any, alu: Any) -> None:
        """PM, UM and HM."""
        memories, size = self.memories, Widths(self.shape)
        m.submodules.pm = pm = Memory(memories.pm)
        _connect_write(m, pm.write_port(), load.parameters)
        asks = [(load.parameter, load.words)]
        asks += list(zip(gemm.words, gemm.bias, strict=True))
        asks += list(zip(alu.words, alu.parameters, strict=True))
        for first, found in asks:
            words = []
            for number in range(size.words):
                read = pm.read_port()
                m.d.comb += read.addr.eq(first + number)
                words.append(read.data)
            m.d.comb += found.eq(Cat(*words))
        read = pm.read_port()
        m.d.comb += [read.addr.eq(alu.head), alu.record.eq(read.data)]

        m.submodules.um = um = Memory(memories.um)
        for write in load.micro_ops:
            _connect_write(m, um.write_port(), write)
        for unit in (gemm, alu):
            read = um.read_port()
            m.d.comb += [read.addr.eq(unit.uop), unit.micro_op.eq(read.data)]
            if unit is gemm:
                m.d.comb += read.en.eq(~gemm.holds)
        m.submodules.hm = hm = Memory(memories.hm)
        for write in load.headers:
            _connect_write(m, hm.write_port(), write)
        read = hm.read_port()
        m.d.comb += [
            read.addr.eq(load.head), read.en.eq(load.reads_header), load.header.eq(read.data),
        ]  # fmt: skip


def _connect_write(m: Module, port: Any, write: Any) -> None:
    m.d.comb += [port.addr.eq(write.addr), port.data.eq(write.data), port.en.eq(write.en)]
