"""The feature memory: four banks, reads of neighbouring vectors, and two writers.

A read takes a cycle. A store stalls in a cycle in which a flit is received into the same bank;
received data never waits.
"""

from __future__ import annotations

from typing import Any

from amaranth.hdl import Array, Cat, MemoryData, Module, Mux, Signal, Value, unsigned
from amaranth.lib import wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from hw.flow.sharing import shared
from hw.npu.shape import BANKS, NpuShape, Widths

HALVES = 2 * BANKS


def reads(size: Widths) -> wiring.Signature:
    """Return the ports of a reader.

    en : if 0, the vectors are kept
    vector : the first requested vector
    plane, word : instead, a word of all banks
    data : the vectors, a cycle later
    words : words of all banks
    """
    return wiring.Signature(
        {
            "en": Out(1),
            "vector": Out(size.map_address),
            "plane": Out(1),
            "word": Out(unsigned(len(Signal(size.map_address)) - 3)),
            "data": In(size.vector * size.loads),
            "words": In(2 * size.vector * BANKS),
        }
    )


class FeatureMemory(wiring.Component):
    """Feature memory.

    reads : see `reads`; a dual core has two, for the vectors that a load packs in pairs
    stored : a vector to write; `waits`: it is not written in this cycle
    received : a part of a vector to write, in any cycle
    """

    module_name = "npu_maps"

    def __init__(self, shape: NpuShape, banks: list[MemoryData]) -> None:
        self.shape, self.size, self.banks = shape, Widths(shape), banks
        size = self.size
        self.part = min(shape.payload_bits, size.vector)
        super().__init__(
            {
                "reads": In(reads(size)).array(2 if size.dual else 1),
                "stored": In(wiring.Signature({
                    "en": Out(1), "vector": Out(size.map_address), "data": Out(size.vector),
                    "waits": In(1),
                })),
                "received": In(wiring.Signature({
                    "en": Out(1), "vector": Out(size.map_address),
                    "part": Out(range(max(2, size.vector // self.part))), "data": Out(self.part),
                })),
            }
        )  # fmt: skip

    @property
    def module_parameters(self) -> tuple[Any, ...]:
        """Key of the shared module."""
        return (self.shape, *self.banks)

    @shared
    def elaborate(self, platform: Any) -> Module:
        m = Module()
        size, parts = self.size, self.size.vector // self.part
        stored: Any = self.stored
        received: Any = self.received
        ports: list[list[Any]] = []
        both = Signal()
        m.d.comb += [
            both.eq(stored.en & received.en & (stored.vector[1:3] == received.vector[1:3])),
            stored.waits.eq(both),
        ]
        for number, bank in enumerate(self.banks):
            m.submodules[f"bank{number}"] = memory = Memory(bank)
            ports.append([memory.read_port() for _ in self.reads])
            write: Any = memory.write_port(granularity=self.part)
            comes = received.en & (received.vector[1:3] == number)
            goes = stored.en & (stored.vector[1:3] == number) & ~both
            chosen = Mux(comes, received.vector, stored.vector)
            lanes = Mux(comes, 1 << received.part, Mux(goes, (1 << parts) - 1, 0))[:parts]
            m.d.comb += [
                write.addr.eq(chosen[3:]),
                write.data.eq(
                    Mux(comes, received.data.replicate(2 * parts), stored.data.replicate(2))
                ),
                write.en.eq(Mux(chosen[0], Cat(Value.cast(0).replicate(parts), lanes), lanes)),
            ]
        for number, read in enumerate(self.reads):
            first = Signal(range(HALVES))
            with m.If(read.en):
                m.d.sync += first.eq(read.vector[:3])
            halves = []
            for bank in range(BANKS):
                port = ports[bank][number]
                ahead = (bank - read.vector[1:3])[:2]
                word = ((read.vector >> 1) + ahead) >> 2
                m.d.comb += [
                    port.en.eq(read.en),
                    port.addr.eq(Mux(read.plane, read.word, word)),
                ]
                halves += [port.data[: size.vector], port.data[size.vector :]]
            chosen = Array(halves)
            m.d.comb += [
                read.words.eq(Cat(*halves)),
                read.data.eq(Cat(*(chosen[(first + j)[:3]] for j in range(size.loads)))),
            ]
        return m
