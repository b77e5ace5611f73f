"""Models with host nodes between functions, on several cores."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from chipsim.chip.host import ChipHost
from chipsim.chip.model import Chip
from chipsim.chip.npu_shape import NpuShape
from mapper.compiler.artifacts.chip_hardware import check_hardware
from mapper.compiler.artifacts.cycles import chip_of, run_cycles, run_frames
from mapper.compiler.artifacts.manifest import CompiledFolder, Target
from mapper.compiler.artifacts.simulate import simulate
from mapper.compiler.artifacts.verify import verify_compiled
from mapper.compiler.log import CompileLog
from mapper.compiler.model import open_model
from mapper.compiler.multicore import plan
from mapper.compiler.multicore.job import CompileJob, Made, Whole
from mapper.compiler.multicore.line_buffers.lines import lines_of
from mapper.compiler.multicore.spread import on_cores, usable_places
from mapper.compiler.pipeline import compile_model
from mapper.compiler.settings import CompileSettings
from mapper.errors import CheckFailedError
from storage.samples import SampleArrays
from tests.compiler.multicore.test_programs import placed_anywhere
from tests.compiler.programs import SHAPE, folder_of
from tests.hw.npu.test_models import FOUR
from tests.storage.formats.onnx_models import model, node, onnx

pytestmark = pytest.mark.jit
CHIP = Chip("mesh", 3, 2, unavailable=(4,))
FRAMES = 3


def conv(inputs: str, output: str = "y") -> Any:
    return node("Conv", inputs, output, pads=[1, 1, 1, 1])


NODES: dict[str, list[Any]] = {
    "between": [conv("x a", "c"), node("Asinh", "c", "s"), conv("s b", "d"), node("Relu", "d")],
    # the second function reads a map of the first one, which the host reads as well
    "skip": [
        conv("x a", "c"), node("Asinh", "c", "s"), conv("s b", "d"), node("Add", "c d", "e"),
        node("Relu", "e"),
    ],
    # both functions read the input
    "input": [
        conv("x a", "c"), node("Asinh", "c", "s"), conv("s b", "d"), node("Add", "d x", "e"),
        node("Relu", "e"),
    ],
    "three": [
        conv("x a", "c"), node("Asinh", "c", "s"), conv("s b", "d"), node("Relu", "d", "r"),
        node("Softplus", "r", "p"), node("Asinh", "p", "q"), conv("q b", "g"),
        node("Add", "g c"),
    ],
    "ends": [
        conv("x a", "c"), node("Asinh", "c", "s"), conv("s b", "d"),
        node("GlobalAveragePool", "d", "f"), node("Flatten", "f", "h"), node("Softmax", "h"),
    ],
}  # fmt: skip
HOW = CompileSettings(method="minmax", min_signal=-100, max_loss=100)


def compiled(
    nodes: list[Any], folder: Path, shape: NpuShape = SHAPE, chip: Chip = CHIP,
    image: tuple[int, int] = (8, 8), **settings: Any,
) -> tuple[CompiledFolder, Any, list[str]]:  # fmt: skip
    """Return a compiled model, samples, and the notes of the compiler."""
    random = np.random.default_rng(0)
    constants = {name: (random.normal(0, 1, (6, 6, 3, 3)) / 7).astype(np.float32) for name in "ab"}
    made = model(nodes, constants, {"x": (1, 6, *image)})
    onnx.save(made, str(folder / "model.onnx"))
    samples = random.normal(0, 1, (6, 6, *image)).astype(np.float32)
    how = replace(HOW, **settings)
    result = compile_model(
        open_model(folder / "model.onnx"), shape, SampleArrays(samples, None, []), how, chip=chip
    )
    return folder_of(result, Target(chip, shape, how)), samples, result.log


@pytest.mark.heavy
@pytest.mark.sample(0.5)
@pytest.mark.parametrize("name", NODES)
@pytest.mark.parametrize("bits", [8, 16])
def test_functions_on_different_cores(name: str, bits: int, tmp_path: Path) -> None:
    """Results of one core, of the reference, and of overlapping frames."""
    shape = replace(SHAPE, multiplier="dual") if bits == 16 else SHAPE
    found, samples, _ = compiled(NODES[name], tmp_path, shape, bits=bits)
    functions = found.manifest["functions"]
    assert found.is_spread and len(functions) == (3 if name == "three" else 2)
    assert len(found.images) >= len(functions)
    assert verify_compiled(found)["cores"] == len(found.images)
    outcome = simulate(found, samples, threads=1, check=True)
    assert {one.differences for one in outcome.compared} == {0}
    single, _, _ = compiled(NODES[name], tmp_path, shape, bits=bits, cores=1)
    wanted = simulate(single, samples, threads=1, check=False)
    for result, values in wanted.values.items():
        assert np.array_equal(outcome.values[result], values)
    assert run_frames(found, samples, 6).bytes > 0


def test_parts_of_a_concatenation_that_nothing_reads(tmp_path: Path) -> None:
    """They are computed for all rows that other parts have, as the whole is compared."""
    nodes = [
        conv("x a", "c"), conv("c b", "d"), node("Concat", "d c", "e", axis=1),
        node("Split", "e", "f g", axis=1), node("Relu", "g"),
    ]  # fmt: skip
    found, samples, _ = compiled(nodes, tmp_path)
    assert found.is_spread
    rows = {tuple(one["rows"]) for one in found.manifest["maps"] if one["name"] == "d"}
    assert rows == {(0, 8)}
    outcome = simulate(found, samples, threads=1, check=True)
    assert {one.differences for one in outcome.compared} == {0}


@pytest.mark.parametrize("cores", [1, None])
def test_columns_of_maps_that_the_host_joins(cores: int | None, tmp_path: Path) -> None:
    """Layers read some columns of a map whose parts the host writes next to each other."""
    nodes = [
        conv("x a", "c"), node("Asinh", "c", "s"), node("Asinh", "s", "t"),
        node("Concat", "s t", "u", axis=3), node("Split", "u", "v w", axis=3),
        conv("v b", "d"), conv("w a", "e"), node("Add", "d e", "f"), node("Relu", "f"),
    ]  # fmt: skip
    found, samples, _ = compiled(nodes, tmp_path, cores=cores)
    assert found.is_spread == (cores is None)
    assert any(one["name"] == "u" for one in found.manifest["maps"])
    verify_compiled(found)
    outcome = simulate(found, samples, threads=1, check=True)
    assert {one.differences for one in outcome.compared} == {0}


def in_lines(job: CompileJob, chip: Chip, log: CompileLog) -> Made:
    """Distribute the layers of each function over two cores with narrow line buffers."""
    whole, places = Whole.of(job), usable_places(chip)
    placed = [
        (piece, places[2 * whole.functions[piece.macro] + at % 2])
        for at, (piece, _) in enumerate(placed_anywhere(1, job, chip))
    ]
    lines = lines_of(whole, job.shape, len(places))
    return on_cores(job, placed, places[:1], log, lines)


@pytest.mark.parametrize("name", ["between", "skip", "input"])
def test_functions_with_line_buffers(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A map that a function reads with results of the host is kept whole: the host needs all
    results of the function before."""
    monkeypatch.setattr("mapper.compiler.pipeline.spread", in_lines)
    monkeypatch.setattr(plan, "SLACKS", (0.0,))
    found, samples, _ = compiled(NODES[name], tmp_path, image=(4, 40), few_channels="off")
    assert any("ring" in one for one in found.manifest["maps"])
    verify_compiled(found)
    assert run_frames(found, samples, 3).bytes > 0


@pytest.mark.heavy
@pytest.mark.sample(0.5)
def test_the_host_bounds_the_period(tmp_path: Path) -> None:
    """The work of a slow host is as long as the period, and the report names it."""
    slow = replace(CHIP, host=ChipHost(operations=0.25))
    found, _, log = compiled(NODES["between"], tmp_path, chip=slow)
    elements = 6 * 8 * 8
    work = 64 + 4 * 3 * elements  # a map read, one node, a map written
    assert found.manifest["functions"][1]["host_cycles"] == work
    report = run_frames(found, None, 12).report
    assert report.bound == (work, "host")
    assert report.period == work
    assert f"host: {work:,} cycles per frame between functions, which bounds" in str(log)
    found, _, _ = compiled(NODES["three"], tmp_path, chip=slow)
    cycles = [one["host_cycles"] for one in found.manifest["functions"]]
    assert cycles == [0, work, work + 4 * 2 * elements]  # two nodes more
    report = run_frames(found, None, 60).report
    assert report.bound == (sum(cycles), "host")
    assert report.mean == pytest.approx(sum(cycles), rel=0.03)


@pytest.mark.heavy
@pytest.mark.sample(0.5)
def test_a_wide_model_is_faster_on_many_cores(tmp_path: Path) -> None:
    """Six times and more, on 4x4 cores, with a host node in the middle."""
    random = np.random.default_rng(1)
    width = 32
    constants = {
        name: (random.normal(0, 1, (width, width, 3, 3)) / 17).astype(np.float32) for name in "ab"
    }
    nodes = [
        conv("x a", "c"), node("Relu", "c", "d"), conv("d b", "e"), node("Relu", "e", "f"),
        node("MaxPool", "f", "g", kernel_shape=[4, 4], strides=[4, 4]), node("Asinh", "g", "h"),
        conv("h a", "i"), node("Relu", "i"),
    ]  # fmt: skip
    onnx.save(model(nodes, constants, {"x": (1, width, 24, 24)}), str(tmp_path / "model.onnx"))
    samples = SampleArrays(random.normal(0, 1, (4, width, 24, 24)).astype(np.float32), None, [])
    chip = Chip("square", 4, 4, npu=SHAPE)
    folders = []
    for cores in (None, 1):
        how = replace(HOW, cores=cores)
        result = compile_model(open_model(tmp_path / "model.onnx"), SHAPE, samples, how, chip=chip)
        folders.append(folder_of(result, Target(chip, SHAPE, how)))
    many, one = folders
    assert len(many.images) >= chip.cores - 1
    alone = sum(times.cycles for times in run_cycles(one, None).times)
    mean = run_frames(many, None, 20).report.mean
    assert mean is not None and alone > 6 * mean


@pytest.mark.heavy
@pytest.mark.sample(0.5)
def test_functions_that_do_not_fit_the_cores(tmp_path: Path) -> None:
    pair = Chip("pair", 2, 1)
    found, samples, log = compiled(NODES["three"], tmp_path, chip=pair)
    assert not found.is_spread
    assert any("between its 3 functions, the chip has 2 cores" in line for line in log)
    small = replace(SHAPE, name="small", map_vectors=112)
    found, samples, log = compiled(NODES["between"], tmp_path, small, pair)
    if not found.is_spread:
        assert any("runs on one core: " in line for line in log)
    assert {one.differences for one in simulate(found, samples, 1, True).compared} == {0}


@pytest.mark.heavy
@pytest.mark.sample(0.5)
def test_low_latency_keeps_functions_apart(tmp_path: Path) -> None:
    found, samples, _ = compiled(NODES["between"], tmp_path, objective="latency")
    assert found.is_spread and verify_compiled(found)
    assert run_frames(found, samples, 4).bytes > 0


DAMAGE = {
    "span": (lambda m: m["functions"][0]["spans"].reverse(), "a core computes one function"),
    "input": (
        lambda m: [each.update(function=1) for one in m["cores"] for each in one["brought"]],
        "does not write before",
    ),
    "result": (
        lambda m: m["functions"][0].update(received=[]) or m["functions"][1].update(received=[]),
        "vectors that it does not wait for",
    ),
    "early": (
        lambda m: (
            m["functions"][0]["received"].extend(m["functions"][1]["received"])
            or m["functions"][1].update(received=[])
        ),
        "a result of function 0",
    ),
}


@pytest.mark.heavy
@pytest.mark.sample(0.5)
def test_damaged_functions_are_found(tmp_path: Path) -> None:
    for damage, says in DAMAGE.values():
        found, _, _ = compiled(NODES["between"], tmp_path)
        damage(found.manifest)
        with pytest.raises(CheckFailedError, match=says):
            verify_compiled(found)


@pytest.mark.slow_hw
@pytest.mark.parametrize("name", ["between", "skip", "three"])
def test_hardware_with_stages_of_the_host(name: str, tmp_path: Path) -> None:
    """Every byte and every cycle of frames with work of the host between functions."""
    square = Chip("square", 2, 2, npu=FOUR)
    found, samples, _ = compiled(NODES[name], tmp_path, FOUR, square)
    assert found.is_spread
    assert {port.inputs.stage.max() for port in chip_of(found).hosts} == {
        len(found.manifest["functions"]) - 1
    }
    run = check_hardware(found, samples[:FRAMES])
    assert run.frames == FRAMES and run.bytes
