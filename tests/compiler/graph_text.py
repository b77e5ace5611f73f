"""Graphs from text, one node a line, and back: tests of passes show a graph before and after.

Lines have the format of `mapper.compiler.ir.text.graph_text`, with the attributes that differ from
the defaults, and without shapes, types and scales that follow from the inputs:

    input x int8[1,8,8,4] s=0.1 z=3
    conv a int32[1,4,4,16] <- x, w(16,3,3,4), b(16)  stride=2 pad=1 [sources]
    requantise y int8[1,4,4,16] s=0.2 z=-4 <- a  factor=(16) low=-4
    output y

The shape of a constant follows its name; its values are random by name, or `=0.5` (all), `=1,2,3`,
`=perm:2,0,1` (a permutation as a kernel). `~` marks other values, which are not written. Without
`[...]`, a node implements the node of the model with its name. Without `output`, the last result
is the output.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import MISSING, fields
from functools import cache
from typing import Any, get_type_hints

import numpy as np
import onnx

from mapper.compiler.ir.graph import Graph, View
from mapper.compiler.ir.node import (
    Conv,
    Dense,
    Dequantise,
    Host,
    Node,
    Operator,
    Quantise,
    Requantise,
    Sign,
    Slice,
    Threshold,
    Window,
)
from mapper.compiler.ir.requantisation import AddFactors, Multiplier, Requantisation
from mapper.compiler.ir.tensor import BITS, Pad, Tensor
from mapper.compiler.ir.text import _KINDS
from mapper.compiler.ir.verifier import STORED, shapes_of
from mapper.compiler.numerics.formulas import multiplier
from storage.formats.layers.onnxgraph import OnnxNode
from tests.compiler.graph_constants import (
    CONSTANT,
    Draw,
    constant_text,
    draw_of_attribute,
    draw_of_input,
    integers,
    number,
    sums_type,
    values_of,
)

Words = dict[str, Any]
SIZES = re.compile(rf"({'|'.join(BITS)})?(?:\[([\d,]+)\])?")


class GraphTextError(ValueError):
    """A line that is no node; the message begins with the number of the line."""


def parse(text: str) -> Graph:
    """Return the graph of a text; empty lines are skipped. Raises `GraphTextError`."""
    graph, known = Graph(), dict[str, Tensor]()
    for row, line in enumerate(text.splitlines(), 1):
        try:
            if line.strip():
                _line(graph, known, line.strip())
        except (ValueError, KeyError, TypeError, IndexError) as error:
            raise GraphTextError(f"line {row}: {line.strip()!r}: {error}") from error
    if not graph.outputs and graph.nodes:
        last = graph.nodes[-1].output
        graph.outputs[last.name] = _view(last)
    return graph


def written(graph: Graph) -> str:
    """Return the text of a graph; `parse` returns a graph with the same text."""
    lines = [f"input {_of_result(one.tensor, Tensor('', ()))}" for one in graph.inputs.values()]
    lines += map(_of_node, graph.nodes)
    outputs = [view.tensor for view in graph.outputs.values()]
    if not graph.nodes or outputs != [graph.nodes[-1].output]:
        lines.append(f"output {', '.join(one.name for one in outputs)}")
    return "\n".join(lines) + "\n"


# -- lines -----------------------------------------------------------------------------------------


def _line(graph: Graph, known: dict[str, Tensor], line: str) -> None:
    kind, _, rest = line.partition(" ")
    if kind == "output":
        for name in rest.replace(" ", "").split(","):
            graph.outputs[name] = _view(_known(known, name))
        return
    if kind == "input":
        made = _result(rest, lambda shape: Tensor("", shape))
        known[made.name], graph.inputs[made.name] = made, _view(made)
        return
    if kind not in _KINDS:
        raise GraphTextError(f"no operator {kind!r}; operators: input, output, {', '.join(_KINDS)}")
    left, arrow, right = rest.partition("<-")
    if not arrow:
        raise GraphTextError("'<-' is missing")
    right, _, sources = right.partition(" [")
    words = re.findall(r'\S*"[^"]*"|\S+', right)
    count = sum("=" not in word.partition("(")[0] for word in words)
    taken = [word.rstrip(",") for word in words[:count]]
    attributes: Words = dict(word.split("=", 1) for word in words[count:])
    name, operator_class = left.split()[0], _KINDS[kind]
    data = next((known[one].type for one in taken if one in known), "float32")
    inputs = [
        _input(one, known, *draw_of_input(operator_class, at, data)) for at, one in enumerate(taken)
    ]
    plain: Words = {}
    if operator_class is Conv and len(inputs) > 1:
        plain["size"] = inputs[1].shape[1:3]
    if operator_class is Requantise:
        plain = _bounds(_result(left, lambda shape: Tensor("", shape, "int8")))
    operator = (
        _host(name, inputs, attributes)
        if operator_class is Host
        else _read(operator_class, name, attributes, plain)
    )
    if attributes:
        raise GraphTextError(f"{kind} has no {', '.join(attributes)}")
    inputs = [one for one in inputs if one.value is None or not isinstance(operator, Host)]
    made = known[name] = _result(left, lambda shape: _inferred(operator, inputs, shape))
    if isinstance(operator, Host):
        operator = Host(operator.node, operator.given, (_view(made),), operator.why, (("", 17),))
    named = tuple(one.strip() for one in sources.rstrip("]").split(",")) if sources else (name,)
    graph.nodes.append(Node(operator, inputs, [made], named))


def _view(one: Tensor) -> View:
    frames, rows, columns, channels = one.shape
    return View(one, shape=(frames, channels, rows, columns))


def _known(known: dict[str, Tensor], name: str) -> Tensor:
    if name not in known:
        raise GraphTextError(f"{name!r} is not computed by a line above")
    return known[name]


def _input(text: str, known: dict[str, Tensor], kind: Any, draw: Draw) -> Tensor:
    """Return a map, or a constant with its type and the distribution of its values."""
    if not (found := CONSTANT.fullmatch(text)):
        return _known(known, text)
    value = values_of(found, draw)
    return Tensor(found[1], value.shape, kind, value=value)


def _host(name: str, inputs: list[Tensor], words: Words) -> Host:
    names = [f"{one.name}{at}" for at, one in enumerate(inputs)]
    node = OnnxNode(onnx.helper.make_node(words.pop("op"), names, ["made"], name), {})
    given = tuple(_view(one) if one.value is None else one.value for one in inputs)
    return Host(node, given, (), words.pop("why", "host").strip('"'))


def _of_node(node: Node) -> str:
    operator, made = node.operator, node.output
    if len(node.outputs) != 1:
        raise GraphTextError(f"{node.label}: {len(node.outputs)} results have no text")
    if isinstance(operator, Host):
        given = [one.tensor if isinstance(one, View) else one for one in operator.given]
        inputs = [
            one if isinstance(one, Tensor) else Tensor("c", one.shape, value=one) for one in given
        ]
        words = [f"op={operator.node.kind}"]
        words += [f'why="{operator.why}"'] if operator.why != "host" else []
    else:
        inputs, plain = node.inputs, _bounds(made) if isinstance(operator, Requantise) else {}
        if isinstance(operator, Conv):
            plain = {"size": inputs[1].shape[1:3]}
        words = list(_write(operator, made.name, plain))
    data = next((one.type for one in inputs if one.value is None), "float32")
    draws = (draw_of_input(type(operator), at, data)[1] for at in range(len(inputs)))
    taken = [
        one.name if one.value is None else one.name + constant_text(one.name, one.value, draw)
        for one, draw in zip(inputs, draws, strict=False)
    ]
    left = f"{node.kind} {_of_result(made, _inferred(operator, node.inputs))}"
    named = f" [{', '.join(node.sources)}]" if node.sources != (made.name,) else ""
    return f"{left} <- {', '.join(taken)}{'  ' * bool(words)}{' '.join(words)}{named}"


# -- results ---------------------------------------------------------------------------------------


def _inferred(operator: Operator, inputs: list[Tensor], shape: tuple[int, ...] = ()) -> Tensor:
    """Return a result as its inputs give it; shape : written shape, if any"""
    if not inputs:
        return Tensor("", shape)
    data = inputs[0]
    made = Tensor("", shape or data.shape, data.type, data.scale, data.zero_point)
    node = Node(operator, inputs, [made], ())
    if shapes := [] if isinstance(operator, Slice) else shapes_of(node):
        made.shape = shapes[0]
        if not made.shape:
            raise GraphTextError("the shapes of its inputs do not fit")
    new: Any = {Requantise: "int8", Threshold: "bits", Quantise: "int8", Dequantise: "float32"}
    new |= dict.fromkeys((Conv, Dense), sums_type(data.type))
    new |= {Sign: "float32" if data.type == "float32" else "bits"}
    if type(operator) in new:
        made.type, made.scale, made.zero_point = new[type(operator)], 1.0, 0
    made.stored = made.type in STORED
    return made


def _result(text: str, infer: Callable[[tuple[int, ...]], Tensor]) -> Tensor:
    """Return the result of a line; infer : returns it as its inputs and its shape give it"""
    name, *words = re.sub(r",\s+", ",", text).split()
    sizes = SIZES.fullmatch(words[0]) if words else None
    shape = tuple(integers(sizes[2])) if sizes and sizes[2] else ()
    shape = (1, *shape) if len(shape) == 3 else shape
    made = infer(shape)
    made.name, made.shape = name, shape or made.shape
    made.type = sizes[1] if sizes and sizes[1] else made.type  # type: ignore[assignment]
    made.stored = made.type in STORED
    for word in words[bool(sizes) :]:
        key, _, value = word.partition("=")
        match key:
            case "s":
                made.scale = float(value)
            case "z":
                made.zero_point = int(value)
            case "stored" | "unstored":
                made.stored = key == "stored"
            case "planes":
                made.planes = True
            case _:
                raise GraphTextError(f"{word!r} is none of s=, z=, stored, unstored, planes")
    return made


def _of_result(made: Tensor, plain: Tensor) -> str:
    words = [made.name]
    if (made.shape, made.type) != (plain.shape, plain.type):
        words.append(f"{made.type}[{','.join(map(str, made.shape))}]")
    if (made.scale, made.zero_point) != (plain.scale, plain.zero_point):
        words.append(f"s={made.scale:.6g} z={made.zero_point}")
    if made.stored != (made.type in STORED):
        words.append("stored" if made.stored else "unstored")
    return " ".join([*words, *["planes"] * made.planes])


# -- attributes ------------------------------------------------------------------------------------

NESTED = (Window, Requantisation)
"""Attributes that are written as their own attributes."""


@cache
def _flat(kind: Any) -> list[tuple[str, Any, Any]]:
    """Return the name, type and default of each attribute of an operator."""
    tuples = issubclass(kind, tuple)
    defaults = kind._field_defaults if tuples else {one.name: one.default for one in fields(kind)}
    hints, found = get_type_hints(kind), list[tuple[str, Any, Any]]()
    for name in kind._fields if tuples else defaults:
        hint = hints[name]
        found += _flat(hint) if hint in NESTED else [(name, hint, defaults.get(name, MISSING))]
    return found


def _read(kind: Any, of: str, words: Words, plain: Words) -> Any:
    """Return an operator, whose words are removed; plain : values of attributes without a word"""
    values = {}
    for name, hint, default in _flat(kind):
        word = "kernel" if name == "size" else name
        values[name] = plain.get(name, default)
        if word in words:
            values[name] = _value(f"{of}.{name}", hint, words.pop(word))
        elif values[name] is MISSING:
            raise GraphTextError(f"{word}= is missing")
    for name, hint in get_type_hints(kind).items():
        if hint in NESTED:
            values[name] = hint(**{one: values.pop(one) for one, _, _ in _flat(hint)})
    return kind(**values)


def _write(operator: Any, of: str, plain: Words) -> Iterator[str]:
    """Yield the attributes that have another value than without a word."""
    values = {one.name: getattr(operator, one.name) for one in fields(operator)}
    for value in [one for one in values.values() if isinstance(one, NESTED)]:
        nested: Any = type(value)
        values |= {name: getattr(value, name) for name, _, _ in _flat(nested)}
    kind: Any = type(operator)
    for name, _, default in _flat(kind):
        usual = plain.get(name, default)
        text = _word(f"{of}.{name}", values[name])
        if usual is MISSING or text != _word("", usual):
            yield f"{'kernel' if name == 'size' else name}={text}"


def _bounds(made: Tensor) -> Words:
    """Return the bounds and zero point of a requantisation, which its result gives."""
    return {name: getattr(made, name) for name in ("low", "high", "zero_point")}


def _value(name: str, hint: Any, text: str) -> Any:
    factor = "Multiplier" in str(hint)
    if found := CONSTANT.fullmatch(name + text):
        value = values_of(found, draw_of_attribute(name))
        return multiplier(value, name) if factor else value
    if factor:
        return multiplier(np.float32(text), name)
    if hint == tuple[int, int] or hint is Pad:
        count = 4 if hint is Pad else 2
        sizes = integers(text.replace("x", ","))
        sizes = sizes * count if len(sizes) == 1 else sizes
        return Pad(*sizes) if hint is Pad else tuple(sizes)
    if "AddFactors" in str(hint):
        return AddFactors(*integers(text))
    if hint is bool:
        return text == "True"
    return (int if "int" in str(hint) else float if hint is float else str)(text)


def _word(name: str, value: Any) -> str:
    match value:
        case Multiplier():
            real = np.ldexp(value.m0.astype(np.float64), -value.n).astype(np.float32)
            if not real.shape:
                return number(real[()])
            same = all(map(np.array_equal, multiplier(real, name), value))
            return constant_text(name, real, draw_of_attribute(name)) if same else f"({len(real)})~"
        case np.ndarray() if value.ndim:
            return constant_text(name, value, draw_of_attribute(name))
        case AddFactors():
            return ",".join(map(str, value))
        case tuple():
            return str(value[0]) if len(set(value)) == 1 else ",".join(map(str, value))
    return number(value)
