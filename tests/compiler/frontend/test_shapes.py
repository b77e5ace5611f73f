"""Open axes that --input-shape fixes, and fixed batches that become one sample."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest

from mapper.cli.main import main
from mapper.compiler.artifacts.manifest import read_folder
from mapper.compiler.model import Model, open_model
from mapper.compiler.numerics.execute import run_graph
from mapper.compiler.numerics.floating import FLOATING
from mapper.errors import MapperError
from tests.compiler.models import onnx_model, saved
from tests.storage.formats.onnx_models import helper, node, onnx

RNG = np.random.default_rng(8)
W = {"w": RNG.normal(0, 0.3, (4, 3, 3, 3)).astype(np.float32)}
CONV = node("Conv", "x w", "a", pads=[1, 1, 1, 1])
OPEN = ["n", 3, "h", "w"]
BATCH = (10, 3, 4, 6)
FLAT = RNG.normal(0, 0.2, (96, 5)).astype(np.float32)


def outputs(found: Model, x: np.ndarray) -> np.ndarray:
    """Return the graph's results for samples."""
    graph = found.build(())
    ((_, out),) = graph.outputs.items()
    (given,) = graph.inputs.values()
    made = run_graph(graph, {given.tensor: given.stored(x)}, FLOATING, [out.tensor])
    return np.asarray(out.array(made[out.tensor]))


def wanted(path: Path, x: np.ndarray) -> np.ndarray:
    """Return ONNX Runtime's results for the file."""
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    return np.asarray(session.run(None, {"x": x})[0])


# -- open axes -------------------------------------------------------------------------------------


def test_sizes_run_through_the_model(tmp_path: Path) -> None:
    """Sizes that nodes compute from the input's sizes are constant once it is fixed."""
    nodes = [
        CONV, node("MaxPool", "a", "p", kernel_shape=[2, 2], strides=[2, 2]),
        node("Shape", "a", "s"), node("Resize", "p - - s", "r"), node("Add", "r a"),
    ]  # fmt: skip
    path = saved(onnx_model(nodes, W, OPEN), tmp_path)
    found = open_model(path, {"": (1, 3, 6, 4)})
    assert found.view.shape == (1, 3, 6, 4)
    assert {one.kind for one in found.build(()).nodes} == {"conv", "pool", "upsample", "add"}
    x = RNG.normal(size=(2, 3, 6, 4)).astype(np.float32)
    np.testing.assert_allclose(outputs(found, x), wanted(path, x), atol=1e-5)
    assert found.data is not None
    proto = onnx.load_model_from_string(found.data)
    (result,) = proto.graph.output
    assert [one.dim_value for one in result.type.tensor_type.shape.dim] == [1, 4, 6, 4]


@pytest.mark.parametrize(
    ("shape", "given", "says"),
    [
        (OPEN, {}, "input 'x': axes 2 and 3 have a dynamic size; give sizes for N in "
                   "--input-shape x=1,3,N,N"),
        (["n", 3, 4, "w"], {}, "input 'x': axis 3 has a dynamic size; give sizes for N in "
                               "--input-shape x=1,3,4,N"),
        (None, {}, "input 'x' has no shape; give one with --input-shape SIZES"),
        (OPEN, {"": (1, 4, 6, 4)}, "--input-shape x=1,4,6,4: axis 1 of input 'x' has the fixed "
                                   "size 3"),
        (OPEN, {"x": (3, 6, 4)}, "--input-shape x=3,6,4: input 'x' has 4 axes, not 3"),
        (OPEN, {"y": (1, 3, 6, 4)}, "--input-shape y=1,3,6,4: no such input; the model has 'x'"),
        ([1, 3, "s", "s"], {"x": (1, 3, 4, 5)}, "--input-shape x=1,3,4,5: axes of input 'x' named "
                                                "'s' have one size; they get 4 and 5"),
    ],
)  # fmt: skip
def test_shapes_that_do_not_match_the_model(
    tmp_path: Path, shape: Any, given: dict[str, Sequence[int]], says: str
) -> None:
    path = saved(onnx_model([CONV, node("Relu", "a")], W, shape), tmp_path)
    with pytest.raises(MapperError) as error:
        open_model(path, given)
    assert str(error.value) == f"{path}: {says}"


def test_a_node_that_does_not_match_the_sizes_is_named(tmp_path: Path) -> None:
    nodes = [CONV, node("Reshape", "a s")]
    path = saved(onnx_model(nodes, W | {"s": np.array([1, 999])}, OPEN), tmp_path)
    with pytest.raises(MapperError, match=r"node 'n_y' \(Reshape\): .*Input shape:\(1,4,6,4\)"):
        open_model(path, {"x": (1, 3, 6, 4)})


@pytest.mark.parametrize("text", ["x=1,3,0,4", "x=1,3,-6,4", "1,3,h,4", "x=", "1;3", "1.5,3"])
def test_invalid_sizes(tmp_path: Path, text: str, capsys: pytest.CaptureFixture[str]) -> None:
    path = saved(onnx_model([CONV, node("Relu", "a")], W, OPEN), tmp_path)
    with pytest.raises(SystemExit) as stop:
        main(["compile", str(path), "--chip", "1x1", "--input-shape", text])
    assert stop.value.code == 2
    said = capsys.readouterr().err
    assert f"argument --input-shape: {text!r} is not [NAME=]SIZES with sizes of at least 1" in said


def test_input_shape_given_twice(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = saved(onnx_model([CONV, node("Relu", "a")], W, OPEN), tmp_path)
    twice = ["--input-shape", "1,3,6,4", "--input-shape", "x=1,3,6,4"]
    assert main(["compile", str(path), "--chip", "1x1", *twice]) == 2
    assert "--input-shape: duplicate input" in capsys.readouterr().err


def test_the_folder_keeps_the_model_that_was_compiled(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A batch in an open axis, from the option to the simulation."""
    path = saved(onnx_model([CONV, node("Relu", "a")], W, OPEN), tmp_path)
    x = RNG.normal(size=(16, 3, 6, 4)).astype(np.float32)
    np.save(tmp_path / "x.npy", x)
    words = ["--chip", "1x1", "--calibrate", str(tmp_path / "x.npy"), "-o", str(tmp_path / "out")]
    assert main(["compile", str(path), *words, "--input-shape", "x=4,3,6,4"]) == 0
    said = capsys.readouterr()
    assert [one for one in said.err.splitlines() if one.startswith("note:")] == [
        "note: input 'x': batch of 4 compiled as 1"
    ]
    assert "agree with ONNX Runtime in 8 frames" in said.out
    folder = read_folder(tmp_path / "out")
    assert folder.manifest["input"]["shape"] == [1, 3, 6, 4]
    (given, *_) = onnx.load_model_from_string(folder.model).graph.input
    assert [one.dim_value for one in given.type.tensor_type.shape.dim] == [1, 3, 6, 4]
    line = ["simulate", str(tmp_path / "out"), "--input", str(tmp_path / "x.npy"), "--check", "-q"]
    assert main(line) == 0


# -- batches ---------------------------------------------------------------------------------------


def rows(count: int, *shape: int) -> np.ndarray:
    """Return the same numbers for each sample."""
    one = RNG.normal(size=(1, *shape)).astype(np.float32)
    return np.broadcast_to(one, (count, *shape)).copy()


SIZES = [node("Shape", "a", "s"), node("Gather", "s o", "g"), node("Unsqueeze", "g u", "h"),
         node("Concat", "h m", "t", axis=0)]  # fmt: skip
GOOD: dict[str, tuple[list[Any], dict[str, Any]]] = {
    "layers": ([CONV, node("Relu", "a")], {}),
    "constant": ([CONV, node("Reshape", "a s", "f"), node("MatMul", "f v")],
                 {"s": np.array([10, 96]), "v": FLAT}),
    "rest": ([CONV, node("Reshape", "a s", "f"), node("MatMul", "f v")],
             {"s": np.array([10, -1]), "v": FLAT}),
    "merged": ([CONV, node("Reshape", "a s", "f"), node("MatMul", "f v", "g"),
                node("Reshape", "g t")],
               {"s": np.array([40, 24]), "v": FLAT[:24], "t": np.array([10, 20])}),
    "computed": ([CONV, *SIZES, node("Reshape", "a t", "f"), node("MatMul", "f v")],
                 {"o": np.array(0), "u": np.array([0]), "m": np.array([-1]), "v": FLAT}),
    "rows": ([CONV, node("Add", "a c")], {"c": rows(10, 4, 4, 6)}),
    "classes": ([CONV, node("Flatten", "a", "f"), node("Gemm", "f v b")],
                {"v": RNG.normal(size=(96, 10)).astype(np.float32), "b": rows(10, 10)[:1]}),
    "last": ([CONV, node("Transpose", "a", "t", perm=[1, 2, 3, 0])], {}),
}  # fmt: skip


@pytest.mark.parametrize("name", list(GOOD))
def test_a_batch_becomes_one_sample(tmp_path: Path, name: str) -> None:
    nodes, constants = GOOD[name]
    made = onnx_model(nodes, W | constants, BATCH, ["t" if name == "last" else "y"])
    made.graph.value_info.append(helper.make_tensor_value_info("a", 1, (10, 4, 4, 6)))
    path = saved(made, tmp_path)
    found = open_model(path)
    assert found.build(()).notes == ["input 'x': batch of 10 compiled as 1"]
    assert found.data is not None
    x = RNG.normal(size=BATCH).astype(np.float32)
    session = onnxruntime.InferenceSession(found.data, providers=["CPUExecutionProvider"])
    each = [np.asarray(session.run(None, {"x": x[at : at + 1]})[0]) for at in range(10)]
    right = wanted(path, x)
    axis = 3 if name == "last" else 0
    np.testing.assert_allclose(np.concatenate(each, axis), right, atol=1e-5)
    if name != "last":
        np.testing.assert_allclose(outputs(found, x), right.reshape(outputs(found, x).shape),
                                   atol=1e-4)  # fmt: skip


def test_a_model_for_one_sample_is_unchanged(tmp_path: Path) -> None:
    path = saved(onnx_model([CONV, node("Relu", "a")], W, (1, 3, 4, 6)), tmp_path)
    found = open_model(path, {"x": (1, 3, 4, 6)})
    assert found.data is None
    assert found.build(()).notes == []


def recurrent(kind: str, gates: int) -> tuple[list[Any], dict[str, Any]]:
    weights = {
        "w": RNG.normal(size=(1, gates * 5, 4)).astype(np.float32),
        "r": RNG.normal(size=(1, gates * 5, 5)).astype(np.float32),
    }
    return [node(kind, "x w r", "y", hidden_size=5)], weights


@pytest.mark.parametrize(("kind", "gates"), [("LSTM", 4), ("GRU", 3), ("RNN", 1)])
@pytest.mark.parametrize("shape", [(10, 1, 4), (10, 10, 4)])
def test_steps_of_a_recurrent_layer_are_not_a_batch(
    tmp_path: Path, kind: str, gates: int, shape: tuple[int, ...]
) -> None:
    nodes, weights = recurrent(kind, gates)
    path = saved(onnx_model(nodes, weights, shape), tmp_path)
    with pytest.raises(MapperError) as error:
        open_model(path)
    assert str(error.value) == (
        f"{path}: node 'n_y' ({kind}): no core computes {kind}, which mixes samples along "
        "axis 0 of 'x'"
    )


@pytest.mark.parametrize(
    ("nodes", "constants", "says"),
    [
        ([CONV, node("ReduceMean", "a", axes=[0])], {}, "'n_y' (ReduceMean) needs the whole batch"),
        ([CONV, node("Add", "a c", "b"), node("Relu", "b")],
         {"c": RNG.normal(size=(10, 4, 4, 6)).astype(np.float32)},
         "'n_b' (Add) needs the whole batch"),
        ([CONV, node("Split", "a s", "b c", axis=0), node("Add", "b c")],
         {"s": np.array([5, 5])}, "'n_b' (Split) does not run on one sample"),
    ],
)  # fmt: skip
def test_nodes_that_need_the_batch_are_named(
    tmp_path: Path, nodes: list[Any], constants: dict[str, Any], says: str
) -> None:
    path = saved(onnx_model(nodes, W | constants, BATCH), tmp_path)
    with pytest.raises(MapperError) as error:
        open_model(path)
    assert str(error.value) == (
        f"{path}: input 'x' has a batch of 10, and node {says}; export the model for a batch of 1"
    )


def test_a_quantised_batch(tmp_path: Path) -> None:
    """Operators that ONNX Runtime lacks are also compared."""
    shift = node("RequantShift", "a m d", "q", div=16.0, n_levels_out=256, signed=0)
    nodes = [CONV, shift, node("Reshape", "q s", "f"), node("MatMul", "f v")]
    whole: Callable[..., Any] = RNG.integers
    constants = {
        "w": whole(-3, 4, (4, 3, 3, 3)).astype(np.float32), "m": np.full(1, 3, np.float32),
        "d": np.zeros(1, np.float32), "s": np.array([10, 96]),
        "v": whole(-3, 4, (96, 5)).astype(np.float32),
    }  # fmt: skip
    found = open_model(saved(onnx_model(nodes, constants, BATCH), tmp_path))
    assert "input 'x': batch of 10 compiled as 1" in found.build(()).notes
    assert found.quantised
