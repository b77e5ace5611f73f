"""Explain where each node of a model runs, and why, before quantisation.

Functions and macro nodes come from the floating-point graph, or from the integer graph of a
quantised model; weight values are not used.
"""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any, Literal, NamedTuple

from chipsim.chip.host import OPERATIONS
from mapper.compiler.ir.graph import Graph
from mapper.compiler.ir.macro import Macro
from mapper.compiler.ir.node import SHARES, Dequantise, Host, Node, Quantise
from mapper.compiler.model import IDLE, Model, built
from mapper.compiler.optimise import optimised
from mapper.compiler.partition.functions import divide
from mapper.compiler.partition.hostwork import node_cycles
from mapper.compiler.quantisation.exact import ExactLayers
from mapper.compiler.quantisation.layer_names import bits_of_layers, require_layers
from mapper.compiler.settings import CompileSettings
from mapper.compiler.transforms.base import Context
from mapper.compiler.transforms.floats.constants import CONSTANTS
from mapper.compiler.transforms.floats.dense import flatten_rest
from mapper.compiler.transforms.fuse import FUSE, fuse
from mapper.compiler.transforms.phases import split_phases
from mapper.compiler.transforms.registry import optimise_quantised
from storage.files import write_file

EXPLAIN, SCHEMA = "explain.json", 1
Where = Literal["core", "host", "folded", "vanished"]
HEAVY = ("Conv", "Gemm", "MatMul", "Pool", "Add", "Sum", "ReduceMean")
"""Parts of operator names; a matching node names its macro node."""

PRODUCTS = ("Gemm", "MatMul", "MatMulInteger", "QGemm", "QLinearMatMul")


class NodeRow(NamedTuple):
    """Where a node of the model runs.

    function : name of the function that it runs in, or None
    by : the model node that names its macro node, or None
    why : reason as text; remedy : change that would move a host node to a core
    cycles : cycles per frame of a host node between functions of cores, or None
    bits : bits of a layer of a floating-point model on a core, before layers are raised; or None
    """

    node: str
    kind: str
    where: Where
    function: str | None
    by: str | None
    why: str
    remedy: str | None = None
    cycles: int | None = None
    bits: int | None = None


def explain(
    model: Model, settings: CompileSettings, per_cycle: float = OPERATIONS
) -> list[NodeRow]:
    """Return a row for each node of a model, in the order of its file.

    per_cycle : numbers that the host computes per cycle of the cores
    """
    bits: dict[str, int] = {}
    if model.quantised:
        graph = built(model, settings.keep, CONSTANTS.name not in settings.off)
        optimise_quantised(graph, settings.off)
    else:
        graph = optimised(model, settings.keep, settings.off)
        require_layers(settings.layer_bits, graph, [part.name for part in model.parts])
        bits = bits_of_layers(graph, settings.layer_bits)
        _drop_scales(graph)
    split_phases(graph, Context())
    flatten_rest(graph, Context())
    parts = divide(graph, fuse(graph, FUSE.name not in settings.off))
    kinds = {part.name: part.kind for part in model.parts}
    found: dict[str, NodeRow] = {}
    for number, function in enumerate(parts.functions):
        for macro in parts.macros[function.first : function.stop]:
            _macro(macro, parts.names()[number], kinds, found)
    for node in graph.nodes:
        _other(node, graph, kinds, found)
    for names, cycles in node_cycles(parts, per_cycle).items():
        for name in names:
            if name in found and found[name].where == "host":
                found[name] = found[name]._replace(cycles=cycles)
    if not model.quantised:
        for line in ExactLayers(graph).notes():
            for name, row in found.items():
                if repr(name) in line and row.where == "core":
                    found[name] = row._replace(why=f"{row.why}; {line.split(': ', 1)[-1]}")
    for name, row in found.items():
        if name in bits:
            found[name] = row._replace(bits=bits[name])
    return [found.get(part.name) or _vanished(part.name, part.kind, part.role, graph)
            for part in model.parts]  # fmt: skip


def _drop_scales(graph: Graph) -> None:
    """Remove the Quantise and Dequantise nodes of a partly quantised graph."""
    for node in list(graph.nodes):
        if isinstance(node.operator, Dequantise | Quantise):
            graph.remove(node, node.inputs[0])


def _macro(macro: Macro, function: str, kinds: dict[str, str], found: dict[str, NodeRow]) -> None:
    """Add the node that names a macro node, and the nodes folded into it."""
    names = [name for name in macro.sources if name in kinds]
    names += [name for node in (macro.sign,) if node for name in node.sources if name in kinds]
    if not names:
        return
    own = macro.nodes[0].sources
    heavy = [name for name in own if any(part in kinds.get(name, "") for part in HEAVY)]
    leader = (heavy or names)[0]
    first = macro.nodes[0].kind
    what = {"conv": "the matrix unit multiplies", "pool": "the ALU pools"}
    why = what.get(first, "the ALU computes it")
    if kinds[leader] in PRODUCTS:
        pixels = macro.nodes[0].output.height * macro.nodes[0].output.width
        size = "a kernel as large as its map" if pixels == 1 else "a kernel of 1x1"
        why = f"a convolution with {size}"
    elif kinds[leader] == "DepthToSpace":
        why = "convolutions of 1x1 move its channels"
    elif first == "conv" and not heavy:
        why = "a depthwise convolution with one factor per channel"
    found.setdefault(leader, NodeRow(leader, kinds[leader], "core", function, leader, why))
    for name in names:
        if name != leader:
            why = (
                "constants of the layer"
                if name in own
                else "runs after it on the same tile, unless a pass separates them"
            )
            found.setdefault(name, NodeRow(name, kinds[name], "folded", function, leader, why))


def _other(node: Node, graph: Graph, kinds: dict[str, str], found: dict[str, NodeRow]) -> None:
    """Add a host node, or a node that shares memory."""
    for name in node.sources:
        kind = kinds.get(name)
        if kind is None or (name in found and not isinstance(node.operator, Host)):
            continue
        if isinstance(node.operator, Host):
            why = node.operator.why
            last = all(graph.is_output(one) for one in node.outputs)
            found[name] = NodeRow(name, kind, "host", None, None, why, hint(kind, why, last))
        elif isinstance(node.operator, SHARES):
            why = "its parts share one region: no data moves"
            found[name] = NodeRow(name, kind, "vanished", None, None, why)


def _vanished(name: str, kind: str, role: str, graph: Graph) -> NodeRow:
    whys = {
        "constant": "constants only: evaluated at compile time",
        "left out": "only names results for the user: left out",
        "view": "changes only the shape or order, and moves no data",
    }
    return NodeRow(name, kind, "vanished", None, None, whys[role])


def explain_json(rows: list[NodeRow]) -> dict[str, Any]:
    """Return rows and counts per kind as a JSON object."""
    counts = Counter(row.where for row in rows)
    return {
        "schema": SCHEMA,
        "nodes": [row._asdict() for row in rows],
        "counts": {where: counts[where] for where in ("core", "host", "folded", "vanished")},
        "functions": list(dict.fromkeys(row.function for row in rows if row.function)),
    }


def write_explain(folder: Path, rows: list[NodeRow]) -> None:
    write_file(folder / EXPLAIN, (json.dumps(explain_json(rows), indent=1) + "\n").encode())


LAST = frozenset({"Softmax", "LogSoftmax", "ArgMax", "ArgMin", "TopK", "Hardmax"})
_HINTS = (
    ("as asked", "remove it from --keep"),
    ("not constant", "export with constant folding"),
    ("channels on axis 1", "export with channels on axis 1 (NCHW)"),
    ("within a channel", "use one number for each channel"),
    ("one vector and a matrix", "export for one sample"),
    ("scales are not given", "quantise it as well, or give samples with --calibrate"),
    ("per input channel", "quantise its weights on axis 1, the outputs"),
    ("packing takes", "run its neighbours on cores as well, or give its layers more channels"),
    ("double the size", "resize to twice the size, nearest"),
)
"""Part of the reason why a node stays on the host, and the remedy."""


def hint(kind: str, why: str, last: bool) -> str:
    """Return a remedy for a host node.

    kind : ONNX operator; why : reason why it is on the host; last : whether no node follows it
    """
    for part, found in _HINTS:
        if part in why and "export" not in why:
            return found
    if "export" in why:
        return why.split(":")[-1].strip()
    if (kind in LAST and last) or why == IDLE:
        return "at the end of a model its cost on the host is low"
    if kind == "LRN":
        return "train with BatchNormalization instead, or without it"
    return "cores do not support it"
