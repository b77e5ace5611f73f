"""The NPU core: fetch, four parallel units, and their memories.

Data sheet: docs/npu.md.
"""

from __future__ import annotations

from typing import Any

from amaranth.hdl import Cat, Module, Mux
from amaranth.lib import stream, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from hw.flow.sharing import shared
from hw.npu.alu.unit import AluUnit
from hw.npu.flit import SIDE_BITS, Loaded, NpuFlit
from hw.npu.frontend.control import Control
from hw.npu.gemm.unit import GemmUnit
from hw.npu.isa.table import UNITS
from hw.npu.load.unit import LoadUnit
from hw.npu.memories.feature import FeatureMemory
from hw.npu.memories.memories import NOTHING, Contents, NpuMemories
from hw.npu.memories.receive import Receive, lanes_of
from hw.npu.shape import NpuShape, Widths
from hw.npu.steps import ADDRESS
from hw.npu.store.sending import SOURCES, Sending, place
from hw.npu.store.unit import StoreUnit
from hw.strobe import strobe


class NpuCore(wiring.Component):
    """NPU core.

    start : starts a frame, 1 for one cycle in which `busy` is 0
    first : its first instruction
    odd : it is an odd frame
    busy : the frame is in progress
    here, port : places of the core, and of the host port that it requests weights from
    flit : received flit, in any cycle
    sources : sent flits, see `hw.npu.store.sending`
    started, ended : per unit, for observation: an instruction starts in this cycle, or ends with it

    memories : memory contents, for simulations
    control : counters of streams and tokens, once the core is elaborated
    """

    module_name = "npu_core"

    def __init__(
        self, shape: NpuShape, contents: Contents = NOTHING,
        layout: NpuFlit | None = None,
    ) -> None:  # fmt: skip
        """layout : layout of flits; by default for the largest mesh"""
        self.shape, self.contents = shape, contents
        self.layout = layout or NpuFlit(shape, SIDE_BITS, SIDE_BITS)
        self.memories = NpuMemories(shape, contents)
        super().__init__(
            {
                "start": In(1),
                "first": In(ADDRESS),
                "odd": In(1),
                "busy": Out(1),
                "started": Out(len(UNITS)),
                "ended": Out(len(UNITS)),
                "here": In(place()),
                "port": In(place()),
                "flit": In(strobe(self.layout)),
                "sources": Out(stream.Signature(self.layout)).array(SOURCES),
            }
        )

    @property
    def module_parameters(self) -> tuple[Any, ...]:
        """Key of the shared module."""
        own = None if self.contents is NOTHING else self.memories
        return (self.shape, self.layout, own)

    @shared
    def elaborate(self, platform: Any) -> Module:
        m = Module()
        me: Any = self
        shape, memories = self.shape, self.memories
        m.submodules.control = control = Control(
            shape, memories.im, lanes_of(shape, self.layout, Loaded.IM), self.contents.streams
        )
        self.control = control
        m.submodules.maps = maps = FeatureMemory(shape, memories.fm)
        m.submodules.load = load = LoadUnit(shape, memories)
        m.submodules.gemm = gemm = GemmUnit(shape)
        m.submodules.alu = alu = AluUnit(shape)
        m.submodules.store = store = StoreUnit(shape)
        c: Any = control
        m.d.comb += [
            c.start.eq(me.start), c.first.eq(me.first), me.busy.eq(c.busy),
            me.started.eq(c.started), me.ended.eq(c.ended),
            load.odd.eq(me.odd), store.odd.eq(me.odd),
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
        m.submodules.receive = receive = Receive(shape, self.layout)
        m.submodules.sending = sending = Sending(shape, self.layout)
        mesh: tuple[Any, Any] = receive, sending
        self._connect_mesh(m, c, maps, load, store, mesh)
        self._buffers(m, load, gemm, alu, store, receive)
        self._tables(m, load, gemm, alu, receive)
        return m

    def _connect_mesh(
        self, m: Module, control: Any, maps: Any, load: Any, store: Any, mesh: tuple[Any, Any]
    ) -> None:  # fmt: skip
        """Connect received and sent flits."""
        me: Any = self
        receive, sending = mesh
        vector = store.vector
        m.d.comb += [
            receive.flit.valid.eq(me.flit.valid), receive.flit.payload.eq(me.flit.payload),
            receive.asks.eq(load.asks), receive.first.eq(load.first),
            receive.base.eq(control.registers.base_weights),
            maps.stored.en.eq(vector.en & vector.local), maps.stored.vector.eq(vector.vector),
            maps.stored.data.eq(vector.data),
            *(getattr(to, axis).eq(getattr(at, axis)) for axis in "xy"
              for to, at in ((sending.here, me.here), (sending.port, me.port))),
            vector.waits.eq(Mux(vector.local, maps.stored.waits, sending.vector.waits)),
            sending.vector.en.eq(vector.en & ~vector.local),
            *(getattr(sending.vector, name).eq(getattr(vector, name))
              for name in ("vector", "data", "local", "host", "x", "y", "stream")),
            sending.sends.eq(control.sends), control.blocked.eq(sending.blocked),
            *(to.eq(word) for to, word in zip(sending.words, control.words, strict=True)),
            *(control.counts[number].eq(count) for number, count in enumerate(receive.counts)),
        ]  # fmt: skip
        wiring.connect(m, receive.map, maps.received)
        wiring.connect(m, load.request, sending.request)
        wiring.connect(m, receive.im, control.load)
        for source, own in zip(sending.sources, me.sources, strict=True):
            wiring.connect(m, source, wiring.flipped(own))

    def _buffers(
        self, m: Module, load: Any, gemm: Any, alu: Any, store: Any, receive: Any
    ) -> None:  # fmt: skip
        """Build INP, WM, ACC and OUT."""
        memories, size = self.memories, Widths(self.shape)
        m.submodules.inp = inp = Memory(memories.inp)
        for write in load.inputs:
            _connect_write(m, inp.write_port(), write)
        read = inp.read_port()
        m.d.comb += [read.addr.eq(gemm.input), gemm.vector.eq(read.data)]

        m.d.comb += gemm.arrived.eq(receive.arrived)
        m.submodules.wm = wm = Memory(memories.wm)
        lanes = len(receive.weights.en)
        write = wm.write_port(granularity=len(receive.weights.data) // lanes)
        _connect_write(m, write, receive.weights)
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

    def _tables(self, m: Module, load: Any, gemm: Any, alu: Any, receive: Any) -> None:
        """Build PM, UM and HM."""
        memories, size = self.memories, Widths(self.shape)
        m.submodules.pm = pm = Memory(memories.pm)
        _connect_both(m, pm, load.parameters, receive.pm)
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
        _connect_both(m, um, load.micro_ops[0], receive.um)
        for write in list(load.micro_ops)[1:]:
            _connect_write(m, um.write_port(), write)
        for unit in (gemm, alu):
            read = um.read_port()
            m.d.comb += [read.addr.eq(unit.uop), unit.micro_op.eq(read.data)]
            if unit is gemm:
                m.d.comb += read.en.eq(~gemm.holds)
        m.submodules.hm = hm = Memory(memories.hm)
        _connect_both(m, hm, load.headers[0], receive.hm)
        for write in list(load.headers)[1:]:
            _connect_write(m, hm.write_port(), write)
        read = hm.read_port()
        m.d.comb += [
            read.addr.eq(load.head), read.en.eq(load.reads_header), load.header.eq(read.data),
        ]  # fmt: skip


def _connect_both(m: Module, memory: Memory, write: Any, loaded: Any) -> None:
    """Add a write port for LOAD and for words that are loaded before the first frame."""
    lanes = len(loaded.en)
    port: Any = memory.write_port(granularity=len(loaded.data) // lanes)
    loads = loaded.en.any()
    m.d.comb += [
        port.addr.eq(Mux(loads, loaded.addr, write.addr)),
        port.data.eq(Mux(loads, loaded.data, write.data)),
        port.en.eq(Mux(loads, loaded.en, write.en.replicate(lanes))),
    ]


def _connect_write(m: Module, port: Any, write: Any) -> None:
    m.d.comb += [port.addr.eq(write.addr), port.data.eq(write.data), port.en.eq(write.en)]
