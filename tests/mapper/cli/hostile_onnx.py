"""Small ONNX models that declare huge sizes, for `tests.mapper.cli.hostile_sizes`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

HUGE = 3 << 28
ENDLESS = 1 << 40
Make = Callable[[Path], None]


def onnx_file(
    nodes: Sequence[tuple[Any, ...]], constants: dict[str, Any], x: Sequence[int] = (1, 2, 6, 6),
    opset: int = 17, change: Callable[[Any], None] = lambda model: None,
) -> Make:  # fmt: skip
    """Return a function that writes a model.

    nodes : operator, names of inputs, names of outputs, and optionally attributes
    """

    def make(path: Path) -> None:
        from onnx import helper, numpy_helper, save

        made = [
            helper.make_node(kind, taken.split(), given.split(), f"n{at}", **(more or [{}])[0])
            for at, (kind, taken, given, *more) in enumerate(nodes)
        ]
        for node in made:
            node.input[:] = ["" if name == "-" else name for name in node.input]
        graph = helper.make_graph(
            made, "g", [helper.make_tensor_value_info("x", 1, list(x))],
            [helper.make_empty_tensor_value_info("y")],
            [numpy_helper.from_array(np.asarray(v), k) for k, v in constants.items()],
        )  # fmt: skip
        imports = [helper.make_opsetid("", opset), helper.make_opsetid("com.microsoft", 1)]
        model = helper.make_model(graph, opset_imports=imports, ir_version=8)
        change(model)
        save(model, str(path))

    return make


def folded(*nodes: tuple[Any, ...], opset: int = 17, **constants: Any) -> Make:
    """Return a model that adds the largest number of a constant `k`, which nodes compute."""
    one = {"one": np.float32([1]), "three": np.float32([[[[1]]]]), **constants}
    end = [
        ("Cast", "k", "kf", {"to": 1}),
        ("ReduceMax", "kf", "m", {"keepdims": 0}),
        ("Conv", "x w", "c"),
        ("Add", "c m", "y"),
    ]
    weights = np.ones((2, 2, 1, 1), np.float32)
    return onnx_file([*nodes, *end], {**one, "w": weights}, opset=opset)


def mapped(*nodes: tuple[Any, ...], **constants: Any) -> Make:
    """Return a model whose nodes compute `y` from `x`."""
    return onnx_file([("Conv", "x w", "c"), *nodes],
                     {"w": np.ones((2, 2, 1, 1), np.float32), **constants})  # fmt: skip


def _branch(*nodes: tuple[Any, ...], result: str = "k", **constants: Any) -> Any:
    from onnx import helper, numpy_helper

    made = [
        helper.make_node(kind, taken.split(), given.split(), f"b{at}", **(more or [{}])[0])
        for at, (kind, taken, given, *more) in enumerate(nodes)
    ]
    for node in made:
        node.input[:] = ["" if name == "-" else name for name in node.input]
    return helper.make_graph(
        made, "branch", [], [helper.make_tensor_value_info(result, 1, None)],
        [numpy_helper.from_array(np.asarray(v), k) for k, v in constants.items()],
    )  # fmt: skip


def loop_body() -> Any:
    from onnx import helper

    return helper.make_graph(
        [helper.make_node("Identity", ["c"], ["c2"]), helper.make_node("Identity", ["s"], ["s2"])],
        "body",
        [helper.make_tensor_value_info("i", 7, []), helper.make_tensor_value_info("c", 9, []),
         helper.make_tensor_value_info("s", 1, [1])],
        [helper.make_tensor_value_info("c2", 9, []), helper.make_tensor_value_info("s2", 1, [1])],
    )  # fmt: skip


def scan_body() -> Any:
    from onnx import helper

    return helper.make_graph(
        [helper.make_node("Identity", ["s"], ["s2"])], "body",
        [helper.make_tensor_value_info("s", 1, [1]), helper.make_tensor_value_info("e", 1, None)],
        [helper.make_tensor_value_info("s2", 1, [1])],
    )  # fmt: skip


def in_branch(branch: Callable[[], Any]) -> Make:
    def make(path: Path) -> None:
        other = _branch(("Identity", "own", "k"), own=np.float32([1]))
        attributes = {"then_branch": branch(), "else_branch": other}
        folded(("If", "yes", "k", attributes), yes=np.array(True))(path)

    return make


def scan(path: Path) -> None:
    about = {"body": scan_body(), "num_scan_inputs": 1}
    folded(("ConstantOfShape", "s", "e"), ("Scan", "one e", "k", about),
           s=np.array([ENDLESS, 0]))(path)  # fmt: skip


def _declare(name: str, dims: Sequence[int]) -> Callable[[Any], None]:
    def change(model: Any) -> None:
        (tensor,) = (one for one in model.graph.initializer if one.name == name)
        del tensor.dims[:]
        tensor.dims.extend(dims)

    return change


def _external(model: Any) -> None:
    (tensor,) = (one for one in model.graph.initializer if one.name == "w")
    tensor.ClearField("raw_data")
    tensor.data_location = 1
    for key, value in (("location", "data.bin"), ("offset", "0"), ("length", str(ENDLESS))):
        tensor.external_data.add(key=key, value=value)


def _constant_node(model: Any) -> None:
    node = model.graph.node[0]
    del node.attribute[0].t.dims[:]
    node.attribute[0].t.dims.extend([ENDLESS, 1])


def constant_dims(path: Path) -> None:
    from onnx import numpy_helper

    value = numpy_helper.from_array(np.float32([1]))
    nodes = [("Constant", "", "k", {"value": value}), ("Conv", "x w", "c"), ("Add", "c k", "y")]
    weights = {"w": np.ones((2, 2, 1, 1), np.float32)}
    onnx_file(nodes, weights, change=_constant_node)(path)


FILL = ("ConstantOfShape", "s", "k")
WIDE = ("ConstantOfShape", "s", "a"), ("ConstantOfShape", "t", "b")
ROW, COLUMN = np.array([1 << 20, 1]), np.array([1, 1 << 20])
PLAIN = {"w": np.ones((2, 2, 1, 1), np.float32)}
ONNX: dict[str, Make] = {
    "ConstantOfShape": folded(FILL, s=np.array([HUGE])),
    "ConstantOfShape of bytes": folded(FILL, s=np.array([1 << 20, 1 << 20])),
    "ConstantOfShape without elements": folded(FILL, s=np.array([ENDLESS, 0])),
    "a computed shape": folded(("Concat", "s s s", "j", {"axis": 0}),
                               ("ConstantOfShape", "j", "k"), s=np.array([1 << 12])),
    "many constants": folded(
        *[("ConstantOfShape", "s", f"k{at}") for at in range(20)],
        ("Sum", " ".join(f"k{at}" for at in range(20)), "k"), s=np.array([1 << 23])),
    "Expand": folded(("Expand", "one s", "k"), s=np.array([1 << 17, 1 << 17])),
    "Tile": folded(("Tile", "one s", "k"), s=np.array([ENDLESS])),
    "Range": folded(("Range", "a b d", "k"), a=np.array(0), b=np.array(ENDLESS), d=np.array(1)),
    "Range of reals": folded(("Range", "a b d", "k"), a=np.float32(0), b=np.float32(1),
                             d=np.float32(1e-10)),
    "Range of another domain": folded(("Range", "a b d", "k", {"domain": "com.microsoft"}),
                                      a=np.array(0), b=np.array(ENDLESS), d=np.array(1)),
    "Pad": folded(("Pad", "one s", "k"), s=np.array([0, ENDLESS])),
    "Resize": folded(("Resize", "three - s", "k", {"mode": "nearest"}),
                     s=np.float32([1, 1, 1e5, 1e5])),
    "Resize to a size": folded(("Resize", "three - - s", "k", {"mode": "nearest"}),
                               s=np.array([1, 1, 1 << 17, 1 << 17])),
    "Upsample": folded(("Upsample", "three s", "k", {"mode": "nearest"}),
                       opset=9, s=np.float32([1, 1, 1e5, 1e5])),
    "OneHot": folded(("OneHot", "s d v", "k"), s=np.zeros(9, np.int64),
                     d=np.array(ENDLESS), v=np.float32([0, 1])),
    "EyeLike": folded(("ConstantOfShape", "s", "a"), ("EyeLike", "a", "k"),
                      s=np.array([1 << 15, 1 << 15])),
    "broadcast": folded(*WIDE, ("Add", "a b", "k"), s=ROW, t=COLUMN),
    "Where": folded(*WIDE, ("Cast", "a", "yes", {"to": 9}), ("Where", "yes a b", "k"),
                    s=ROW, t=COLUMN),
    "an outer product": folded(*WIDE, ("MatMul", "a b", "k"), s=ROW, t=COLUMN),
    "Einsum": folded(*WIDE, ("Einsum", "a b", "k", {"equation": "ij,kl->il"}), s=ROW, t=COLUMN),
    "Gemm": folded(*WIDE, ("Gemm", "a b", "k"), s=ROW, t=COLUMN),
    "NonZero": folded(("Expand", "one s", "a"), ("NonZero", "a", "k"),
                      s=np.array([1] * 60 + [1 << 23])),
    "Conv": folded(("Conv", "three three", "k", {"pads": [1 << 17] * 4})),
    "ConvTranspose": folded(("Expand", "three s", "a"), ("ConvTranspose", "a three", "k",
                            {"strides": [1 << 15, 1 << 15]}), s=np.array([1, 1, 4, 4])),
    "MaxPool": folded(("MaxPool", "three", "k", {"kernel_shape": [1 << 17, 1 << 17],
                                                 "pads": [(1 << 17) - 1] * 4})),
    "GatherND": folded(("Expand", "zero s", "at"), ("Gather", "one at", "k"),
                       zero=np.array([0]), s=np.array([1 << 17, 1 << 17])),
    "a branch": in_branch(lambda: _branch(("ConstantOfShape", "s", "k"), s=np.array([HUGE]))),
    "a Loop in a branch": in_branch(lambda: _branch(
        ("Loop", "turns - one", "k", {"body": loop_body()}),
        turns=np.array(ENDLESS), one=np.float32([1]))),
    "Scan": scan,
    "dims of a constant": onnx_file([("Conv", "x w", "y")], PLAIN,
                                    change=_declare("w", [ENDLESS, 1, 1, 1])),
    "dims that overflow": onnx_file([("Conv", "x w", "y")], PLAIN,
                                    change=_declare("w", [1 << 62, 4, 1, 1])),
    "external data": onnx_file([("Conv", "x w", "y")], PLAIN, change=_external),
    "a Constant": constant_dims,
    "an input": onnx_file([("Relu", "x", "y")], {}, x=(1, (1 << 31) - 2)),
    "an input with a batch": onnx_file([("Conv", "x w", "y")], PLAIN, x=(1 << 28, 2, 6, 6)),
    "a small input with a batch": onnx_file([("Relu", "x", "y")], {}, x=(1 << 31, 1)),
    "Expand of the input": mapped(("Expand", "c s", "y"),
                                  s=np.array([1 << 14, 1 << 14, 1, 6, 6])),
    "Tile of the input": mapped(("Tile", "c s", "y"), s=np.array([1, 1, 1 << 14, 1 << 14])),
    "Pad of the input": mapped(("Pad", "c s", "y"),
                               s=np.array([0, 0, 0, 0, 0, 0, 1 << 20, 1 << 20])),
    "Resize of the input": mapped(("Resize", "c - s", "y", {"mode": "nearest"}),
                                  s=np.float32([1, 1, 1e5, 1e5])),
    "ConvTranspose of the input": mapped(("ConvTranspose", "c w", "y", {"strides": [1 << 15] * 2})),
    "broadcast of the input": mapped(("ConstantOfShape", "s", "a"), ("Add", "c a", "b"),
                                     ("Transpose", "b", "y"), s=np.array([1 << 22, 1, 1, 1])),
    "MatMul of the input": mapped(("Flatten", "c", "f"), ("Transpose", "f", "t"),
                                  ("ConstantOfShape", "s", "a"), ("MatMul", "t a", "y"),
                                  s=np.array([1, 1 << 22])),
    "Gather of the input": mapped(("Expand", "zero s", "at"), ("Gather", "c at", "y"),
                                  zero=np.array([0]), s=np.array([1 << 14, 1 << 14])),
    "a window of the input": mapped(("MaxPool", "c", "y", {"kernel_shape": [1 << 17, 1 << 17],
                                                           "pads": [(1 << 17) - 1] * 4})),
}  # fmt: skip
