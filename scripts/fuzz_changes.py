"""Change ONNX graphs at random so that most of them stay valid, other than `fuzz_damages`.

Each of `CHANGES` changes a random place of a model and returns a description, or None if the model
has no such place. `change_model` applies one to three of them to a copy of a model.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from onnx import helper, numpy_helper

from scripts.fuzz_damages import damage_model, one_of

Random = np.random.Generator
Change = Callable[[Any, Random], str | None]

UNARY = (
    "Relu", "LeakyRelu", "Sigmoid", "Tanh", "Neg", "Abs", "HardSigmoid", "Elu", "Softplus",
    "Identity", "Floor", "Exp", "Sign", "Erf", "HardSwish",
)  # fmt: skip
SAME_ARITY: tuple[tuple[str, ...], ...] = (
    UNARY,
    ("Add", "Sub", "Mul", "Div", "Max", "Min", "Sum", "Mean"),
    ("MaxPool", "AveragePool"),
    ("GlobalAveragePool", "GlobalMaxPool"),
    ("ReduceMean", "ReduceMax", "ReduceMin"),
    ("Softmax", "LogSoftmax", "Hardmax"),
    ("QLinearAdd", "QLinearMul"),
)
"""Operators with the same inputs and outputs."""
OWN_ATTRIBUTES = (
    "LeakyRelu",
    "Elu",
    "HardSigmoid",
)  # whose defaults replace values
SMALL = ("pads", "strides", "dilations", "kernel_shape", "axis", "axes", "perm", "split", "starts",
         "ends", "group", "blocksize")  # fmt: skip
FLAGS = ("ceil_mode", "count_include_pad", "transB", "transA", "keepdims", "allowzero")
FACTORS = (0.0, -1.0, 0.25, 0.5, 1.3, 2.0, 3.7, 100.0, 1e-3)
STEPS = (1 / 3, 0.5, 0.77, 1.01, 1.5, 2.0, 8.0)
OPSETS = (7, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21)


def _constants(graph: Any, kinds: Sequence[int], least: int = 1) -> list[Any]:
    """Return the constants of some element types with at least so many elements."""
    return [
        one
        for one in graph.initializer
        if one.data_type in kinds and int(np.prod(one.dims, dtype=object)) >= least
    ]


def _put(tensor: Any, values: Any) -> None:
    tensor.CopyFrom(numpy_helper.from_array(np.ascontiguousarray(values), tensor.name))


def _readers(graph: Any, place: Sequence[int]) -> set[str]:
    """Return the names that quantising nodes read at one of some places."""
    return {
        node.input[at]
        for node in graph.node
        if "Quant" in node.op_type or node.op_type.startswith("QLinear")
        for at in place
        if at < len(node.input)
    }


def _is_scale(graph: Any, tensor: Any) -> bool:
    return tensor.name.endswith("scale") or tensor.name in _readers(graph, (1,))


def scale_weights(model: Any, random: Random) -> str | None:
    """Multiply a constant of real numbers, all of it or one slice of an axis, by a factor."""
    tensor = one_of(random, _constants(model.graph, (1,)))
    if tensor is None or _is_scale(model.graph, tensor):
        return None
    values, factor = numpy_helper.to_array(tensor).copy(), one_of(random, FACTORS)
    if values.ndim and random.random() < 0.5:
        axis = int(random.integers(values.ndim))
        place = [slice(None)] * values.ndim
        place[axis] = int(random.integers(values.shape[axis]))  # type: ignore[call-overload]
        values[tuple(place)] *= np.float32(factor)
    else:
        values *= np.float32(factor)
    _put(tensor, values)
    return f"{tensor.name} times {factor}"


def shuffle_weights(model: Any, random: Random) -> str | None:
    """Draw a constant again: permuted, equal, sparse, one number large, or signs alone."""
    tensor = one_of(random, _constants(model.graph, (1, 2, 3), 2))
    if tensor is None or _is_scale(model.graph, tensor):
        return None
    values = numpy_helper.to_array(tensor).copy()
    flat, way = values.reshape(-1), int(random.integers(5))
    if way == 0:
        random.shuffle(flat)
    elif way == 1:
        flat[:] = flat[0]
    elif way == 2:
        flat[random.random(flat.size) < 0.8] = 0
    elif way == 3:
        most = 20 * np.abs(flat).max() if values.dtype.kind == "f" else np.iinfo(values.dtype).max
        flat[int(random.integers(flat.size))] = most
    elif values.dtype.kind == "f":
        flat[:] = np.where(flat < 0, -1, 1)
    else:
        ends = np.iinfo(values.dtype)
        flat[:] = random.integers(ends.min, ends.max + 1, flat.size)
    _put(tensor, values)
    return f"{tensor.name} drawn again, way {way}"


def change_scale(model: Any, random: Random) -> str | None:
    """Multiply a quantisation scale, or copy the scale of another tensor."""
    graph = model.graph
    found = [one for one in _constants(graph, (1,)) if _is_scale(graph, one)]
    tensor = one_of(random, found)
    if tensor is None:
        return None
    values, other = numpy_helper.to_array(tensor), numpy_helper.to_array(one_of(random, found))
    if random.random() < 0.25 and other.shape == values.shape:
        _put(tensor, other)
        return f"scale {tensor.name} copied"
    factor = one_of(random, STEPS)
    if random.random() < 0.3:
        _put(tensor, np.exp2(np.rint(np.log2(np.maximum(values, 1e-9)))).astype(np.float32))
        return f"scale {tensor.name} is a power of two"
    _put(tensor, values * np.float32(factor))
    return f"scale {tensor.name} times {factor}"


def change_zero_point(model: Any, random: Random) -> str | None:
    """Set a zero point to another number of its type."""
    found = _constants(model.graph, (2, 3))
    found = [one for one in found if "zero" in one.name or not one.dims]
    tensor = one_of(random, found)
    if tensor is None:
        return None
    values = numpy_helper.to_array(tensor)
    ends = np.iinfo(values.dtype)
    near = int(values.reshape(-1)[0]) + int(random.integers(-9, 10))
    number = int(np.clip(one_of(random, (0, ends.min, ends.max, near, near)), ends.min, ends.max))
    _put(tensor, np.full_like(values, number))
    return f"zero point {tensor.name} is {number}"


def change_numbers(model: Any, random: Random) -> str | None:
    """Change one of the whole numbers that a node reads: shapes, axes, pads, parts."""
    tensor = one_of(random, _constants(model.graph, (7,)))
    if tensor is None:
        return None
    values = numpy_helper.to_array(tensor).copy()
    flat = values.reshape(-1)
    if flat.size > 1 and random.random() < 0.5:
        one, other = random.permutation(flat.size)[:2]
        flat[[one, other]] = flat[[other, one]]
    else:
        flat[int(random.integers(flat.size))] += one_of(random, (-1, 1, 1, 2))
    _put(tensor, values)
    return f"values of {tensor.name}: {flat[:6].tolist()}"


def change_attribute(model: Any, random: Random) -> str | None:
    """Change a number of an attribute a little, or permute its numbers."""
    found = [(node, one) for node in model.graph.node for one in node.attribute]
    found = [(n, a) for n, a in found if a.name in (*SMALL, *FLAGS) or a.type == 1]
    node, old = one_of(random, found) or (None, None)
    if node is None:
        return None
    if old.type == 1:
        old.f *= float(one_of(random, (0.0, -1.0, 0.5, 2.0, 10.0)))
    elif old.name in FLAGS:
        old.i = 1 - old.i
    elif len(old.ints):
        at = int(random.integers(len(old.ints)))
        if random.random() < 0.4:
            values = list(old.ints)
            random.shuffle(values)
            old.ints[:] = values
        else:
            old.ints[at] += one_of(random, (-1, 1, 1))
    else:
        old.i += one_of(random, (-1, 1, 1, -2))
    return f"attribute {old.name} of {node.name} is {helper.get_attribute_value(old)}"


def add_attribute(model: Any, random: Random) -> str | None:
    """Give a window pads, strides or dilations, or automatic padding."""
    kinds = ("Conv", "MaxPool", "AveragePool", "QLinearConv", "ConvInteger")
    node = one_of(random, [one for one in model.graph.node if one.op_type in kinds])
    if node is None:
        return None
    axes, name = 2, one_of(random, ("pads", "strides", "dilations", "auto_pad", "ceil_mode"))
    value: Any = {
        "pads": random.integers(0, 3, 2 * axes).tolist(),
        "strides": random.integers(1, 4, axes).tolist(),
        "dilations": random.integers(1, 4, axes).tolist(),
        "auto_pad": one_of(random, ("SAME_UPPER", "SAME_LOWER", "VALID")),
        "ceil_mode": 1,
    }[name]
    gone = {name, "pads"} if name == "auto_pad" else {name, "auto_pad"}
    kept = [one for one in node.attribute if one.name not in gone]
    kept = [type(one).FromString(one.SerializeToString()) for one in kept]
    del node.attribute[:]
    node.attribute.extend([*kept, helper.make_attribute(name, value)])
    return f"attribute {name} of {node.name} is {value}"


def change_kind(model: Any, random: Random) -> str | None:
    """Replace an operator by another one with the same inputs."""
    found = [
        (node, group)
        for node in model.graph.node
        for group in SAME_ARITY
        if node.op_type in group and (group is not UNARY or len(node.input) == 1)
    ]
    node, group = one_of(random, found) or (None, ())
    if node is None:
        return None
    old, node.op_type = node.op_type, one_of(random, group)
    if group is UNARY or "AveragePool" in group:
        kept = [one for one in node.attribute if group is not UNARY]
        kept = [one for one in kept if one.name not in ("count_include_pad", "storage_order")]
        kept = [type(one).FromString(one.SerializeToString()) for one in kept]
        del node.attribute[:]
        node.attribute.extend(kept)
    return f"{node.name} is {node.op_type} instead of {old}"


def insert_node(model: Any, random: Random) -> str | None:
    """Insert a function of single numbers after a node."""
    graph = model.graph
    found = [one for one in graph.node if one.op_type not in ("Constant", "DynamicQuantizeLinear")]
    node = one_of(random, found)
    if node is None or len(node.output) != 1:
        return None
    name, kind = node.output[0], one_of(random, UNARY)
    inside = f"{name}_inside{len(graph.node)}"
    at = list(graph.node).index(node)
    node.output[0] = inside
    graph.node.insert(at + 1, helper.make_node(kind, [inside], [name], f"{kind}_{inside}"))
    return f"{kind} after {node.name}"


def drop_node(model: Any, random: Random) -> str | None:
    """Drop a node; its readers read its first input."""
    graph = model.graph
    ends = {one.name for one in graph.output}
    found = [one for one in graph.node if len(one.input) and not ends & set(one.output)]
    node = one_of(random, found)
    if node is None:
        return None
    for one in graph.node:
        one.input[:] = [node.input[0] if name in node.output else name for name in one.input]
    graph.node.remove(node)
    return f"{node.name} dropped"


def repeat_node(model: Any, random: Random) -> str | None:
    """Apply a node twice: the second time to its result."""
    graph = model.graph
    node = one_of(random, [one for one in graph.node if len(one.input) and len(one.output) == 1])
    if node is None:
        return None
    name = node.output[0]
    inside, at = f"{name}_first{len(graph.node)}", list(graph.node).index(node)
    again = type(node).FromString(node.SerializeToString())
    node.output[0] = inside
    again.input[0], again.name = inside, f"{node.name}_again"
    graph.node.insert(at + 1, again)
    return f"{node.name} twice"


def rewire(model: Any, random: Random) -> str | None:
    """Let a node read another value that is computed before it."""
    graph = model.graph
    at = int(random.integers(len(graph.node))) if len(graph.node) else 0
    earlier = [name for node in list(graph.node)[:at] for name in node.output if name]
    node = graph.node[at] if earlier else None
    if node is None or not len(node.input):
        return None
    place = int(random.integers(len(node.input))) if random.random() < 0.3 else 0
    old, node.input[place] = node.input[place], one_of(random, [*earlier, graph.input[0].name])
    return f"{node.name} reads {node.input[place]} instead of {old}"


def swap_inputs(model: Any, random: Random) -> str | None:
    """Swap two inputs of a node, or two of its outputs."""
    found = [one for node in model.graph.node for one in (node.input, node.output) if len(one) > 1]
    names = one_of(random, found)
    if names is None:
        return None
    one, other = random.permutation(len(names))[:2]
    names[one], names[other] = names[other], names[one]
    return f"{names[other]} and {names[one]} swapped"


def change_ends(model: Any, random: Random) -> str | None:
    """Make another value an output, drop an output, or give an output no shape."""
    graph = model.graph
    way = int(random.integers(3))
    if way == 0:
        known = {one.name for one in graph.output}
        made = [n for node in graph.node for n in node.output if n and n not in known]
        name = one_of(random, made)
        if name is None:
            return None
        graph.output.append(helper.make_empty_tensor_value_info(name))
        return f"{name} is an output"
    if way == 1 and len(graph.output) > 1:
        gone = graph.output.pop(int(random.integers(len(graph.output))))
        return f"{gone.name} is no output"
    one = one_of(random, graph.output)
    one.CopyFrom(helper.make_empty_tensor_value_info(one.name))
    return f"output {one.name} without a type"


def change_input(model: Any, random: Random) -> str | None:
    """Change rows or columns of the input."""
    dims = model.graph.input[0].type.tensor_type.shape.dim
    if len(dims) != 4:
        return None
    axis = int(random.integers(2, 4))
    dims[axis].dim_value = max(1, dims[axis].dim_value + one_of(random, (-2, -1, 1, 3)))
    del model.graph.value_info[:]
    return f"input of {dims[2].dim_value} x {dims[3].dim_value}"


def change_opset(model: Any, random: Random) -> str | None:
    """Declare another opset or IR version."""
    if random.random() < 0.3:
        model.ir_version = int(random.integers(3, 11))
        return f"IR version {model.ir_version}"
    one = one_of(random, [one for one in model.opset_import if one.domain in ("", "ai.onnx")])
    if one is None:
        return None
    one.version = one_of(random, OPSETS)
    return f"opset {one.version}"


CHANGES: tuple[tuple[Change, float], ...] = (
    (scale_weights, 3), (shuffle_weights, 3), (change_scale, 3), (change_zero_point, 2),
    (change_numbers, 1), (change_attribute, 3), (add_attribute, 1.5), (change_kind, 3),
    (insert_node, 2), (drop_node, 2), (repeat_node, 1.5), (rewire, 2), (swap_inputs, 1.5),
    (change_ends, 1.5), (change_input, 1), (change_opset, 0.5),
)  # fmt: skip
"""Changes, and how often they are taken relative to others."""
DAMAGED = 0.08  # share of models that `fuzz_damages` changes instead


def change_model(model: Any, random: Random) -> tuple[bytes, str]:
    """Return a changed copy of a model, serialised, and the changes."""
    if random.random() < DAMAGED:
        return damage_model(model, random)
    copy = type(model).FromString(model.SerializeToString())
    weights = np.array([weight for _, weight in CHANGES])
    said: list[str] = []
    most = int(random.integers(1, 4))
    for _ in range(50):
        change = CHANGES[int(random.choice(len(CHANGES), p=weights / weights.sum()))][0]
        if done := change(copy, random):
            said.append(done)
        if len(said) == most:
            break
    return copy.SerializeToString(), "; ".join(said)
