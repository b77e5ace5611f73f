"""Node-link JSON: `networkx.node_link_data`, and graphs of D3.

An object with the lists `nodes` and `links` (or `edges`). An end of a link is the `id` of a node;
if nodes have no ids, it is the index of a node, as in D3 3, or its `name`. Without ids, neurons are
called by the names of nodes. The weight is the number of a link with a usual name, or `value`;
other keys of nodes see `nodes`. A graph without the key `directed` is undirected, as in networkx.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from storage.budget import require_room
from storage.errors import BadInputError
from storage.formats.base import ImportJob
from storage.formats.columns import WEIGHTS, ColumnNames
from storage.formats.graphs.document import GraphDocument
from storage.formats.graphs.nodes import LABELS
from storage.formats.text.reader import TextReader
from storage.formats.weightkeys import WeightKeys, wanted_weight
from storage.jsontext import parse_json, shown
from storage.store.meta import NetworkMeta

READ_BYTES = 1 << 20
JSON_BYTES = 25  # bytes of Python objects per byte of text, at most
NOTED = 1 << 14  # nodes or links per report of progress
ASSUMPTION = "no key `directed`: the graph is undirected"


class NodeKeys:
    """Identifies nodes and the ends of links.

    by_label : whether nodes are called by their labels
    """

    def __init__(self, nodes: list[Any], links: list[Any]) -> None:
        self._key: str | None = None
        if any(isinstance(node, dict) and "id" in node for node in nodes):
            self._key = "id"
        elif links and isinstance(links[0], dict) and isinstance(links[0].get("source"), str):
            first = nodes[0] if nodes and isinstance(nodes[0], dict) else {}
            self._key = next((name for name in LABELS if name in first), None)
        self.by_label = self._key is None

    def of_node(self, index: int, node: dict[str, Any], where: Callable[[], str]) -> str:
        """Return the key of a node, as the ends of links have it."""
        if self._key is None:
            return str(index)
        if self._key not in node:
            raise BadInputError(f"{where()} has no {self._key}")
        return self.text(node[self._key], where)

    @staticmethod
    def text(value: Any, where: Callable[[], str]) -> str:
        """Return the text of a key: of a list, as Python prints a tuple."""
        if isinstance(value, dict) or value is None:
            raise BadInputError(f"{where()}: {shown(value)} cannot identify a node")
        if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
            value = int(value)
        return str(_tuple(value)) if isinstance(value, list) else str(value)


def _tuple(value: Any) -> Any:
    return tuple(map(_tuple, value)) if isinstance(value, list) else value


def _read(job: ImportJob) -> Any:
    """Return the JSON of a file whose objects fit in the memory."""
    with TextReader(job.source) as reader:
        parts, size = [], 0
        while part := reader.raw_bytes(READ_BYTES):
            size += len(part)
            require_room(f"{job.source}: a JSON text", JSON_BYTES * size, job.memory)
            parts.append(part)
    try:
        return parse_json(b"".join(parts))
    except ValueError as error:
        reason = " ".join(str(error).split())[:120]
        raise BadInputError(f"{job.source}: not valid JSON: {reason}") from error


def _lists(job: ImportJob, found: Any) -> tuple[list[Any], list[Any]]:
    """Return the nodes and the links."""
    if isinstance(found, dict):
        nodes = found.get("nodes")
        links = next((found[key] for key in ("links", "edges") if key in found), None)
        if isinstance(nodes, list) and isinstance(links, list):
            return nodes, links
    raise BadInputError(
        f"{job.source}: not node-link JSON: it must be an object with the lists nodes and links, "
        "or nodes and edges"
    )


def load(job: ImportJob, columns: ColumnNames | None = None) -> NetworkMeta:
    """Convert node-link JSON to a network file, directed or undirected as declared.

    columns : its weight names the key of weights; source and target cannot be chosen
    Raises `BadInputError` with the node or link of the first fault.
    """
    weights = WeightKeys(wanted_weight(job, "nodelink", columns), (*WEIGHTS, "value"))
    found = _read(job)
    nodes, links = _lists(job, found)
    directed = found.get("directed", False)
    if not isinstance(directed, bool):
        raise BadInputError(f"{job.source}: directed is {shown(directed)}; use true or false")
    keys = NodeKeys(nodes, links)
    with GraphDocument(job, weights, by_label=keys.by_label) as document:
        total = len(nodes) + len(links) or 1

        def items(name: str, of: list[Any], first: int) -> Any:
            for index, item in enumerate(of):
                where = f"{job.source}: {name} {index} (from 0)"
                if not isinstance(item, dict):
                    raise BadInputError(f"{where} is {shown(item)}; it must be an object")
                yield index, item, lambda where=where: where
                if index % NOTED == 0:
                    document.note_progress((first + index) / total)

        for index, node, where in items("node", nodes, 0):
            key = keys.of_node(index, node, where)
            data = {name: value for name, value in node.items() if _is_plain(value)}
            document.nodes.declare(key, data, where)
        for _, link, where in items("link", links, len(nodes)):
            if "source" not in link or "target" not in link:
                raise BadInputError(f"{where()} has no source or no target")
            data = dict(link)
            ends = keys.text(data.pop("source"), where), keys.text(data.pop("target"), where)
            document.edge(ends, data, where)
        assumed = None if "directed" in found else ASSUMPTION
        return document.write("nodelink", not directed, assumed)


def _is_plain(value: Any) -> bool:
    return isinstance(value, str | int | float)
