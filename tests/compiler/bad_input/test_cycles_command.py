"""`simulate --cycles` of a compiled model: R11.3, N12.1, N12.2."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from chipsim.npu.execute import Frame
from chipsim.npu.mesh.chip import MeshChip
from chipsim.npu.records import FIELDS, KINDS, Op
from chipsim.npu.replay import Results, overlapped
from hw.npu.flit import NpuFlit
from hw.npu.loading import contents_flits
from hw.npu.memories.memories import Contents
from mapper.compiler.artifacts import cycles
from mapper.compiler.artifacts.manifest import CompiledFolder, read_folder
from tests.compiler.bad_input.good import compile_good
from tests.mapper.conftest import Run

pytestmark = pytest.mark.jit
ROOT = Path(__file__).resolve().parents[3]
UNITS = ["LOAD", "GEMM", "ALU", "STORE"]


def test_times_alone(out: Path, run: Run) -> None:
    found = run("simulate", "out", "--cycles", "--json").json()["cycle_run"]
    report = json.loads((out / "report.json").read_text())
    assert found["cycles"] == report["cycles"]
    assert found["bytes_compared"] == 0
    (core,) = found["cores"]
    assert list(core["busy"]) == UNITS
    for unit in UNITS:
        assert core["busy"][unit] == round(report["busy"][unit] * report["cycles"])
        assert core["busy"][unit] + sum(core["waits"][unit].values()) == found["cycles"]
    assert report["simulation"]["cycle_run"] == found


def test_bytes_equal_the_functional_run(out: Path, run: Run) -> None:
    found = run("simulate", "out", "--input", "samples.npz", "--cycles", "--json").json()
    assert found["frames"] == 6
    assert found["cycle_run"]["bytes_compared"] == 8192 * 16
    text = run("simulate", "out", "--input", "samples.npz", "--cycles", "--check", "--details").out
    for piece in (
        "cycles per frame",
        "units of core (0, 0)",
        "stall: token of GEMM",
        "differences",
    ):
        assert piece in text


def test_a_core_with_external_memory(folder: Path, run: Run) -> None:
    """Its loads and stores share one path; times equal the compiler's estimate."""
    compile_good(folder, run, "--chip", "1x1", "--npu", "ref32")
    found = run("simulate", "out", "--input", "samples.npz", "--cycles", "--json").json()
    assert found["cycle_run"]["cycles"] == json.loads(Path("out/report.json").read_text())["cycles"]
    assert found["cycle_run"]["bytes_compared"] > 0
    (core,) = found["cycle_run"]["cores"]
    for unit in UNITS:
        assert (
            core["busy"][unit] + sum(core["waits"][unit].values()) == found["cycle_run"]["cycles"]
        )


@pytest.mark.heavy
@pytest.mark.sample(0.25)
def test_a_core_in_amaranth(out: Path, run: Run) -> None:
    """N12.1: bytes of the feature memory, and all instructions of a frame."""
    options = ("--input", "samples.npz", "--limit", "1", "--cycles", "--hardware", "--json")
    found = run("simulate", "out", *options).json()
    hardware = found["hardware"]
    assert (hardware["frames"], hardware["flits"], hardware["bytes"]) == (1, 0, 8192 * 16)
    assert hardware["cycles"] == found["cycle_run"]["cycles"]
    folder = read_folder(out)
    (image,) = folder.images.values()
    ends = len(folder.manifest["functions"])
    assert 0 < hardware["instructions"] <= len(image.instructions) // 16 - ends + 1


def test_hardware_needs_samples(out: Path, run: Run) -> None:
    found = run("simulate", "out", "--cycles", "--hardware")
    assert found.code == 2
    assert "--hardware: needs samples; add --input" in found.err


def test_cores_without_hardware(folder: Path, run: Run) -> None:
    """External memory exists only in simulators: one line, exit code 3."""
    compile_good(folder, run, "--chip", "1x1", "--npu", "ref32")
    found = run("simulate", "out", "--input", "samples.npz", "--hardware")
    assert found.code == 3
    assert found.err.count("\n") == 1
    assert "map_vectors is 0" in found.err and "feature memory is only simulated" in found.err


def flits_that_load(out: Path) -> int:
    """Return the flits that the hardware's host sends before the first frame."""
    folder = read_folder(out)
    shape = folder.shape
    layout = NpuFlit(shape, 1, 1)
    count = len(folder.images)  # one start flit per core
    for (x, y), image in folder.images.items():
        mine = [one for one in folder.manifest["cores"] if (one["x"], one["y"]) == (x, y)]
        streams = mine[0]["streams"]
        counts = [dict(map(tuple, streams)).get(stream, 0) for stream in range(16)]
        held = Contents(
            [0] * (len(image.instructions) // 16), [0] * (len(image.micro_ops) // 8),
            [0] * (len(image.headers) // 8), image.parameters, image.weights, image.maps, counts,
        )  # fmt: skip
        count += len(list(contents_flits(shape, layout, (x, y), held)))
    return count


@pytest.mark.heavy
@pytest.mark.sample(0.25)
def test_frames_on_several_cores(spread: Path, run: Run) -> None:
    """N12.2: latency, period, frames per second, bottleneck of the period, link loads."""
    options = ("--cycles", "--frames", "30", "--clock", "100", "--json")
    found = run("simulate", "out", "--input", "samples.npz", *options).json()["cycle_run"]
    assert found["frames"] == 30
    assert found["bytes_compared"] > 8192 * 16
    assert len(found["cores"]) > 1
    assert found["loading"] == flits_that_load(spread)
    assert found["latency"] > found["period"] >= found["bound"]["cycles"] > 0
    assert found["frames_per_second"] == pytest.approx(1e8 / found["mean_period"])
    for core in found["cores"]:
        assert core["alone"] <= found["period"]
        for unit in UNITS:
            assert core["busy"][unit] + sum(core["waits"][unit].values()) == found["cycles"]
    assert found["busiest_link"] == max(one["flits"] for one in found["links"])
    assert found["flit_hops"] == sum(one["flits"] for one in found["links"])
    report = json.loads((spread / "report.json").read_text())
    assert report["simulation"]["cycle_run"] == found
    schema = json.loads((ROOT / "docs/schemas/compiled-report.schema.json").read_text())
    assert set(found) <= set(schema["$defs"]["CycleRun"]["properties"])


@pytest.mark.heavy
@pytest.mark.sample(0.25)
def test_times_of_several_cores_alone(spread: Path, run: Run) -> None:
    found = run("simulate", "out", "--cycles", "--json").json()["cycle_run"]
    assert (found["frames"], found["bytes_compared"]) == (20, 0)
    text = run("simulate", "out", "--cycles", "--frames", "3").out
    for piece in ("latency", "initiation interval", "bottleneck", "at 500 MHz", "(0, 0)"):
        assert piece in text
    page = (spread / "report.html").read_text()
    assert "Cycle-accurate run of 3 frames" in page
    assert "Initiation interval, cycles" in page


@pytest.mark.parametrize("option", [("--frames", "3"), ("--clock", "100")])
def test_frames_need_cycles_and_several_cores(out: Path, run: Run, option: tuple[str, str]) -> None:
    found = run("simulate", "out", "--cycles", *option)
    assert found.code == 2
    assert "--frames, --clock: need several cores; out runs on one" in found.err
    found = run("simulate", "out", "--input", "samples.npz", *option)
    assert found.code == 2
    assert "add --cycles" in found.err


@pytest.mark.heavy
@pytest.mark.sample(0.25)
def test_early_reads_are_reported(spread: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Loads that do not wait for data from other cores."""
    chip_of = cycles.chip_of

    def hasty(folder: CompiledFolder) -> MeshChip:
        chip = chip_of(folder)
        for program in chip.programs.values():
            waits = (program.op == Op.CTRL) & (program.kind == KINDS[Op.CTRL].index("WAIT"))
            program.fields[waits, FIELDS[Op.CTRL, 1].index("count")] = 0
        return chip

    monkeypatch.setattr(cycles, "chip_of", hasty)
    found = run("simulate", "out", "--input", "samples.npz", "--cycles")
    assert found.code == 1
    assert "changes while it runs" in found.err or "differ from" in found.err


@pytest.mark.heavy
@pytest.mark.sample(0.5)
@pytest.mark.parametrize("what", ["results", "maps"])
def test_different_bytes_are_reported(
    spread: Path, run: Run, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    """Change one byte of the host's result of frame 1, or of a core's maps after the last frame."""

    def damaged(*arguments: Any) -> tuple[list[Results], Frame]:
        found, frame = overlapped(*arguments)
        if what == "results":
            found[1].vectors[0, 0] ^= 1
        else:
            core = frame.chip.cores[-1]
            frame.load(core, 5, frame.read(core, 5, (1,), (1,)) ^ 1)
        return found, frame

    monkeypatch.setattr(cycles, "overlapped", damaged)
    found = run("simulate", "out", "--input", "samples.npz", "--cycles")
    assert found.code == 1
    told = {
        "results": "results of frame 1 differ from sequential execution",
        "maps": "bytes differ from sequential execution, the first in vector 5",
    }
    assert told[what] in found.err
