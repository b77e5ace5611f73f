"""Whole numbers of integer networks, which are stored unscaled, on cores and on the host."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mapper.compiler.frontend.onnx import Made, Reader
from mapper.compiler.frontend.quantised import dequantised
from mapper.compiler.ir.graph import Graph, View
from mapper.compiler.ir.node import Dequantise, Host, Node, Quantise
from mapper.compiler.ir.tensor import Tensor
from mapper.errors import MapperError
from storage.formats.layers.onnxgraph import OnnxNode
from storage.formats.layers.onnxwhole import WHOLE

REQUANT_SHIFT = "RequantShift"
MOST_EXACT = 1 << 24
"""Above this, float32 does not hold all whole numbers."""
LEVELS = 256
Ends = tuple[int, int]
"""Least and largest value of whole numbers."""
DEFINED = (
    ": ONNX Runtime lacks this; the host, and the comparison with ONNX Runtime, compute its "
    "definition from ONNX operators"
)
"""End of the note about operators that only have a definition."""
SELECTS = frozenset(
    {"Transpose", "Reshape", "Flatten", "Squeeze", "Unsqueeze", "Gather", "Slice", "Split",
     "Concat", "Expand", "MaxPool", "Identity"}
)  # fmt: skip
"""Operators of the host whose results are some of their inputs."""


def whole_numbers(reader: Reader) -> bool:
    """Return whether a model computes with whole numbers in floating point."""
    return any(node.kind == REQUANT_SHIFT for node in reader.model.nodes)


def number_of(node: OnnxNode, name: str) -> float:
    """Return an attribute that is a number, or a tensor of one number."""
    from onnx import TensorProto, numpy_helper

    if name not in node.attributes:
        raise MapperError(f"has no attribute {name}")
    found = node.attributes[name]
    value = numpy_helper.to_array(found) if isinstance(found, TensorProto) else found
    return float(np.asarray(value).reshape(()))


def _levels(node: OnnxNode, name: str, signed: bool) -> Ends:
    levels = int(number_of(node, name))
    low = -(levels // 2) if signed else 0
    return low, low + levels - 1


ENDS: dict[str, Callable[[OnnxNode], Ends]] = {
    REQUANT_SHIFT: lambda node: _levels(node, "n_levels_out", bool(number_of(node, "signed"))),
    "iLayerNorm": lambda node: _levels(node, "n_levels", signed=True),
    "ITAMax": lambda node: _levels(node, "n_levels", signed=False),
}
"""Ranges that operators clip their results to, by name."""


def ends_of(graph: Graph, tensor: Tensor) -> Ends | None:
    """Return the range of a map of whole numbers, as far as the model limits it; else None."""
    if tensor.type != "float32":
        return tensor.low - tensor.zero_point, tensor.high - tensor.zero_point
    maker = graph.maker(tensor)
    if maker is None:
        return None
    if isinstance(maker.operator, Dequantise):
        return ends_of(graph, maker.inputs[0])
    if not isinstance(maker.operator, Host):
        return None
    node = maker.operator.node
    if node.kind in ENDS:
        return ENDS[node.kind](node)
    parts = [ends_of(graph, one) for one in maker.inputs]
    known = [one for one in parts if one is not None]
    if node.kind not in {*SELECTS, "IntegerMean"} or not known or len(known) < len(parts):
        return None
    return min(low for low, _ in known), max(high for _, high in known)


def stored_zero(low: int, high: int) -> int:
    """Return the zero point that stores a range of at most 256 whole numbers in 8 bits."""
    return -128 if high > 127 else 0


def by_host(reader: Reader, data: View) -> bool:
    return reader.graph.maker(data.tensor, Host) is not None


def real(reader: Reader, node: OnnxNode, data: View, at: int) -> View:
    """Return the whole numbers of a stored map; a model input is stored first, in 8 bits.

    at : number of the input of the node
    """
    if data.tensor in [view.tensor for view in reader.graph.inputs.values()]:
        data = _stored_input(reader, node, data)
    if data.tensor.type == "float32":
        return data
    return dequantised(reader, node, data, f"{node.proto.input[at]}.real")


def _stored_input(reader: Reader, node: OnnxNode, data: View) -> View:
    reader.guessed = True
    note = f"input {data.tensor.name!r} is read as whole numbers from " + (
        "-128 to 127, as the samples of --calibrate contain negative ones"
        if reader.signed
        else "0 to 255: such networks do not specify the range; give samples with "
        "--calibrate if it has negative ones"
    )
    if note not in reader.graph.notes:
        reader.graph.notes.append(note)
    return _stored(reader, node, data, 0 if reader.signed else -128)


def _stored(reader: Reader, node: OnnxNode, data: View, zero_point: int) -> View:
    """Return a map of whole numbers stored in 8 bits."""
    name = f"{data.tensor.name}.stored"
    stored = Tensor(name, data.tensor.shape, "int8", 1.0, zero_point, stored=True)
    reader.graph.nodes.append(Node(Quantise(), [data.tensor], [stored], (node.name,)))
    return data._replace(tensor=stored)


def on_cores(reader: Reader, node: OnnxNode, data: View, at: int) -> View | str:
    """Return the whole numbers of a map for a core, which reads results of the host in 8 bits.

    Returns the reason as text if they do not fit.
    """
    if data.tensor.type != "float32" or not by_host(reader, data):
        return real(reader, node, data, at)
    ends = ends_of(reader.graph, data.tensor)
    if ends is None or ends[1] - ends[0] >= LEVELS:
        return "the host computes its input, which may exceed 8 bits"
    users = (one for one in reader.graph.users(data.tensor) if isinstance(one.operator, Quantise))
    known = next(users, None)
    if known is None:
        stored = _stored(reader, node, data, stored_zero(*ends))
    else:
        stored = data._replace(tensor=known.output)
    name = f"{node.proto.input[at]}.whole{len(reader.graph.nodes)}"
    return dequantised(reader, node, stored, name)


def on_host(reader: Reader, node: OnnxNode, inputs: list[Any], why: str | None) -> Made:
    """Add a host node for a node that reads whole numbers."""
    taken = [
        real(reader, node, one, at) if isinstance(one, View) else one
        for at, one in enumerate(inputs)
    ]
    if node.name not in reader.keep:
        reader.why = why or reader.why
    if node.kind in WHOLE:
        _note_definition(reader, node.kind)
    if node.kind == "MatMul":
        _note_sums(reader, node, taken)
    return reader.host_parts(node, taken)


def _note_definition(reader: Reader, kind: str) -> None:
    """Add an operator that ONNX Runtime lacks to the note about these."""
    notes = reader.graph.notes
    known = next((one for one in notes if one.endswith(DEFINED)), "")
    kinds = sorted({kind, *known.removesuffix(DEFINED).split(", ")} - {""})
    notes[:] = [one for one in notes if one != known] + [", ".join(kinds) + DEFINED]


def _note_sums(reader: Reader, node: OnnxNode, maps: list[Any]) -> None:
    """Add a note if sums of the host may exceed the whole numbers of float32."""
    count = maps[0].shape[-1]
    for one in maps:
        given = isinstance(one, View)
        ends = ends_of(reader.graph, one.tensor) if given else (one.min(), one.max())
        count *= MOST_EXACT if ends is None else int(np.abs(ends).max())
    if count > MOST_EXACT:
        reader.graph.notes.append(
            f"node {node.name!r} (MatMul): the host adds in float32, which is exact up to "
            f"{MOST_EXACT:,}; its sums can reach {count:,}"
        )


def all_whole(name: str, values: NDArray[Any]) -> NDArray[Any]:
    """Return the values; raise `MapperError` if one is not a whole number."""
    wrong = values[~(np.isfinite(values) & (values == np.rint(values)))]
    if wrong.size:
        raise MapperError(f"{name} holds {wrong[0]:g}; give whole numbers")
    return values
