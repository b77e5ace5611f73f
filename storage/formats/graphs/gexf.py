"""GEXF 1.1 to 1.3 (gexf.net), parsed as a stream without building a tree.

Neurons are in the order of the nodes and are called by their ids. The weight is the `weight` of an
edge, or its attribute with a usual name, or 1. Declared attributes and positions of nodes see
`nodes`; a node has a size if an attribute `size` of a whole type is declared (`viz:size` describes
a drawing). Graphs without `defaultedgetype` are undirected. In a directed graph, undirected and
mutual edges count in both directions.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from storage.formats.base import ImportJob
from storage.formats.columns import WEIGHTS, ColumnNames
from storage.formats.graphs.document import GraphDocument
from storage.formats.graphs.nodes import LABEL, POSITION
from storage.formats.text.reader import TextReader
from storage.formats.text.xmlstream import READ_BYTES, XmlStream
from storage.formats.weightkeys import WeightKeys, number_of, wanted_weight
from storage.store.meta import NetworkMeta
from storage.store.network import SIZE

WHOLE = ("integer", "long", "int", "short", "byte", "biginteger")
MOST_TEXT = 1 << 16  # characters of a default value
TYPES = ("directed", "undirected", "mutual")


@dataclass
class _Attribute:
    """A declared attribute of nodes or edges."""

    title: str
    whole: bool
    default: str | None = None


class GexfParser(XmlStream):
    """Passes the nodes and edges of a document to a graph."""

    def __init__(self, path: Path, document: GraphDocument, weights: WeightKeys) -> None:
        super().__init__(path, "gexf")
        self._document, self._weights = document, weights
        self.undirected: bool | None = None  # None until the graph begins
        self._declared: dict[str, dict[str, _Attribute]] = {"node": {}, "edge": {}}
        self._class = ""  # of the attributes that are declared
        self._attribute: _Attribute | None = None
        self._nodes: list[tuple[str, dict[str, Any]]] = []  # open nodes, with their data
        self._edge: tuple[tuple[str, str], bool, dict[str, Any]] | None = None
        self._text: list[str] | None = None

    def feed(self, piece: bytes, last: bool = False) -> None:
        """Parse the next bytes of the document."""
        super().feed(piece, last)
        if last and self.undirected is None:
            self._complain("contains no graph")

    def _start(self, tag: str, parent: str | None, attributes: dict[str, str]) -> None:
        if tag == "graph":
            self._begin_graph(attributes)
        elif tag == "attributes":
            self._class = attributes.get("class", "")
        elif tag == "attribute" and self._class in self._declared:
            self._declare(attributes)
        elif tag == "default" and parent == "attribute":
            self._text = []
        elif tag == "node":
            data: dict[str, Any] = {LABEL: attributes[LABEL]} if LABEL in attributes else {}
            self._nodes.append((self._required(attributes, "id", tag), data))
            self._document.nodes.number(self._nodes[-1][0])  # before nodes inside it
        elif tag == "edge":
            self._begin_edge(attributes)
        elif tag == "attvalue":
            self._value(attributes)
        elif tag == "position" and parent == "node" and self._nodes:
            self._nodes[-1][1].update(
                (key, attributes[key]) for key in POSITION & attributes.keys()
            )

    def _begin_graph(self, attributes: dict[str, str]) -> None:
        if self.undirected is not None:
            self._complain("contains a second graph; split the file")
        default = attributes.get("defaultedgetype", "undirected")
        if default not in TYPES:
            self._complain(f"defaultedgetype is {default[:24]!r}; use directed or undirected")
        self.undirected = default != "directed"

    def _declare(self, attributes: dict[str, str]) -> None:
        key = self._required(attributes, "id", "attribute")
        kind = attributes.get("type", "string").lower()
        self._attribute = _Attribute(attributes.get("title", key), kind in WHOLE)
        self._declared[self._class][key] = self._attribute

    def _begin_edge(self, attributes: dict[str, str]) -> None:
        if self._edge is not None:
            self._complain("an edge starts inside another edge")
        ends = (
            self._required(attributes, "source", "edge"),
            self._required(attributes, "target", "edge"),
        )
        kind = attributes.get("type", "undirected" if self.undirected else "directed")
        if kind not in TYPES:
            self._complain(f"the type of an edge is {kind[:24]!r}; use directed or undirected")
        if kind == "directed" and self.undirected:
            self._complain(
                "a directed edge in an undirected graph; set its defaultedgetype to directed"
            )
        data: dict[str, Any] = {}
        if "weight" in attributes:
            data["weight"] = self._number("weight", attributes["weight"])
        self._edge = ends, kind != "directed" and not self.undirected, data

    def _value(self, attributes: dict[str, str]) -> None:
        """Process an attribute of the open edge or node."""
        kind = "node" if self._edge is None else "edge"
        key = attributes.get("for", attributes.get("id", ""))  # id: version 1.1
        known = self._declared[kind].get(key)
        if known is None or (self._edge is None and not self._nodes):
            return
        self._put(kind, known, attributes.get("value", ""))

    def _put(self, kind: str, known: _Attribute, text: str) -> None:
        if kind == "node":
            if known.title.lower() != SIZE or known.whole:
                self._nodes[-1][1][known.title] = text
        elif self._edge is not None:
            accepted = self._weights.accepts(known.title)
            value = self._number(known.title, text) if accepted else None
            self._edge[2].setdefault(known.title, value)

    def _number(self, name: str, text: str) -> float:
        value = number_of(text)
        if not abs(value) < float("inf"):
            self._complain(f"{name[:40]} {text[:24]!r} is not a finite number; repair it")
        return value

    def _data(self, text: str) -> None:
        if self._text is not None and sum(map(len, self._text)) <= MOST_TEXT:
            self._text.append(text)

    def _end(self, tag: str) -> None:
        if tag == "default" and self._text is not None:
            text, self._text = "".join(self._text).strip(), None
            if self._attribute is not None:
                self._attribute.default = text
        elif tag == "attribute":
            self._attribute = None
        elif tag == "node" and self._nodes:
            self._defaults("node", self._nodes[-1][1])
            self._document.nodes.declare(*self._nodes.pop(), self._where)
        elif tag == "edge" and self._edge is not None:
            ends, both, data = self._edge
            self._defaults("edge", data)
            self._document.edge(ends, data, self._where, both=both)
            self._edge = None

    def _defaults(self, kind: str, data: dict[str, Any]) -> None:
        """Add the default values of attributes that a node or edge does not have."""
        for known in self._declared[kind].values():
            if known.default is not None and known.title not in data:
                self._put(kind, known, known.default)


def load(job: ImportJob, columns: ColumnNames | None = None) -> NetworkMeta:
    """Convert a GEXF document to a network file, directed or undirected as declared.

    columns : its weight names the attribute of weights; source and target cannot be chosen
    Raises `BadInputError` with the line of the first fault.
    """
    weights = WeightKeys(wanted_weight(job, "gexf", columns), WEIGHTS)
    with TextReader(job.source) as reader, GraphDocument(job, weights) as document:
        parser = GexfParser(job.source, document, weights)
        while piece := reader.raw_bytes(READ_BYTES):
            parser.feed(piece)
            document.note_progress(reader.fraction)
        parser.feed(b"", last=True)
        return document.write("gexf", bool(parser.undirected))
