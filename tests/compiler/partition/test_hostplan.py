"""The host plan, and models that alternate between cores and host."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from chipsim.chip.npu_shape import NpuShape
from mapper.compiler.artifacts.manifest import read_folder
from mapper.compiler.artifacts.simulate import Outcome, simulate
from mapper.compiler.frontend.float import FLOAT
from mapper.compiler.frontend.onnx import Reader
from mapper.compiler.numerics.execute import run_graph
from mapper.compiler.numerics.formulas import dequantise, quantise
from mapper.compiler.numerics.reference import INTEGER
from tests.compiler.programs import DUAL, SHAPE, Made, compiled_model
from tests.mapper.conftest import Run
from tests.storage.formats.onnx_models import model, node, onnx

pytestmark = pytest.mark.jit


def conv(inputs: str, output: str = "y") -> Any:
    """Return a convolution of 3x3 that keeps the map size."""
    return node("Conv", inputs, output, pads=[1, 1, 1, 1])


NODES = {
    # two layers on the cores, one on the host, and a host branch that is joined on cores again
    "between": [
        conv("x a", "c"),
        node("Asinh", "c", "s"),
        conv("s b", "d"),
        node("Relu", "d"),
    ],
    "feeds back": [
        conv("x a", "c"),
        node("Relu", "c", "r"),
        node("Asinh", "r", "t"),
        conv("t b", "d"),
        node("Add", "r d", "e"),
        node("Asinh", "e", "f"),
        conv("f a", "g"),
        node("Add", "g e"),
    ],
    "two branches": [
        conv("x a", "c"),
        node("Asinh", "c", "s"),
        node("Softplus", "c", "p"),
        node("Mul", "s p", "m"),
        conv("m b", "d"),
        conv("c b", "e"),
        node("Add", "d e", "f"),
        node("GlobalAveragePool", "f", "g"),
        node("Flatten", "g", "h"),
        node("Softmax", "h"),
    ],
    "host first": [
        node("Sin", "x", "s"),
        conv("s a", "c"),
        node("Relu", "c"),
    ],
    "seen otherwise": [
        conv("x a", "c"),
        node("Asinh", "c", "s"),
        node("Transpose", "s", "t", perm=[0, 2, 3, 1]),
        node("Softmax", "t", "u", axis=3),
        node("Transpose", "u", "v", perm=[0, 3, 1, 2]),
        conv("v b", "d"),
        node("Flatten", "d"),
    ],
    "joined": [
        conv("x v", "c"),
        node("Asinh", "c", "s"),
        node("Concat", "c s", "j", axis=1),
        conv("j w"),
    ],
    # all on the cores: sums of three maps, and means over fewer pixels at the borders
    "one function": [
        conv("x a", "c"),
        node("Relu", "c", "r"),
        node("Sum", "x c r", "s"),
        node("AveragePool", "s", kernel_shape=[3, 3], pads=[1, 1, 1, 1]),
    ],
}
FUNCTIONS = {"between": 2, "feeds back": 3, "two branches": 2, "host first": 1,
             "seen otherwise": 2, "joined": 2, "one function": 1}  # fmt: skip


def made_of(
    nodes: list[Any], folder: Path, outputs: tuple[str, ...] = ("y",), shape: NpuShape = SHAPE,
    **settings: object,
) -> Made:  # fmt: skip
    random = np.random.default_rng(0)
    weights = {name: random.normal(0, 0.3, (4, 4, 3, 3)) for name in "ab"}
    weights |= {
        "v": random.normal(0, 0.3, (16, 4, 3, 3)),
        "w": random.normal(0, 0.1, (4, 32, 3, 3)),
    }
    used = {name for one in nodes for name in one.input}
    used -= {name for one in nodes for name in one.output}
    kept = {name: one.astype(np.float32) for name, one in weights.items() if name in used}
    found = model(nodes, kept, {"x": (1, 4, 8, 8)}, outputs=outputs)
    onnx.save(found, str(folder / "model.onnx"))
    return compiled_model(folder / "model.onnx", samples(8), shape, **settings)


def checked(made: Made, samples: np.ndarray, threads: int = 1) -> Outcome:
    """Return the results of samples; every layer equals the reference."""
    found = simulate(made.folder, samples, threads, check=True)
    assert {one.differences for one in found.compared} == {0}
    return found


def samples(frames: int, seed: int = 1) -> np.ndarray:
    return np.random.default_rng(seed).normal(0, 1, (frames, 4, 8, 8)).astype(np.float32)


@pytest.mark.sample(3)
@pytest.mark.parametrize("name", NODES)
def test_work_alternates_between_cores_and_host(name: str, tmp_path: Path) -> None:
    """D12, R6.5: every layer of every function equals the reference, and so do the outputs."""
    made = made_of(NODES[name], tmp_path)
    assert len(made.folder.manifest["functions"]) == FUNCTIONS[name]
    graph = made.compiled.graph
    ((_, given),) = graph.inputs.items()
    tensor = given.tensor
    data = quantise(given.stored(samples(3, 7)), tensor.scale, tensor.zero_point, tensor.bits)
    exact = given.array(dequantise(data, tensor.scale, tensor.zero_point))
    found = checked(made, exact, threads=2)
    assert len(found.compared) >= len(made.compiled.macros)
    for output, view in graph.outputs.items():
        wanted = run_graph(graph, {tensor: data}, INTEGER, [view.tensor])[view.tensor]
        if view.tensor.type != "float32":
            wanted = dequantise(wanted, view.tensor.scale, view.tensor.zero_point)
        assert np.allclose(found.values[output], view.array(wanted), atol=1e-6), output


@pytest.mark.sample(3)
@pytest.mark.parametrize("bits", [8, 16])
@pytest.mark.parametrize("name", ["between", "feeds back"])
def test_functions_of_dual_cores(name: str, bits: int, tmp_path: Path) -> None:
    """Each function sets the distance of pairs again."""
    made = made_of(NODES[name], tmp_path, shape=DUAL, bits=bits)
    checked(made, samples(3, 7))
    for function in made.folder.manifest["functions"]:
        some = made.compiled.code.program[function["spans"][0][0] : function["spans"][0][1]]
        load = next(at for at, one in enumerate(some) if one.kind in ("INP", "ACC8"))
        assert bits == 8 or "DIST" in {one.kind for one in some[:load]}


def test_several_outputs(tmp_path: Path) -> None:
    """Outputs of cores, of the host, and one that later layers also read."""
    made = made_of(NODES["between"], tmp_path, ("c", "s", "y"))
    found = simulate(made.folder, samples(2), threads=1, check=True)
    assert list(found.values) == ["c", "s", "y"]
    assert np.allclose(found.values["s"], np.arcsinh(found.values["c"]), atol=1e-6)


def test_contents_of_the_plan(tmp_path: Path) -> None:
    """R6.5: steps in order, with shapes and addresses."""
    made = made_of(NODES["between"], tmp_path)
    steps = [step["do"] for step in made.folder.host]
    assert steps == [
        "quantise", "windows", "pack", "start", "unpack", "dequantise", "node",
        "quantise", "windows", "pack", "start", "unpack", "dequantise",
    ]  # fmt: skip
    packs = [step for step in made.folder.host if step["do"] in ("pack", "unpack")]
    maps = {one["name"]: one for one in made.folder.manifest["maps"]}
    for step in packs:
        assert step["address"] == maps[step["tensor"]]["address"]
        assert step["shape"] == maps[step["tensor"]]["shape"]
    functions = made.folder.manifest["functions"]
    assert [one["spans"][0][0] for one in functions] == [0, functions[0]["spans"][0][1]]
    assert functions[1]["spans"][0][1] == len(made.compiled.code.program)
    assert [one["name"] for one in functions] == ["npu_0_n_c", "npu_1_n_d"]
    ends = [n for n, one in enumerate(made.compiled.code.program) if one.kind == "END"]
    assert ends == [one["spans"][0][1] - 1 for one in functions]


def test_maps_of_functions_share_memory(tmp_path: Path) -> None:
    """Maps that the host writes between functions are live only from then on."""
    regions = made_of(NODES["between"], tmp_path).compiled.code.regions
    assert {one.tensor.name: (one.born, one.dies) for one in regions.values()} == {
        "x.windows": (-1, 0), "c": (0, 0), "s.windows": (1, 1), "y": (1, 2)
    }  # fmt: skip
    assert len({one.first for one in regions.values()}) < len(regions)


@pytest.mark.heavy
@pytest.mark.sample(0.5)
def test_commands(folder: Path, run: Run) -> None:
    """The checker and the cycle-accurate simulation support functions."""
    made_of(NODES["two branches"], folder)
    np.savez(folder / "samples.npz", x=samples(6))
    how = [
        "--chip",
        "2x2",
        "--calibrate",
        "samples.npz",
        "--min-signal",
        "-99",
        "--max-loss",
        "100",
    ]
    for cores in ((), ("--cores", "1")):
        found = run("compile", "model.onnx", *how, *cores, "-o", "out", "--force")
        assert found.code == 0, found.err
        assert run("verify", "out").code == 0
        found = run("simulate", "out", "--input", "samples.npz", "--check", "--cycles", "--json")
        assert found.code == 0, found.err
        assert found.json()["differences"] == 0
        cycles = found.json()["cycle_run"]
        assert ("frames" in cycles) == (not cores)
    assert cycles["cycles"] == sum(cycles["functions"])
    assert len(cycles["functions"]) == 2
    assert cycles["cycles"] == json.loads((folder / "out" / "report.json").read_text())["cycles"]
    info = read_folder(folder / "out").images[0, 0].info
    assert len(info["functions"]) == 2


def test_a_model_entirely_on_the_host_is_rejected(folder: Path, run: Run) -> None:
    onnx.save(model([node("Asinh", "x")], {}, {"x": (1, 4)}), str(folder / "model.onnx"))
    np.savez(folder / "samples.npz", x=np.ones((4, 4), np.float32))
    found = run("compile", "model.onnx", "--chip", "1x1", "--calibrate", "samples.npz")
    assert found.code == 1
    assert "no node runs on a core" in found.err
    assert Reader(folder / "model.onnx", FLOAT).read().nodes[0].kind == "host"


@pytest.mark.heavy
@pytest.mark.sample(1)
@pytest.mark.parametrize("padding", ["load", "stored"])
def test_dump_of_all_maps(folder: Path, run: Run, padding: str) -> None:
    """A42: each stored map by base, size and strides; parts of a region and the whole, also with
    padding.
    """
    made_of(NODES["joined"], folder)
    np.savez(folder / "samples.npz", x=samples(6))
    how = ["--calibrate", "samples.npz", "--min-signal", "-99", "--max-loss", "100"]
    how += ["--padding", padding]
    assert run("compile", "model.onnx", "--chip", "1x1", *how, "-o", "out").code == 0
    assert run("verify", "out").code == 0
    found = run("simulate", "out", "--input", "samples.npz", "--limit", "3", "--dump", "maps")
    assert found.code == 0, found.err
    assert "0 differ from the reference" in " ".join(found.out.split())
    listed = json.loads((folder / "maps" / "tensors.json").read_text())["tensors"]
    maps = {one["name"]: np.load(folder / "maps" / one["file"]) for one in listed}
    assert set(maps) == {one["name"] for one in read_folder(folder / "out").manifest["maps"]}
    assert {one.shape[0] for one in maps.values()} == {3}
    assert {one["differences"] for one in listed} == {0, None}
    assert np.array_equal(maps["j"], np.concatenate([maps["c"], maps["s"]], 3))
    places = {one["name"]: one["parts"][0] for one in listed}
    assert places["s"]["address"] == places["j"]["address"] + 1  # of 16 channels
    assert places["s"]["strides"] == places["c"]["strides"] == places["j"]["strides"]
    again = run("simulate", "out", "--input", "samples.npz", "--dump", "maps")
    assert again.code == 1
    assert "maps" in again.err
