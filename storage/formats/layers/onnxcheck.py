"""Validation of nodes and constants of ONNX models against the standard, before they are used.

Implementations of operators may then assume that a node has the inputs, outputs and attributes of
its operator's version, that attributes have the right types, and that constants have as many
elements as their shapes. Operators unknown to the package onnx are in `OTHERS`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from graphlib import CycleError, TopologicalSorter
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from storage.errors import BadInputError
from storage.formats.layers.onnxexpanded import MICROSOFT, STANDARD
from storage.formats.layers.onnxruns import runtime

Kinds = frozenset[np.dtype[Any]]
"""Possible types of a tensor."""
MOST_SHOWN = 8  # nodes of a cycle listed in a message
LOOPS = ("Loop", "Scan")
"""Operators that repeat a graph, as often as a number in the file states."""
_KINDS = ("", "FLOAT", "INT", "STRING", "TENSOR", "GRAPH", "FLOATS", "INTS", "STRINGS", "TENSORS",
          "GRAPHS", "SPARSE_TENSOR", "SPARSE_TENSORS", "TYPE_PROTO", "TYPE_PROTOS")  # fmt: skip
_WORDS = {
    "FLOAT": "a number", "INT": "a whole number", "STRING": "a text", "TENSOR": "a tensor",
    "GRAPH": "a graph", "FLOATS": "numbers", "INTS": "whole numbers", "STRINGS": "texts",
}  # fmt: skip


class Arity(NamedTuple):
    """Number of inputs and outputs of an operator.

    required : indices of the required inputs
    repeated : inputs after `most` come in groups of this size; 0 if there are none
    types : type names accepted for each input; the last entry applies to all further inputs
    variables : name shared by inputs of one type, "" for inputs of any; entries as in `types`
    """

    required: tuple[int, ...]
    most: int
    results: int
    repeated: int = 0
    types: tuple[frozenset[str], ...] = ()
    variables: tuple[str, ...] = ()


def _other(required: str, results: int = 1, repeated: int = 0) -> Arity:
    """Return the arity of an operator whose inputs are required (1) or optional (0)."""
    found = tuple(at for at, mark in enumerate(required) if mark == "1")
    return Arity(found, len(required), results, repeated)


OTHERS = {
    "BipolarQuant": _other("11"), "ITAMax": _other("1"), "IntegerMean": _other("1"),
    "iGELU": _other("1"), "iLayerNorm": _other("111"), "ImageScaler": _other("1"),
    "QGemm": _other("110110000"),
    "QLinearAdd": _other("11011010"), "QLinearAveragePool": _other("11010"),
    "QLinearConcat": _other("10110", repeated=3), "QLinearGlobalAveragePool": _other("11010"),
    "QLinearLeakyRelu": _other("11010"), "QLinearMul": _other("11011010"),
    "QLinearSigmoid": _other("11010"), "QLinearSoftmax": _other("11010"),
    "Quant": _other("1111"), "RequantShift": _other("111"), "Trunc": _other("11111"),
}  # fmt: skip
"""Operators of ONNX Runtime, of QONNX, and of integer networks."""


@cache
def _schema(kind: str, version: int, domain: str) -> Any | None:
    """Return the schema of an operator in a version of its domain, or its last one before."""
    from onnx import defs

    try:
        found = defs.get_schema(kind, version, domain)
        return defs.get_schema(kind, found.since_version - 1, domain) if found.deprecated else found
    except defs.SchemaError:
        return None


@cache
def _known(kind: str) -> Any | None:
    """Return the newest schema of a standard operator."""
    from onnx import defs

    return _schema(kind, defs.onnx_opset_version(), "")


@cache
def _of_runtime(kind: str) -> frozenset[str] | None:
    """Return the attributes of an operator that only ONNX Runtime defines, in any version; None if
    it does not."""
    runtime()
    state = import_module("onnxruntime.capi.onnxruntime_pybind11_state")
    found = [
        frozenset(one.attributes)
        for one in state.get_all_operator_schema()
        if (one.domain, one.name) == (MICROSOFT, kind)
    ]
    return frozenset().union(*found) if found else None


@cache
def _arity(schema: Any) -> Arity:
    given = list(schema.inputs)
    single = tuple(at for at, one in enumerate(given) if one.option.name == "Single")
    variadic = bool(given) and given[-1].option.name == "Variadic"
    required = (*single, len(given) - 1) if variadic and given[-1].min_arity else single
    types = tuple(frozenset(one.types) for one in given)
    variables = tuple(one.type_str if one.is_homogeneous else "" for one in given)
    return Arity(required, len(given), schema.max_output, int(variadic), types, variables)


def arity_of(proto: Any, version: int) -> Arity | None:
    """Return the arity of a node's operator; None if unknown. version : of its domain"""
    if proto.op_type in OTHERS:
        return OTHERS[proto.op_type]
    domain = "" if proto.domain in STANDARD else proto.domain
    schema = _schema(proto.op_type, version, domain)
    if schema is None and domain in ("", MICROSOFT):
        schema = _known(proto.op_type)
    return None if schema is None else _arity(schema)


def check_node(proto: Any, attributes: Mapping[str, Any], version: int) -> None:
    """Raise `BadInputError` if inputs, outputs or attributes of a node do not match its operator.

    attributes : values by name; version : of the node's domain
    """
    kind, domain = proto.op_type, proto.domain
    if not kind:
        raise BadInputError("has no operator; export the model again")
    _refuse_loops(proto)
    own = _of_runtime(kind) if domain == MICROSOFT else None
    if domain not in STANDARD and own is None and _known(kind) is not None:
        raise BadInputError(
            f"domain {domain!r} has no operator {kind}; remove the domain of standard operators"
        )
    if len(attributes) < len(proto.attribute):
        raise BadInputError("duplicate attribute; export the model again")
    if kind == "Constant" and len(attributes) != 1:
        raise BadInputError(f"has {len(attributes)} values; a Constant has one")
    arity = arity_of(proto, version)
    if arity is not None:
        _check_counts(proto, arity)
    for one in proto.attribute:
        if own is not None and one.name not in own:
            raise BadInputError(f"{kind} has no attribute {one.name!r}; export the model again")
    schema = _schema(kind, version, "" if domain in STANDARD else domain)
    if schema is None and domain in STANDARD and kind not in OTHERS and _known(kind) is not None:
        raise BadInputError(f"opset {version} has no operator {kind}; export the model again")
    if schema is None or kind in OTHERS:
        return
    for one in proto.attribute:
        if one.name not in schema.attributes:
            raise BadInputError(
                f"{kind} of opset {version} has no attribute {one.name!r}; export the model again"
            )
        wanted = schema.attributes[one.name].type.name
        if _KINDS[one.type] != wanted:
            word = _WORDS.get(wanted, wanted.lower())
            raise BadInputError(f"attribute {one.name} must be {word}; export the model again")
    for name, attribute in schema.attributes.items():
        if attribute.required and name not in attributes:
            raise BadInputError(f"attribute {name} is missing; export the model again")


def _refuse_loops(proto: Any) -> None:
    """Raise `BadInputError` for an operator that repeats a graph, also inside a branch of If."""
    if proto.op_type in LOOPS:
        raise BadInputError(
            f"{proto.op_type}: only feed-forward networks are supported; export with loops unrolled"
        )
    for attribute in proto.attribute:
        for graph in (attribute.g, *attribute.graphs):
            for node in graph.node:
                _refuse_loops(node)


def _check_counts(proto: Any, arity: Arity) -> None:
    names, count = list(proto.input), len(proto.input)
    missing = next((at for at in arity.required if at >= count or not names[at]), None)
    if missing is not None:
        raise BadInputError(f"its input {missing} is missing; export the model again")
    beyond = count - arity.most
    if beyond > 0 and (not arity.repeated or beyond % arity.repeated):
        raise BadInputError(f"has {count} inputs; {proto.op_type} takes {arity.most}")
    if not any(proto.output):
        raise BadInputError("has no outputs; export the model again")
    if not proto.output[0] or len(proto.output) > arity.results:
        raise BadInputError(
            f"has {len(proto.output)} outputs, or lacks the first one; export the model again"
        )


def check_types(proto: Any, version: int, inputs: Sequence[Kinds | None]) -> None:
    """Raise `BadInputError` for an input of a type that an operator does not accept.

    inputs : possible types of each input of the node, None if unknown
    """
    arity = arity_of(proto, version)
    if arity is None or not arity.types:
        return
    shared: dict[str, frozenset[str]] = {}  # by variable: types that all its inputs may have
    for at, kinds in enumerate(inputs):
        if kinds is None:
            continue
        names = frozenset(map(_type_name, kinds))
        place = min(at, len(arity.types) - 1)
        if not names & arity.types[place]:
            raise BadInputError(
                f"its input {at} has type {_words(names)}; accepted types: "
                f"{_words(arity.types[place], ', ')}"
            )
        if variable := arity.variables[place]:
            before = shared.get(variable, names)
            if not names & before:
                raise BadInputError(
                    f"its input {at} has type {_words(names)}, another one {_words(before)}; "
                    "cast them to one type"
                )
            shared[variable] = names & before


def _words(names: Iterable[str], separator: str = " or ") -> str:
    return separator.join(sorted(one[7:-1] for one in names if one.startswith("tensor(")))


@cache
def _type_name(kind: np.dtype[Any]) -> str:
    """Return a type as ONNX writes it: tensor(float)."""
    other = {"float32": "float", "float64": "double", "object": "string"}
    name = "string" if kind.kind in "SU" else kind.name
    return f"tensor({other.get(name, name)})"


def check_names(graph: Any) -> None:
    """Raise `BadInputError` for a name that is not UTF-8, which the library reads as bytes."""
    for one in (*graph.input, *graph.output, *graph.initializer):
        if not isinstance(one.name, str):
            raise BadInputError(f"name {one.name[:20]!r} is not UTF-8; export the model again")
    for node in graph.node:
        names = (node.name, node.op_type, node.domain, *node.input, *node.output)
        for name in (*names, *(one.name for one in node.attribute)):
            if not isinstance(name, str):
                raise BadInputError(f"name {name[:20]!r} is not UTF-8; export the model again")


def arrays_of(graph: Any, folder: Path) -> dict[str, NDArray[Any]]:
    """Return the constants of a graph by name; raise `BadInputError` that names a damaged one.

    folder : of the model, for external data files
    """
    from onnx import external_data_helper as external
    from onnx import numpy_helper

    if len(graph.sparse_initializer):
        name = graph.sparse_initializer[0].values.name
        raise BadInputError(f"constant {name!r} is sparse; export the model with dense constants")
    found: dict[str, NDArray[Any]] = {}
    for tensor in graph.initializer:
        if tensor.name in found:
            raise BadInputError(f"constant {tensor.name!r} is a duplicate; export the model again")
        try:
            if external.uses_external_data(tensor):
                external.load_external_data_for_tensor(tensor, str(folder))
                tensor.data_location = 0
                del tensor.external_data[:]
        except (
            Exception
        ) as error:  # of many types, depending on the fault in name, offset or length
            raise BadInputError(
                f"constant {tensor.name!r}: its data file is missing from the model's folder or "
                "too short; save the model with its data"
            ) from error
        try:
            if min(tensor.dims, default=0) < 0:
                raise ValueError("negative size")
            found[tensor.name] = numpy_helper.to_array(tensor)
        except Exception as error:  # of onnx and numpy
            dims = ", ".join(map(str, tensor.dims[:8]))
            raise BadInputError(
                f"constant {tensor.name!r}: its data do not match its type and its shape ({dims}); "
                "export the model again"
            ) from error
    return found


def check_order(nodes: Sequence[Any], inputs: Iterable[str]) -> None:
    """Raise `BadInputError` for a tensor that is defined twice or used before its definition.

    nodes : `OnnxNode`s in the order of the file
    """
    maker: dict[str, int] = dict.fromkeys(inputs, -1)  # number of the node that defines each tensor
    for number, node in enumerate(nodes):
        for name in filter(None, node.proto.output):
            if name in maker:
                raise BadInputError(f"node {node.name!r} ({node.kind}): defines {name!r} again")
            maker[name] = number
    before = {n: {maker.get(name, -1) for name in nodes[n].proto.input} for n in range(len(nodes))}
    late = [n for n, others in before.items() if max(others, default=-1) >= n]
    if not late:
        return
    try:
        TopologicalSorter(before).prepare()
    except CycleError as error:
        names = " -> ".join(repr(nodes[number].name) for number in error.args[1][:MOST_SHOWN])
        raise BadInputError(
            f"nodes {names} form a cycle; only feed-forward networks are supported"
        ) from error
    node = nodes[late[0]]
    raise BadInputError(
        f"node {node.name!r} ({node.kind}): reads the output of a later node; sort the nodes"
    )
