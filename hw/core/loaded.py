"""Memories that are written through the load port of their core."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from amaranth.hdl import MemoryData, Module
from amaranth.lib.memory import Memory, ReadPort

from hw.core.shape import CoreShape, DestinationTable
from hw.flow.memories import BLOCK_RAM

if TYPE_CHECKING:
    from hw.tables import CoreTables

Memories = dict[DestinationTable, MemoryData]
"""Word shape, depth and initial contents of each table of a core except its sums."""


def memories_of(shape: CoreShape, tables: CoreTables | None = None) -> Memories:
    """Return the memories of a core with `tables` as initial contents, or zeros."""
    return {
        table: MemoryData(
            shape=word, depth=depth, init=[] if tables is None else tables.rows(table)
        )
        for table, (word, depth) in shape.memories.items()
        if table != DestinationTable.SUMS
    }


def loaded_memory(m: Module, memories: Memories, table: DestinationTable, load: Any) -> ReadPort:
    """Add the memory of a table and its write logic to `m`; return its read port.

    The write logic is a separate module, so that a simulator evaluates it only when words are
    loaded, not whenever the surrounding logic changes.

    load : strobe of words of layout `CoreShape.load`
    """
    name = table.name.lower()
    m.submodules[name] = memory = Memory(memories[table], attrs=BLOCK_RAM)
    m.submodules[f"{name}_writer"] = writer = Module()
    write: Any = memory.write_port()
    word = load.payload
    writer.d.comb += [
        write.addr.eq(word.address),
        write.data.eq(word.data),
        write.en.eq(load.valid & (word.table == table)),
    ]
    return memory.read_port()
