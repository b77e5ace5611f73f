"""Damage the structure of ONNX graphs at random, as broken or malicious exporters do.

Each of `DAMAGES` changes a random place of a graph and returns a description, or None if the graph
has no such place. `damage_model` applies one or several of them to a copy of a model.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from onnx import AttributeProto, TensorProto, helper, numpy_helper

Random = np.random.Generator
HUGE = (1 << 16, 1 << 20, 1 << 28, 805306368, (1 << 31) - 1, 1 << 31, 1 << 40, (1 << 63) - 1)
SIZES = (0, -1, -7, 1, 2, 3, 5, 1000, *HUGE)
KINDS = (
    "Relu", "Conv", "Gemm", "MatMul", "Add", "Sub", "Mul", "Div", "Concat", "Split", "Slice", "Pad",
    "Resize", "Reshape", "Transpose", "Flatten", "Squeeze", "Unsqueeze", "Expand", "Tile", "Range",
    "ConstantOfShape", "Gather", "Shape", "Cast", "Softmax", "LRN", "BatchNormalization", "Clip",
    "PRelu", "LeakyRelu", "MaxPool", "AveragePool", "GlobalAveragePool", "QuantizeLinear",
    "DequantizeLinear", "QLinearConv", "QLinearMatMul", "QLinearAdd", "ConvInteger",
    "MatMulInteger", "DynamicQuantizeLinear", "Quant", "BipolarQuant", "RequantShift", "Trunc",
    "ImageScaler", "Upsample", "ConvTranspose", "DepthToSpace", "SpaceToDepth", "ReduceMean", "Sum",
    "Identity", "Dropout", "Loop", "If", "Scan", "LSTM", "NonZero", "Where", "OneHot", "ZipMap",
    "TopK", "EyeLike", "RandomNormal", "Constant", "StringNormalizer", "SequenceConstruct",
    "Optional", "Sign", "Einsum", "Unknown", "",
)  # fmt: skip
DOMAINS = (
    "",
    "ai.onnx",
    "ai.onnx.ml",
    "com.microsoft",
    "qonnx.custom_op.general",
    "nobody",
    "\x00",
)
VERSIONS = (-1, 0, 1, 6, 7, 8, 9, 10, 11, 12, 13, 18, 21, 30, 1 << 40)
NAMES = ("", "x", "y", "\n", "a" * 5000, "\u202e", "../out", "w")
TYPES = (0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 21, 22, 23, 99)


def one_of(random: Random, some: Any) -> Any:
    """Return a random element of a sequence, or None if it is empty."""
    return some[int(random.integers(len(some)))] if len(some) else None


def _all_names(graph: Any) -> list[str]:
    made = [name for node in graph.node for name in (*node.input, *node.output)]
    return [*made, *(one.name for one in graph.initializer), *NAMES]


def change_names(graph: Any, random: Random) -> str | None:
    """Drop, duplicate, swap or rename inputs or outputs of a node."""
    node = one_of(random, graph.node)
    names = node and one_of(random, [node.input, node.output])
    if not names:
        return None
    way, at = int(random.integers(6)), int(random.integers(len(names)))
    if way == 0:
        del names[at]
    elif way == 1:
        del names[:]
    elif way == 2:
        names.insert(at, names[at])
    elif way == 3:
        names.extend([one_of(random, _all_names(graph))] * int(random.integers(1, 9)))
    elif way == 4:
        found = list(names)
        random.shuffle(found)
        names[:] = found
    else:
        names[at] = one_of(random, _all_names(graph))
    return f"names of {node.name}, way {way}"


def change_attribute(graph: Any, random: Random) -> str | None:
    """Drop, duplicate or rename an attribute, or change its value or type."""
    node = one_of(random, [one for one in graph.node if one.attribute])
    if node is None:
        return None
    at = int(random.integers(len(node.attribute)))
    old, way = node.attribute[at], int(random.integers(6))
    if way == 0:
        del node.attribute[at]
    elif way == 1:
        node.attribute.append(old)
    elif way == 2:
        old.name = one_of(random, ("axis", "pads", "axes", "group", "value", "", "perm", "to"))
    elif way == 3:
        old.type = one_of(random, TYPES[:15])
    elif way == 4 and len(old.ints):
        old.ints[int(random.integers(len(old.ints)))] = one_of(random, SIZES)
    else:
        value = one_of(random, ATTRIBUTES)(random)
        node.attribute[at].CopyFrom(helper.make_attribute(old.name or "a", value))
    return f"attribute {old.name} of {node.name}, way {way}"


def add_attribute(graph: Any, random: Random) -> str | None:
    node = one_of(random, graph.node)
    if node is None:
        return None
    name = one_of(random, (
        "axis", "axes", "perm", "to", "pads", "strides", "dilations", "kernel_shape", "group",
        "auto_pad", "ceil_mode", "transB", "transA", "alpha", "beta", "mode", "value", "keepdims",
        "epsilon", "allowzero", "count_include_pad", "body", "num_outputs", "block_size", "signed",
    ))  # fmt: skip
    node.attribute.append(helper.make_attribute(name, one_of(random, ATTRIBUTES)(random)))
    return f"attribute {name} added to {node.name}"


ATTRIBUTES: tuple[Callable[[Random], Any], ...] = (
    lambda random: int(one_of(random, SIZES)),
    lambda random: [int(one_of(random, SIZES)) for _ in range(int(random.integers(1, 6)))],
    lambda random: float(one_of(random, (0.0, -1.0, float("nan"), float("inf"), 1e300))),
    lambda random: [0.5] * int(random.integers(1, 5)),
    lambda random: one_of(random, ("", "SAME_UPPER", "\xff\xfe", "constant", "x" * 3000)),
    lambda random: ["a", "b"],
    lambda random: numpy_helper.from_array(np.arange(int(random.integers(4)))),
    lambda random: TensorProto(),
    lambda random: helper.make_graph([], "empty", [], []),
)


def change_kind(graph: Any, random: Random) -> str | None:
    """Change the operator or domain of a node."""
    node = one_of(random, graph.node)
    if node is None:
        return None
    if random.integers(5) == 0:
        node.domain = one_of(random, DOMAINS)
    else:
        node.op_type = one_of(random, KINDS)
    return f"{node.name} is {node.domain}.{node.op_type}"


def change_nodes(graph: Any, random: Random) -> str | None:
    """Drop, duplicate, reorder or rename nodes, or create a cycle."""
    if not len(graph.node):
        return None
    at, way = int(random.integers(len(graph.node))), int(random.integers(6))
    if way == 0:
        del graph.node[at]
    elif way == 1:
        graph.node.append(graph.node[at])
    elif way == 2:
        found = [type(node).FromString(node.SerializeToString()) for node in graph.node]
        random.shuffle(found)
        del graph.node[:]
        graph.node.extend(found)
    elif way == 3:
        last = graph.node[-1].output
        if last and graph.node[at].input:
            graph.node[at].input[0] = last[0]
    elif way == 4:
        graph.node[at].name = one_of(random, (*NAMES, graph.node[0].name))
    else:
        for node in graph.node:
            node.name = ""
    return f"nodes, way {way}"


def change_dims(graph: Any, random: Random) -> str | None:
    """Change the dims of a constant, so that they are invalid or do not match its data."""
    tensor = one_of(random, graph.initializer)
    if tensor is None:
        return None
    way = int(random.integers(5))
    if way == 0 or not len(tensor.dims):
        tensor.dims.append(one_of(random, SIZES))
    elif way == 1:
        del tensor.dims[int(random.integers(len(tensor.dims)))]
    elif way == 2:
        tensor.dims[int(random.integers(len(tensor.dims)))] = one_of(random, SIZES)
    elif way == 3:  # the same elements with permuted axes
        found = list(tensor.dims)
        random.shuffle(found)
        tensor.dims[:] = found
    else:
        tensor.dims[:] = [*tensor.dims, *[1] * int(random.integers(1, 70))]
    return f"dims of {tensor.name}: {list(tensor.dims)[:6]}"


def _values(tensor: Any) -> Any | None:
    """Return the elements of a constant; None if an earlier damage made them unreadable."""
    try:
        return numpy_helper.to_array(tensor).copy()
    except Exception:  # errors of onnx and numpy
        return None


def change_values(graph: Any, random: Random) -> str | None:
    """Change integers of a constant, such as shapes, axes and sizes."""
    found = [one for one in graph.initializer if one.data_type == 7]
    tensor = one_of(random, found)
    if tensor is None:
        return None
    values = _values(tensor)
    if values is None:
        return None
    flat = values.reshape(-1)
    for _ in range(int(random.integers(1, 4))):
        if flat.size:
            flat[int(random.integers(flat.size))] = one_of(random, SIZES)
    if random.integers(4) == 0:
        values = np.array([one_of(random, SIZES) for _ in range(int(random.integers(0, 6)))], int)
    if random.integers(6) == 0:
        values = values.astype(one_of(random, ("f4", "i4", "u1", "f8", "?", "O", "c8")))
    if values.dtype == object:
        values = values.astype(str).astype(object)
    tensor.CopyFrom(numpy_helper.from_array(values, tensor.name))
    return f"values of {tensor.name}: {values.reshape(-1)[:6].tolist()}"


def change_numbers(graph: Any, random: Random) -> str | None:
    """Set a constant, scale or zero point to NaN, infinity, a huge value or zero."""
    tensor = one_of(random, [one for one in graph.initializer if one.data_type in (1, 2, 3, 6)])
    if tensor is None:
        return None
    values = _values(tensor)
    if values is None:
        return None
    real = values.dtype.kind == "f"
    value = one_of(random, (np.nan, np.inf, -1, 0, 1e38, 1e-45) if real else (0, 1, 127, 100))
    values[...] = value
    tensor.CopyFrom(numpy_helper.from_array(values, tensor.name))
    return f"{tensor.name} is {value}"


def change_tensor(graph: Any, random: Random) -> str | None:
    """Change type, bytes, location or name of a constant, or drop or duplicate it."""
    if not len(graph.initializer):
        return None
    at, way = int(random.integers(len(graph.initializer))), int(random.integers(9))
    tensor = graph.initializer[at]
    what = f"constant {tensor.name}, way {way}"
    if way == 0:
        tensor.data_type = one_of(random, TYPES)
    elif way == 1:
        tensor.raw_data = tensor.raw_data[: int(random.integers(len(tensor.raw_data) + 1))]
    elif way == 2:
        tensor.raw_data += random.bytes(int(random.integers(1, 9)))
    elif way == 3:
        tensor.ClearField("raw_data")
        tensor.string_data.extend([b"a", b"\xff"])
    elif way == 4:
        del graph.initializer[at]
    elif way == 5:
        graph.initializer.append(tensor)
    elif way == 6:
        tensor.name = one_of(random, _all_names(graph))
    elif way == 7:
        _outside(tensor, random)
    else:
        tensor.float_data.extend([1.0, 2.0])
    return what


def _outside(tensor: Any, random: Random) -> None:
    """Use external data: missing, outside the folder, of another length, or without a location."""
    places = (
        "absent.bin",
        "../outside.bin",
        "/etc/hostname",
        "weights.bin",
        "",
        "samples.npz",
        ".",
    )
    size = len(tensor.raw_data)
    entries = {
        "location": one_of(random, places),
        "offset": one_of(random, ("0", "-1", "4", "x", str(1 << 62))),
        "length": one_of(random, (str(size), "0", "-1", "x", str(1 << 40), str(size // 2))),
    }
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    for key, value in entries.items():
        if random.integers(5):
            tensor.external_data.add(key=key, value=value)
    Path("weights.bin").write_bytes(random.bytes(max(0, size + int(random.integers(-9, 9)))))


def change_ends(graph: Any, random: Random) -> str | None:
    """Change dims, types, names or number of the graph's inputs and outputs."""
    ends = one_of(random, [graph.input, graph.output, graph.value_info])
    if not len(ends):
        return None
    at, way = int(random.integers(len(ends))), int(random.integers(8))
    end = ends[at]
    dims, what = end.type.tensor_type.shape.dim, f"end {end.name}, way {way}"
    if way == 0:
        end.type.tensor_type.elem_type = one_of(random, TYPES)
    elif way == 1 and len(dims):
        dims[int(random.integers(len(dims)))].dim_value = one_of(random, SIZES)
    elif way == 2 and len(dims):
        dims[int(random.integers(len(dims)))].dim_param = "n"
    elif way == 3:
        dims.add().dim_value = one_of(random, SIZES)
    elif way == 4 and len(dims):
        del dims[int(random.integers(len(dims)))]
    elif way == 5:
        end.ClearField("type")
    elif way == 6:
        end.name = one_of(random, _all_names(graph))
    else:
        ends.add().CopyFrom(end) if random.integers(2) else ends.pop(at)
    return what


def add_node(graph: Any, random: Random) -> str | None:
    """Insert a node: any operator with any names, or a constant of any size."""
    at = int(random.integers(len(graph.node) + 1))
    names = _all_names(graph)
    result = f"new{at}"
    way = int(random.integers(4))
    if way == 0:
        inputs = [one_of(random, names) for _ in range(int(random.integers(5)))]
        node = helper.make_node(one_of(random, KINDS), inputs, [result], result)
    else:
        shape = [int(one_of(random, SIZES)) for _ in range(int(random.integers(1, 4)))]
        if way == 1:  # a size that barely fits
            shape = [1, 805306368]
        graph.initializer.append(numpy_helper.from_array(np.array(shape), f"shape{at}"))
        kind = one_of(random, ("ConstantOfShape", "Expand", "Tile", "Reshape"))
        inputs = [f"shape{at}"] if kind == "ConstantOfShape" else ["x", f"shape{at}"]
        if kind != "ConstantOfShape" and random.integers(2) and len(graph.initializer):
            inputs[0] = one_of(random, graph.initializer).name
        node = helper.make_node(kind, inputs, [result], result)
    nodes = [type(one).FromString(one.SerializeToString()) for one in graph.node]
    later = [one for one in nodes[at:] if one.input]
    if later:
        taker = one_of(random, later)
        taker.input[int(random.integers(len(taker.input)))] = result
    del graph.node[:]
    graph.node.extend([*nodes[:at], node, *nodes[at:]])
    return f"new {node.op_type} of {list(node.input)}"


def add_subgraph(graph: Any, random: Random) -> str | None:
    """Replace a node by If or Loop with a copy of the graph, or an empty graph, as its body."""
    node = one_of(random, graph.node)
    if node is None:
        return None
    body = (
        type(graph).FromString(graph.SerializeToString()) if random.integers(2) else type(graph)()
    )
    kind = one_of(random, ("If", "Loop", "Scan", node.op_type))
    node.op_type = kind
    for name in one_of(random, (("then_branch", "else_branch"), ("body",), ("then_branch",))):
        node.attribute.add(name=name, type=AttributeProto.GRAPH).g.CopyFrom(body)
    return f"{node.name} is {kind} with a graph"


def add_sparse(graph: Any, random: Random) -> str | None:
    """Replace a dense constant by a sparse one, or add an invalid sparse constant."""
    tensor = one_of(random, graph.initializer)
    if tensor is None:
        return None
    sparse = graph.sparse_initializer.add()
    sparse.values.CopyFrom(tensor)
    sparse.dims.extend([int(one_of(random, SIZES))])
    sparse.indices.CopyFrom(numpy_helper.from_array(np.array([0, one_of(random, SIZES)]), "at"))
    if random.integers(2):
        graph.initializer.remove(tensor)
    return f"sparse {sparse.values.name}"


DAMAGES: tuple[Callable[[Any, Random], str | None], ...] = (
    change_names, change_names, change_attribute, add_attribute, change_kind, change_nodes,
    change_dims, change_values, change_values, change_numbers, change_tensor, change_tensor,
    change_ends, add_node, add_node, add_subgraph, add_sparse,
)  # fmt: skip


def damage_model(base: Any, random: Random) -> tuple[bytes, str]:
    """Return a damaged, serialised copy and the descriptions of its damages."""
    model = type(base)()
    model.CopyFrom(base)
    done: list[str] = []
    while not done or random.integers(3) == 0:
        if random.integers(20) == 0 and len(model.opset_import):
            one_of(random, model.opset_import).version = one_of(random, VERSIONS)
            done.append("opset")
        elif random.integers(40) == 0:
            model.ir_version = one_of(random, VERSIONS)
            done.append("IR version")
        elif random.integers(60) == 0:
            del model.opset_import[:]
            done.append("no opsets")
        elif (what := one_of(random, DAMAGES)(model.graph, random)) is not None:
            done.append(what)
    return bytes(model.SerializeToString()), "; ".join(done)
