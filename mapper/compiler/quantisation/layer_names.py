"""Check that the layers of `--bits` exist, and that the option has an effect on them."""

from __future__ import annotations

from collections.abc import Collection
from difflib import get_close_matches

from mapper.compiler.ir.graph import Graph
from mapper.compiler.ir.node import Host
from mapper.compiler.layer_bits import LayerBits, matches
from mapper.compiler.quantisation.parameters import Precision
from mapper.compiler.quantisation.scales import ScalePlan, maps_of
from mapper.errors import MapperError

MOST_SHOWN = 3  # similar names in an error


def require_layers(bits: LayerBits, source: Graph, names: Collection[str]) -> None:
    """Raise `MapperError` for a layer name of `--bits` that names no layer of its bits.

    source : floating-point graph; names : ONNX nodes of the model
    """
    if not bits.rules:
        return
    plan = ScalePlan(source, Precision())
    own = {name: node for node in plan.own_nodes() for name in plan.sources(node)}
    hosted = {name for node in source.nodes_of(Host) for name in node.sources}
    known = dict.fromkeys((*names, *own, *hosted))
    fixed = {name for name, node in own.items() if plan.exact.scales.keys() >= set(maps_of(node))}
    for pattern, wanted in bits.rules:
        found = [name for name in known if matches(pattern, (name,))]
        where = f"--bits {pattern}={wanted}"
        if not found:
            raise MapperError(f"{where}: no layer has this name{_similar(pattern, known)}")
        if any(name in own and name not in fixed for name in found):
            continue
        if hosted & set(found):
            why = "is computed on the host in floating point"
        elif fixed & set(found):
            why = "reads signs or levels of the model, whose bits are fixed"
        else:
            why = "is no layer of a core; --explain-only lists them"
        raise MapperError(f"{where}: {found[0]!r} {why}")


def bits_of_layers(source: Graph, bits: LayerBits) -> dict[str, int]:
    """Return the bits of each layer that computes, by its ONNX nodes, before any is raised.

    Layers of signs or levels, whose bits the model gives, are left out.
    """
    plan = ScalePlan(source, Precision(bits.default, rules=bits.rules))
    return {name: plan.layer_bits(node) for node in plan.raisable() for name in plan.sources(node)}


def _similar(pattern: str, known: Collection[str]) -> str:
    """Return similar names, or a hint, as the end of an error."""
    found = [name for name in known if pattern.lower() in name.lower()]
    found = list(dict.fromkeys([*found, *get_close_matches(pattern, known, MOST_SHOWN)]))
    if not found:
        return "; --explain-only lists the names"
    return f"; similar: {', '.join(map(repr, found[:MOST_SHOWN]))}"
