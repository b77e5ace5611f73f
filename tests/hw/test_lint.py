"""Verilator reports nothing for the Verilog except the warnings listed in docs/hardware.md."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from chipsim.chip.npu_shape import NPU_SHAPES
from hw.chip import ChipDesign
from hw.flow.netlist import netlist, verilog
from hw.flow.yosys import find_yosys
from hw.noc.mesh import Mesh
from hw.npu.chip import ChipParts, MixedChip
from hw.npu.memories.memories import Contents
from tests.hw.networks import TINY
from tests.hw.verilator import VERILATOR

pytestmark = [
    pytest.mark.jit,  # hardware has no kernels
    pytest.mark.skipif(VERILATOR is None or find_yosys() is None, reason="needs a Verilator"),
]
LISTED = re.findall(
    r"^\| `([A-Z]+)` \|", Path(__file__).parents[2].joinpath("docs/hardware.md").read_text(), re.M
)


def lint(text: str, folder: Path, *options: str) -> str:
    """Return the output of Verilator for a Verilog text."""
    (folder / "design.v").write_text(text)
    assert VERILATOR is not None
    done = subprocess.run(
        [*VERILATOR, "--lint-only", "-Wall", *options, "design.v"],
        cwd=folder, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert bool(done.returncode) == ("%" in done.stderr), done.stderr
    return done.stderr


def mixed() -> MixedChip:
    """Return a chip with two cores of either kind, one at the node of the host."""
    parts = ChipParts({(0, 0): Contents(), (1, 0): Contents()}, cores={(1, 1): None, (0, 0): None})
    return MixedChip(2, 2, NPU_SHAPES["tiny"], parts)


@pytest.mark.heavy
@pytest.mark.sample(1)
@pytest.mark.parametrize(
    "make",
    [
        lambda: Mesh(3, 2, 4, 3),
        lambda: ChipDesign(3, 2, TINY),
        lambda: ChipDesign(2, 2),
        pytest.param(mixed, marks=pytest.mark.slow_hw),
    ],
    ids=["mesh", "chip", "larger cores", "npu"],
)
def test_no_unlisted_warnings(make: Callable[[], Any], tmp_path: Path) -> None:
    text = verilog(netlist(make(), "top"))
    assert sorted(LISTED) == ["DECLFILENAME", "UNUSEDSIGNAL"]
    assert lint(text, tmp_path, *(f"-Wno-{name}" for name in LISTED)) == ""


def test_warnings_are_seen(tmp_path: Path) -> None:
    text = "module top(input [3:0] a, output [4:0] b); assign b = a; endmodule\n"
    assert "%Warning-WIDTHEXPAND" in lint(text, tmp_path)
