"""Models of damaged structure: each is rejected with one line that names the node or constant."""

from __future__ import annotations

import resource
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mapper.compiler.frontend.builder import require_size
from mapper.compiler.model import open_model
from mapper.errors import DoesNotFitError, MapperError
from storage.formats.layers.onnxgraph import MOST_MADE
from storage.formats.layers.onnxruns import _reason
from tests.compiler.bad_input.good import good
from tests.mapper.cli.hostile_onnx import ONNX
from tests.storage.formats.onnx_models import helper, model, node

Damage = Callable[[Any], object]
HUGE = 3 << 28  # numbers of 4 bytes: 3 GiB
BAD_DATA = "constant 'w': its data do not match its type and its shape"
ELSEWHERE = "constant 'w': its data file is missing from the model's folder"


def refusal(made: Any, folder: Path) -> str:
    """Return the message for a model, without its name."""
    path = folder / "a.onnx"
    path.write_bytes(made.SerializeToString())
    with pytest.raises(MapperError) as told:
        open_model(path).build(())
    said = str(told.value)
    assert "\n" not in said
    return said.removeprefix(f"{path}: ")


def named(graph: Any, name: str) -> Any:
    return next(one for one in (*graph.node, *graph.initializer) if one.name == name)


def attribute(name: str, value: Any) -> Damage:
    """Return a damage that adds an attribute to the convolution."""
    return lambda graph: named(graph, "conv").attribute.append(helper.make_attribute(name, value))


def changed(which: str, **fields: Any) -> Damage:
    """Return a damage that sets fields of a node or constant; lists are replaced."""

    def change(graph: Any) -> None:
        for field, value in fields.items():
            if isinstance(value, list):
                getattr(named(graph, which), field)[:] = value
            else:
                setattr(named(graph, which), field, value)

    return change


def pads_of_type(kind: int) -> Damage:
    return lambda graph: setattr(named(graph, "conv").attribute[0], "type", kind)


@pytest.mark.parametrize(
    ("damage", "says"),
    [
        (changed("relu", input=[]), "node 'relu' (Relu): its input 0 is missing"),
        (changed("conv", input=["x", "", "b"]), "node 'conv' (Conv): its input 1 is missing"),
        (changed("relu", input=["c", "c"]), "node 'relu' (Relu): has 2 inputs; Relu takes 1"),
        (changed("relu", output=[]), "node 'relu' (Relu): has no outputs"),
        (changed("relu", output=["", "r"]), "node 'relu' (Relu): has 2 outputs"),
        (changed("relu", op_type=""), "node 'relu' (): has no operator"),
        (changed("relu", op_type="Gelu"), "opset 17 has no operator Gelu"),
        (changed("relu", op_type="Loop"), "only feed-forward networks are supported"),
        (changed("relu", domain="nobody"), "domain 'nobody' has no operator Relu"),
        (changed("dense", output=["w"]), "node 'dense' (Gemm): defines 'w' again"),
        (attribute("alpha", 0.5), "Conv of opset 17 has no attribute 'alpha'"),
        (attribute("group", [1, 2]), "node 'conv' (Conv): attribute group must be a whole number"),
        (attribute("pads", [1, 1, 1, 1]), "node 'conv' (Conv): duplicate attribute"),
        (attribute("auto_pad", b"\xff"), "node 'conv' (Conv): its attributes are damaged"),
        (pads_of_type(5), "node 'conv' (Conv): attribute pads must be whole numbers"),
        (pads_of_type(0), "node 'conv' (Conv): its attributes are damaged"),
        (lambda graph: named(graph, "pool").attribute.pop(0), "attribute kernel_shape is missing"),
        (changed("w", dims=[4, -1, 3, 3]), BAD_DATA),
        (changed("w", dims=[1 << 62, 8]), BAD_DATA),
        (changed("w", raw_data=b"abc"), BAD_DATA),
        (changed("w", data_type=99), BAD_DATA),
        (changed("w", data_location=1), ELSEWHERE),
        (
            changed("w", data_type=6),
            "node 'conv' (Conv): its input 1 has type int32; accepted types",
        ),
        (changed("w", name="b"), "constant 'b' is a duplicate"),
        (
            lambda graph: graph.input.append(graph.input[0]),
            "has inputs with missing or duplicate",
        ),
        (
            lambda graph: graph.sparse_initializer.add().values.CopyFrom(graph.initializer[0]),
            "constant 'w' is sparse; export the model with dense constants",
        ),
    ],
)
def test_structures(damage: Damage, says: str, tmp_path: Path) -> None:
    made = good().model()
    damage(made.graph)
    assert says in refusal(made, tmp_path)


def test_no_opset(tmp_path: Path) -> None:
    made = good().model()
    del made.opset_import[:]
    assert refusal(made, tmp_path) == "declares no opset; export the model again"


@pytest.mark.parametrize("name", [b"Relu", b"relu", b"dense_b"])
def test_names_that_are_not_text(name: bytes, tmp_path: Path) -> None:
    """Name of an operator, a node, and a constant with the input that reads it."""
    path = tmp_path / "a.onnx"
    damaged = name[:-1] + b"\xff"
    path.write_bytes(good().model().SerializeToString().replace(name, damaged))
    with pytest.raises(MapperError, match="is not UTF-8; export the model again"):
        open_model(path)


@pytest.mark.parametrize("domain", ["", "nobody"])
def test_versions_beyond_32_bits(domain: str, tmp_path: Path) -> None:
    made = good().model()
    made.opset_import.add(domain=domain, version=1 << 40)
    assert "opset 1099511627776 " in refusal(made, tmp_path)


def test_unused_nodes_are_left_out(tmp_path: Path) -> None:
    made = good().model()
    made.graph.output[0].name = "r"
    path = tmp_path / "a.onnx"
    path.write_bytes(made.SerializeToString())
    graph = open_model(path).build(())
    assert [node.kind for node in graph.nodes] == ["conv", "activation"]
    assert sorted(graph.left_out) == ["dense", "flatten", "pool"]
    (note,) = graph.notes
    assert note == "node 'pool' and 2 more: left out, as no output depends on it"


def test_data_outside_of_the_folder(tmp_path: Path) -> None:
    folder = tmp_path / "models"
    folder.mkdir()
    made = good().model()
    tensor = named(made.graph, "w")
    (tmp_path / "w.bin").write_bytes(tensor.raw_data)
    tensor.ClearField("raw_data")
    tensor.data_location = 1
    tensor.external_data.add(key="location", value="../w.bin")
    assert ELSEWHERE in refusal(made, folder)


ROW, COLUMN = np.ones((1, 1 << 15), np.float32), np.ones((1 << 15, 1), np.float32)


@pytest.mark.parametrize(
    ("kind", "constants", "more"),
    [
        ("ConstantOfShape", {"s": np.array([HUGE])}, {}),
        ("Expand", {"a": np.float32([1]), "s": np.array([HUGE])}, {}),
        ("Tile", {"a": np.float32([1]), "s": np.array([HUGE])}, {}),
        ("Range", {"a": np.float32(0), "b": np.float32(HUGE), "c": np.float32(1)}, {}),
        ("Pad", {"a": np.float32([1]), "p": np.array([HUGE, 0])}, {}),
        ("MatMul", {"a": COLUMN, "b": ROW}, {}),
        ("Add", {"a": COLUMN, "b": ROW}, {}),
    ],
)
def test_huge_constants_are_not_allocated(
    kind: str, constants: dict[str, Any], more: dict[str, Any], tmp_path: Path
) -> None:
    nodes = [
        node(kind, " ".join(constants), "k", **more), node("ReduceMean", "k", "m", keepdims=0),
        node("Mul", "x m", "y"),
    ]  # fmt: skip
    began = time.perf_counter()
    said = refusal(model(nodes, constants, {"x": (1, 4)}), tmp_path)
    assert time.perf_counter() - began < 2
    assert f"node 'n_k' ({kind}): its constant result needs " in said
    assert f"but --memory leaves {MOST_MADE:,}; check the sizes in the file" in said


def test_constants_share_the_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each constant fits the memory, but not all together."""
    monkeypatch.setattr("storage.formats.layers.onnxgraph.MOST_MADE", 4 << 20)
    nodes = [node("ConstantOfShape", "s", f"k{at}") for at in range(5)]
    nodes += [node("Gather", f"k{at} zero", f"g{at}") for at in range(5)]
    nodes += [node("Sum", "g0 g1 g2 g3 g4", "g"), node("Mul", "x g", "y")]
    constants = {"s": np.array([1 << 18]), "zero": np.array([0])}
    said = refusal(model(nodes, constants, {"x": (1, 4)}), tmp_path)
    assert "node 'n_k4' (ConstantOfShape): its constant result needs 1,048,576 bytes" in said


@pytest.mark.parametrize("shape", [(1, 1 << 40), (1, 1 << 14, 1 << 14, 1)])
def test_huge_maps(shape: tuple[int, ...], tmp_path: Path) -> None:
    said = refusal(model([node("Relu", "x")], {}, {"x": shape}), tmp_path)
    assert f"input 'x' has shape {shape}; maps have at most 134,217,728 elements" in said


def test_maps_of_the_host_have_elements() -> None:
    """Users of an empty map, as an invalid Conv before them makes it, fail in other ways."""
    for shape in ((1, 0), (2, 1, 0, 3), (1, 1, 1, 1, 0)):
        with pytest.raises(MapperError, match="no elements; nothing to compute"):
            require_size("v", shape)
    require_size("v", (1, 2, 3))


@pytest.mark.parametrize("bias", [(3, 1), (1, 3, 1)])
def test_bias_of_wrong_shape(bias: tuple[int, ...], tmp_path: Path) -> None:
    constants = {"w": np.ones((4, 3), np.float32), "b": np.ones(bias, np.float32)}
    said = refusal(model([node("Gemm", "x w b")], constants, {"x": (1, 4)}), tmp_path)
    assert f"its bias has shape {bias}, it has 3 outputs" in said


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (
            "[ONNXRuntimeError] : 1 : FAIL : Type Error: Type 'tensor(float)' of input parameter "
            "(i1) of operator (Pad) in node (pad) is invalid.",
            "Pad does not take a tensor(float) here",
        ),
        (
            "[ONNXRuntimeError] : 10 : INVALID_GRAPH : This is an invalid model. In Node, "
            '("n", ZipMap, "", -1) : ("i0": tensor(int8),) -> ("n",) , Error No Op registered for '
            "ZipMap with domain_version of 17",
            "ONNX Runtime has no operator Pad",
        ),
        (
            "[ONNXRuntimeError] : 1 : FAIL : tensor.cc:57 CalculateTensorStorageSize Tensor "
            "shape.Size() must be >= 0",
            "ONNX Runtime cannot run Pad: its attributes, input types and input shapes "
            "do not match",
        ),
        (
            "[ONNXRuntimeError] : 1 : FAIL : Type Error: Type parameter (T) of Optype (Concat) "
            "bound to different types (tensor(float) and tensor(int64) in node (c).",
            "Pad needs tensors of one type, got several",
        ),
    ],
)
def test_reasons_of_onnxruntime(text: str, says: str) -> None:
    assert _reason(text, "Pad") == says


@pytest.mark.parametrize("name", ["Scan", "a Loop in a branch"])
def test_loops_are_refused_at_any_depth(name: str, tmp_path: Path) -> None:
    ONNX[name](tmp_path / "m.onnx")
    with pytest.raises(MapperError, match="only feed-forward networks are supported"):
        open_model(tmp_path / "m.onnx")


@pytest.mark.parametrize(
    "name",
    ["ConstantOfShape without elements", "Range of another domain", "NonZero", "a branch",
     "many constants", "an input with a batch", "a small input with a batch"],
)  # fmt: skip
def test_declared_sizes_exceed_the_budget(name: str, tmp_path: Path) -> None:
    ONNX[name](tmp_path / "m.onnx")
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(DoesNotFitError, match=r"but --memory leaves|than --memory leaves"):
        open_model(tmp_path / "m.onnx", memory=256 << 20)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 150 << 10  # KiB


def test_a_model_larger_than_its_budget(tmp_path: Path) -> None:
    good().save(tmp_path)
    with pytest.raises(DoesNotFitError, match=r"good\.onnx: the model needs"):
        open_model(tmp_path / "good.onnx", memory=100)
