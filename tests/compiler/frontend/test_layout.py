"""Nodes that move, join and pad maps, against the reference implementation of ONNX."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from mapper.compiler.ir.node import Host
from tests.compiler.models import agree, check, read
from tests.storage.formats.onnx_models import model, node, onnx

RANDOM = np.random.default_rng(5)
NEWEST = min(onnx.defs.onnx_opset_version(), 23)
MAP = {"x": (1, 6, 9, 8)}


def normal(*shape: int) -> np.ndarray:
    return RANDOM.normal(0, 1, shape).astype(np.float32)


# -- channels last ---------------------------------------------------------------------------------


def test_a05_channels_last_exports_lose_their_transposes(tmp_path: Path) -> None:
    """Transposes around each layer, as converters of TensorFlow models write them."""
    to, back = {"perm": [0, 3, 1, 2]}, {"perm": [0, 2, 3, 1]}
    nodes = [
        node("Transpose", "x", "a", **to), node("Conv", "a w b", "c"),
        node("Transpose", "c", "d", **back), node("Relu", "d", "e"),
        node("Add", "e bias", "f"), node("Transpose", "f", "g", **to),
        node("MaxPool", "g", "h", kernel_shape=[2, 2], strides=[2, 2]),
        node("Transpose", "h", "i", **back), node("Reshape", "i s", "j"), node("MatMul", "j d2"),
    ]  # fmt: skip
    constants = {
        "w": normal(4, 6, 3, 3), "b": normal(4), "bias": normal(4), "s": np.array([-1, 36]),
        "d2": normal(36, 5),
    }  # fmt: skip
    graph = check(model(nodes, constants, {"x": (1, 9, 8, 6)}), tmp_path)
    assert [one.kind for one in graph.nodes] == ["conv", "activation", "affine", "pool", "dense"]
    assert next(iter(graph.inputs.values())).tensor.shape == (1, 9, 8, 6)


def test_outputs_that_are_channels_last(tmp_path: Path) -> None:
    nodes = [node("Conv", "x w", "c"), node("Transpose", "c", perm=[0, 2, 3, 1])]
    check(model(nodes, {"w": normal(4, 6, 3, 3)}, MAP), tmp_path)


# -- joining, padding, resizing --------------------------------------------------------------------


@pytest.mark.parametrize("axis", [1, 2, 3, -3, -1])
def test_concatenation(tmp_path: Path, axis: int) -> None:
    sizes = {1: (2, 6, 9, 8), 2: (6, 6, 11, 8), 3: (6, 6, 9, 3)}[axis % 4]
    second = (sizes[0], 6, 1, 1) if axis % 4 == 1 else (6, 6, 1, 1)
    pads = {1: [0] * 4, 2: [1, 0, 1, 0], 3: [0, 0, 0, 0]}[axis % 4]
    attributes = {"pads": pads} | ({"strides": [1, 3]} if axis % 4 == 3 else {})
    nodes = [
        node("Conv", "x v", "a"), node("Conv", "x w", "b", **attributes),
        node("Concat", "a b x" if axis % 4 != 3 else "a b", axis=axis),
    ]  # fmt: skip
    constants = {"w": normal(*second), "v": normal(6, 6, 1, 1)}
    check(model(nodes, constants, MAP), tmp_path)


def test_concatenation_of_signals_and_vectors(tmp_path: Path) -> None:
    for axis in (1, 2, -1):
        nodes = [node("Relu", "x", "a"), node("Concat", "x a", axis=axis)]
        check(model(nodes, {}, {"x": (1, 6, 9)}), tmp_path)
    nodes = [node("Relu", "x", "a"), node("Concat", "x a", axis=1)]
    check(model(nodes, {}, {"x": (1, 6)}), tmp_path)


@pytest.mark.parametrize("axis", [1, 2, -1])
@pytest.mark.parametrize("opset", [11, 13, 18])
def test_splits(tmp_path: Path, opset: int, axis: int) -> None:
    """Parts of given sizes, and equal parts."""
    sizes = {1: [4, 2], 2: [3, 6], -1: [7, 1]}[axis]
    given: dict[str, object] = {"split": sizes} if opset < 13 else {}
    constants = {} if opset < 13 else {"s": np.array(sizes)}
    nodes = [
        node("Split", "x" if opset < 13 else "x s", "a b", axis=axis, **given),
        node("Relu", "a", "c"), node("Concat", "b c", axis=axis),
    ]  # fmt: skip
    graph = check(model(nodes, constants, MAP, opset=opset), tmp_path)
    assert [one.kind for one in graph.nodes][:2] == ["slice", "slice"]


def test_slices(tmp_path: Path) -> None:
    """Slices of contiguous channels, rows and columns; other slices are left to the host."""
    for axis, first, last in ((1, 2, 5), (2, 0, 4), (3, -3, 100)):
        nodes = [node("Slice", "x a b c", "n0"), node("Relu", "n0", "y")]
        constants = {"a": np.array([first]), "b": np.array([last]), "c": np.array([axis])}
        graph = check(model(nodes, constants, MAP), tmp_path)
        assert graph.nodes[0].kind == "slice"
    for axis, first, last, step in ((2, 0, 6, 2), (1, 5, 0, -1)):
        nodes = [node("Slice", "x a b c d", "n0"), node("Relu", "n0", "y")]
        values = (("a", first), ("b", last), ("c", axis), ("d", step))
        graph = read(model(nodes, {k: np.array([v]) for k, v in values}, MAP), tmp_path)
        (host,) = (one for one in graph.nodes if isinstance(one.operator, Host))
        assert isinstance(host.operator, Host)
        assert "not contiguous" in host.operator.why


@pytest.mark.parametrize("opset", [7, 11, 13])
@pytest.mark.parametrize("value", [0.0, -1.5])
def test_padding(tmp_path: Path, opset: int, value: float) -> None:
    """Old and new opsets; cores pad with zeros, the host with any number."""
    pads = [0, 0, 1, 2, 0, 0, 3, 0]
    if opset < 11:
        made = model([node("Pad", "x", pads=pads, value=value)], {}, MAP, opset=opset)
    else:
        constants = {"p": np.array(pads), "v": np.float32(value).reshape(())}
        made = model([node("Pad", "x p v")], constants, MAP, opset=opset)
    graph = read(made, tmp_path)
    assert [one.kind for one in graph.nodes] == ["host" if value else "pad"]
    agree(graph, made)


def test_unsupported_padding(tmp_path: Path) -> None:
    for pads, mode, why in [
        ([0, 1, 0, 0, 0, 0, 0, 0], "constant", "it pads frames or channels, or crops"),
        ([0, 0, 1, 0, 0, 0, 1, 0], "reflect", "cores pad with a constant"),
    ]:
        made = model([node("Pad", "x p", mode=mode)], {"p": np.array(pads)}, MAP)
        (host,) = read(made, tmp_path).nodes
        assert isinstance(host.operator, Host)
        assert host.operator.why == why


@pytest.mark.parametrize("by", ["scales", "sizes"])
@pytest.mark.parametrize("opset", [11, 13, 18])
def test_resizing_to_twice_the_size(tmp_path: Path, by: str, opset: int) -> None:
    constants = {
        "r": np.zeros(0, np.float32), "f": np.array([1, 1, 2, 2], np.float32),
        "s": np.array([1, 6, 18, 16]),
    }  # fmt: skip
    inputs = "x r f" if by == "scales" else "x r - s"
    if by == "sizes" and opset < 13:
        inputs = "x r e s"
        constants["e"] = np.zeros(0, np.float32)
    one = node(
        "Resize", inputs, mode="nearest", nearest_mode="floor",
        coordinate_transformation_mode="asymmetric",
    )  # fmt: skip
    check(model([one], constants, MAP, opset=opset), tmp_path)


def test_upsample_of_old_opsets(tmp_path: Path) -> None:
    scales = {"f": np.array([1, 1, 2, 2], np.float32)}
    check(model([node("Upsample", "x f", mode="nearest")], scales, MAP, opset=9), tmp_path)


def test_unsupported_resizing(tmp_path: Path) -> None:
    for scales, mode, why in [
        ([1, 1, 3, 3], "nearest", "cores double the size by repeating pixels"),
        ([1, 1, 2, 2], "linear", "cores double the size by repeating pixels"),
    ]:
        one = node("Resize", "x - f", mode=mode, coordinate_transformation_mode="asymmetric")
        made = model([one], {"f": np.array(scales, np.float32)}, MAP)
        (host,) = read(made, tmp_path).nodes
        assert isinstance(host.operator, Host)
        assert host.operator.why == why
