r"""Block RAM without read-write collisions, so that synthesis needs no extra logic for it.

A read port of Amaranth returns the old word if the same address is written in the same cycle. Block
RAM does not guarantee that, so synthesis adds address comparators and registers for words: for the
spiking core on an ECP5, a third of its LUTs and nearly half of its flip-flops. A memory with
``attrs=BLOCK_RAM`` declares that such words are never used. RTLIL for synthesis then leaves them
undefined, and Verilog has an attribute that tools recognise (Yosys, Quartus, and Diamond).

It also keeps shallow memories out of LUTs: on an ECP5 the 64 profiles of a core took 119 of its 711
LUTs, and take two of its 23 block RAMs.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

BLOCK_RAM = {"ram_style": "block", "no_rw_check": 1}
"""Attributes of a memory whose words are not read in the cycle of a write, or not used then."""

_ATTRIBUTES = 'ram_style = "block", no_rw_check, ramstyle = "no_rw_check"'
"""The same in Verilog."""

_MODULE = re.compile(r"^module \\(?P<name>\S+)\n.*?^end$", re.MULTILINE | re.DOTALL)
_MARKED = re.compile(r"^ *attribute \\no_rw_check 1\n *memory .*\\(?P<name>\S+)$", re.MULTILINE)
_READ = re.compile(r"^  cell \$memrd_v2 .*?^  end$", re.MULTILINE | re.DOTALL)
_MASK = re.compile(r"(parameter \\COLLISION_X_MASK \d+')(0+)$", re.MULTILINE)
_VERILOG = re.compile(r"^module (?P<name>\w+)\b.*?^endmodule$", re.MULTILINE | re.DOTALL)


def marked(text: str) -> Iterator[tuple[str, str]]:
    """Yield (module, memory) of the marked memories in RTLIL."""
    for module in _MODULE.finditer(text):
        yield from ((module["name"], memory["name"]) for memory in _MARKED.finditer(module[0]))


def unchecked(text: str) -> str:
    """Return RTLIL in which reads of marked memories are undefined in the cycle of a write."""
    found = set(marked(text))

    def opened(module: re.Match[str]) -> str:
        def read(cell: re.Match[str]) -> str:
            name = re.search(r'MEMID "\\\\(\S+)"', cell[0])
            if name is None or (module["name"], name[1]) not in found:
                return cell[0]
            return _MASK.sub(lambda mask: mask[1] + "1" * len(mask[2]), cell[0])

        return _READ.sub(read, module[0])

    return _MODULE.sub(opened, text) if found else text


def with_attributes(verilog: str, text: str) -> str:
    """Return Verilog with the attribute on the memories that are marked in its RTLIL."""
    found = set(marked(text))

    def told(module: re.Match[str]) -> str:
        body = module[0]
        for _, memory in (one for one in found if one[0] == module["name"]):
            line = re.compile(rf"^(  reg .*\b{memory} \[.*\];)$", re.MULTILINE)
            body = line.sub(rf"  (* {_ATTRIBUTES} *)\n\1", body)
        return body

    return _VERILOG.sub(told, verilog) if found else verilog
