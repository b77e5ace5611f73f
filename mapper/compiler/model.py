"""Read models of all kinds as graphs of real numbers, or of integers if they are quantised."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Literal, NamedTuple

from mapper.compiler.frontend.float import FLOAT
from mapper.compiler.frontend.onnx import Handler, Reader, require_file
from mapper.compiler.frontend.qonnx import EVALUATORS
from mapper.compiler.frontend.qoperator import MOVING, QOPERATORS, VIEWS
from mapper.compiler.frontend.quantised import QUANTISED
from mapper.compiler.frontend.requantshift import INTEGERS
from mapper.compiler.frontend.shapes import Shapes, source_of
from mapper.compiler.frontend.whole import whole_numbers
from mapper.compiler.ir.graph import Graph, View
from mapper.compiler.ir.node import (
    ASKED,
    SHARES,
    DepthToSpace,
    Dequantise,
    Function,
    Host,
    Node,
    Quantise,
)
from mapper.compiler.ir.tensor import Tensor
from mapper.compiler.quantisation.exact import exact_tails
from mapper.compiler.quantisation.join import join
from mapper.errors import as_mapper_errors
from mapper.monitoring.resources import default_memory
from storage.budget import require_room
from storage.formats.layers.onnxgraph import OnnxNode

HANDLERS: dict[str, Handler] = {**FLOAT, **QUANTISED, **QOPERATORS, **MOVING, **INTEGERS}
"""Handlers of all nodes, for models in floating point and in integers."""
UNFOLDED = "constant folding is off, as asked"
OF_INTEGERS = VIEWS.union(QUANTISED, QOPERATORS, MOVING, INTEGERS)
"""Operators that accept stored integers, or reject them with their own message."""


Read = Callable[[Collection[str]], tuple[Reader, dict[str, str]]]
"""Reads the model with some nodes on the host; returns the reader, and the reasons for the nodes
that remain in real numbers.
"""


class NodeRole(NamedTuple):
    """A model node that no graph node computes.

    role : constant, left out (it only names results), or a view of another value
    """

    name: str
    kind: str
    role: Literal["constant", "left out", "view"]


class Model(NamedTuple):
    """An ONNX model that can be built as a graph.

    name, view : of the input; opsets : domains and versions of its operators
    quantised : whether it stores integers, and so needs no calibration
    build : builds the graph with some ONNX nodes on the host, optionally with a reason for each
    build_in_part : for quantised models that keep real numbers: builds the graph with these, for
        calibration; otherwise None
    data : serialised model, if its shapes differ from the file
    parts : nodes that no graph node computes, in the order of the file
    guessed : whether the signedness of its integer inputs is unknown
    """

    path: Path
    name: str
    view: View
    opsets: list[tuple[str, int]]
    quantised: bool
    build: Callable[[Collection[str]], Graph]
    parts: list[NodeRole] = []  # noqa: RUF012
    build_in_part: Callable[[Collection[str]], Graph] | None = None
    data: bytes | None = None
    guessed: bool = False

    def to_calibrate(self) -> Model:
        """Return the model with the real numbers of a quantised model for the cores to compute."""
        if self.build_in_part is None:
            return self
        return self._replace(build=self.build_in_part, quantised=False)


def open_model(
    path: Path, shapes: Shapes = MappingProxyType({}), signed: bool = False,
    memory: int | None = None,
) -> Model:  # fmt: skip
    """Open an ONNX model; raise `MapperError` that names file and node.

    shapes : sizes of an input's axes, which fix its open axes
    signed : whether integer inputs are signed, if the model does not specify it
    memory : budget in bytes for content whose size the model declares; None: the default
    Raises `DoesNotFitError` if the model needs more than this.
    """
    require_file(path)
    memory = memory or default_memory()
    with as_mapper_errors():
        require_room(f"{path}: the model", path.stat().st_size, memory)
    source = source_of(path, shapes, HANDLERS, memory)._replace(signed=signed)
    # the first call that builds the whole model takes it
    first: list[tuple[Reader, dict[str, str]]] = []

    def read(keep: Collection[str]) -> tuple[Reader, dict[str, str]]:
        if first and not keep:
            return first.pop()
        reader = Reader(path, HANDLERS, keep, EVALUATORS, OF_INTEGERS, source)
        reader.read()
        whys: dict[str, str] = {}
        join(reader.graph, whys)
        return reader, whys

    first.append(read(()))
    reader = first[0][0]
    graph = reader.graph
    ((name, view),) = graph.inputs.items()
    quantised = any(tensor.type != "float32" and tensor.value is None for tensor in graph.tensors())
    build = partial(_on_cores_or_host if quantised else _with_exact_tails, read)
    rest = any(not isinstance(node.operator, Dequantise) for node in _real(graph))
    scaled = quantised and not whole_numbers(reader)
    in_part = partial(_with_the_rest, read) if scaled and rest else None
    return Model(
        path, name, view, reader.opsets, quantised, build, _parts(reader), in_part, source.data,
        reader.guessed,
    )  # fmt: skip


def built(model: Model, kept: Collection[str], fold: bool = True) -> Graph:
    """Return the graph of a model; without `fold`, real results of constant nodes stay on the host.

    kept : ONNX nodes on the host, optionally with a reason for each
    """
    graph = model.build(kept)
    if fold or not graph.folded:
        return graph
    asked = dict(kept) if isinstance(kept, Mapping) else dict.fromkeys(kept, ASKED)
    return model.build({**dict.fromkeys(graph.folded, UNFOLDED), **asked})


def _parts(reader: Reader) -> list[NodeRole]:
    def role(node: OnnxNode) -> Literal["constant", "left out", "view"]:
        if node.name in reader.graph.left_out:
            return "left out"
        made = next((reader.values.get(name) for name in node.proto.output), None)
        return "view" if isinstance(made, View) else "constant"

    return [NodeRole(node.name, node.kind, role(node)) for node in reader.model.nodes]


def _with_exact_tails(read: Read, kept: Collection[str]) -> Graph:
    """Keep operations after sums of signs on the host if only the host computes them exactly."""
    graph = read(kept)[0].graph
    if tails := exact_tails(graph):
        asked = kept if isinstance(kept, Mapping) else dict.fromkeys(kept, ASKED)
        graph = read({**asked, **tails})[0].graph
    return graph


def _with_the_rest(read: Read, kept: Collection[str]) -> Graph:
    """Build a quantised model with its remaining real numbers, from a real input."""
    graph = read(kept)[0].graph
    if scales := computed_scales(graph):
        asked = kept if isinstance(kept, Mapping) else dict.fromkeys(kept, ASKED)
        graph = read({**dict.fromkeys(scales, OF_SAMPLE), **asked})[0].graph
    for name, view in graph.inputs.items():
        if view.tensor.type != "float32":
            real = Tensor(name, view.tensor.shape)
            sources = graph.users(view.tensor)[0].sources
            graph.nodes.insert(0, Node(Quantise(), [real], [view.tensor], sources))
            graph.inputs[name] = view._replace(tensor=real)
    return graph


def _on_cores_or_host(read: Read, kept: Collection[str]) -> Graph:
    """Keep operations that a quantised model leaves in real numbers on the host."""
    keep, said = set(kept), dict(kept) if isinstance(kept, Mapping) else {}
    while True:
        reader, whys = read(keep)
        real = _real(reader.graph)
        # a map that a function reads may stay on cores for its other readers
        first = [node for node in real if isinstance(node.operator, Function)] or real
        left = {name for node in first for name in node.sources} - keep
        joined = set() if left else idle(reader.graph) - keep
        whys |= dict.fromkeys(joined, IDLE)
        left |= joined
        if not left:
            for node in reader.graph.nodes:
                if isinstance(node.operator, Host) and (why := said.get(node.sources[0])):
                    node.operator = replace(node.operator, why=why)
            return reader.graph
        keep |= left
        usual = NO_RANGE if whole_numbers(reader) else "its scales are not given"
        whys |= {name: whys.get(name, usual) for name in left}
        said |= whys


NO_RANGE = "no RequantShift follows it, so its results may exceed 8 bits"
IDLE = "no core reads its result"
OF_SAMPLE = "it computes a scale of each sample, which 8 bits represent too coarsely"


def computed_scales(graph: Graph) -> set[str]:
    """Return ONNX nodes on cores that compute only with scales of DynamicQuantizeLinear.

    A scale follows the largest number of a sample, so samples may differ by orders of magnitude.
    """
    made: set[Tensor] = set()
    found: set[str] = set()
    for node in graph.nodes:
        if isinstance(node.operator, Host) and node.operator.node.kind == "DynamicQuantizeLinear":
            made |= {view.tensor for view in node.operator.results[1:]}
            continue
        given = {tensor for tensor in node.inputs if tensor.value is None}
        if given and given <= made:
            made |= set(node.outputs)
            if not isinstance(node.operator, Host):
                found |= set(node.sources)
    return found


def idle(graph: Graph) -> set[str]:
    """Return ONNX nodes that join or slice maps of the host for the host, and functions of single
    elements whose results only the host reads: it computes them without rounding.

    One operand computed by the host is enough: otherwise cores would only copy it back.
    """
    made = {view.tensor for view in graph.inputs.values()}
    computed: set[Tensor] = set()
    for node in graph.nodes:
        if isinstance(node.operator, Host) or (
            isinstance(node.operator, (Quantise, *SHARES)) and computed & set(node.inputs)
        ):
            computed |= set(node.outputs)
        if isinstance(node.operator, Host | Quantise) or (
            isinstance(node.operator, SHARES) and made.issuperset(node.inputs)
        ):
            made |= set(node.outputs)
    found: set[str] = set()
    for_host: set[Tensor] = set()  # maps that only the host reads
    for node in reversed(graph.nodes):
        if not all(
            isinstance(one.operator, Host)
            or one.sources[0] in found
            or (isinstance(one.operator, DepthToSpace) and one.output in for_host)
            for one in graph.users(node.output)
        ):
            continue
        for_host.add(node.output)
        if isinstance(node.operator, Function):
            found |= set(node.sources)
        if isinstance(node.operator, SHARES) and (
            made.issuperset(node.inputs) or computed & set(node.inputs)
        ):
            found.add(node.sources[0])
    return found


def _real(graph: Graph) -> list[Node]:
    """Return nodes that compute real numbers, except on the host."""
    return [
        node
        for node in graph.nodes
        if not isinstance(node.operator, Host)
        and any(tensor.type == "float32" for tensor in node.outputs)
    ]
