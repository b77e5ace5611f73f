"""GraphML (graphml.graphdrawing.org), parsed as a stream without building a tree.

Nodes are numbered in order of appearance; their ids become the attribute `id`, as numbers if all
are whole, else as labels. The weight is the `data` of an edge whose `key` has a usual weight name
(`columns.WEIGHTS`), or the key's default, or 1. The `data` of nodes whose key is named `size` and
has the type int or long are the sizes of neurons (other types describe drawings). An undirected
graph becomes an undirected network; in a directed one an edge with ``directed="false"`` counts in
both directions.

A document that declares entities is refused before any is expanded, and external references are
never fetched.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from storage.errors import BadInputError
from storage.formats.base import ImportJob
from storage.formats.columns import NONE, WEIGHTS, ColumnNames
from storage.formats.compact import EdgeSpool
from storage.formats.edgebuffer import EdgeBuffer
from storage.formats.names import NameTable, shown_name
from storage.formats.text.reader import TextReader
from storage.formats.text.xmlstream import READ_BYTES, XmlStream
from storage.formats.weightkeys import wanted_weight
from storage.graph import MAX_VERTICES
from storage.store.meta import NetworkMeta
from storage.store.network import SIZE

MAX_TEXT = 64  # most characters of a weight or size
MAX_SIZE = 2**62


@dataclass
class _Key:
    """A `key` that may hold weights: its name, and the default for edges without it."""

    name: str
    default: float | None = None


class _Sizes:
    """The node key that holds sizes, and the sizes read.

    key : its id, None if there is none; default : the size of nodes without it
    """

    def __init__(self) -> None:
        self.key: str | None = None
        self.default = 1
        self._found: dict[int, int] = {}

    def declare(self, key: str, attributes: dict[str, str]) -> None:
        """Use a node key if it holds sizes."""
        name = attributes.get("attr.name", key).strip().lower()
        if name == SIZE and attributes.get("attr.type") in ("int", "long"):
            self.key = key

    def add(self, node: int, size: int) -> None:
        self._found[node] = size

    def array(self, nodes: int) -> NDArray[np.int64] | None:
        """Return the size of each node, shape (nodes,); None if there is no key."""
        if self.key is None:
            return None
        sizes = np.full(nodes, self.default, np.int64)
        count = len(self._found)
        sizes[np.fromiter(self._found, np.int64, count)] = np.fromiter(
            self._found.values(), np.int64, count
        )
        return sizes


class GraphMLParser(XmlStream):
    """Passes the edges of a document to a spool."""

    def __init__(
        self, path: Path, spool: EdgeSpool, names: NameTable, weight: str | None = None
    ) -> None:
        """names : receives the names of the nodes
        weight : name or id of the key that holds weights, if it has no usual name
        """
        super().__init__(path, "graphml")
        self._wanted = weight
        self.undirected: bool | None = None  # None until the graph begins
        self._names = names
        self._declared = 0
        self._missing: dict[str, int] = {}  # ends without a node declaration so far, with lines
        self._keys: dict[str, _Key] = {}
        self._chosen: str | None = None
        self._sizes = _Sizes()
        self._node_number = -1  # number of the open node
        self._text: list[str] | None = None
        self._key = ""
        self._edge: tuple[int, int, bool] | None = None
        self._weight: float | None = None
        self._edges = EdgeBuffer(spool)

    def feed(self, piece: bytes, last: bool = False) -> None:
        """Parse the next bytes of the document."""
        super().feed(piece, last)
        if last:
            self._edges.flush()
            if self.undirected is None:
                raise BadInputError(f"{self._path}: contains no graph")
            for name, line in self._missing.items():
                raise BadInputError(
                    f"{self._path}: line {line}: an edge refers to node {shown_name(name)}, "
                    "which the file does not declare"
                )

    def sizes(self) -> NDArray[np.int64] | None:
        """Return the sizes, shape (nodes,), if the document has them."""
        return self._sizes.array(len(self._names))

    def _start(self, tag: str, parent: str | None, attributes: dict[str, str]) -> None:
        if tag == "node":
            self._node(self._required(attributes, "id", tag))
        elif tag == "edge":
            self._begin_edge(attributes)
        elif tag == "data" and parent == "edge":
            self._key = self._required(attributes, "key", tag)
            self._text = [] if self._key == self._chosen else None
        elif tag == "data" and parent == "node":
            self._key = self._required(attributes, "key", tag)
            self._text = [] if self._key == self._sizes.key else None
        elif tag == "graph":
            self._begin_graph(attributes, parent)
        elif tag == "key":
            self._key = self._required(attributes, "id", tag)
            if attributes.get("for", "all") in ("edge", "all"):
                self._keys[self._key] = _Key(attributes.get("attr.name", self._key))
            if attributes.get("for", "all") in ("node", "all"):
                self._sizes.declare(self._key, attributes)
        elif tag == "default" and parent == "key":
            self._text = []
        elif tag == "hyperedge":
            self._complain("hyperedges have no source; give edges")

    def _begin_graph(self, attributes: dict[str, str], parent: str | None) -> None:
        default = attributes.get("edgedefault")
        if default not in ("directed", "undirected"):
            self._complain(f"edgedefault is {default!r}; it must be directed or undirected")
        undirected = default == "undirected"
        if self.undirected is None:
            self._chosen = self._choose_key()
        elif parent == "graphml":
            self._complain("contains a second graph; split the file")
        elif undirected != self.undirected:
            self._complain("nested graphs differ in edgedefault; use one value")
        self.undirected = undirected

    def _choose_key(self) -> str | None:
        """Return the id of the key that holds weights."""
        if self._wanted == NONE:
            return None
        if self._wanted is not None:
            for key, about in self._keys.items():
                if self._wanted in (key, about.name):
                    return key
            self._complain(f"no edge key is called {self._wanted!r}")
        for name in WEIGHTS:
            for key, about in self._keys.items():
                if about.name.strip().lower() == name:
                    return key
        return None

    def _node(self, name: str) -> None:
        if name in self._missing:
            del self._missing[name]
        elif name in self._names:
            self._complain(f"node {shown_name(name)} is declared twice")
        self._node_number = self._names.number(name)
        self._declared += 1
        if self._declared > MAX_VERTICES:
            self._complain(f"more than {MAX_VERTICES} nodes; split the network")

    def _begin_edge(self, attributes: dict[str, str]) -> None:
        if self._edge is not None:
            self._complain("an edge starts inside another edge")
        ends = []
        for end in ("source", "target"):
            name = self._required(attributes, end, "edge")
            if name not in self._names:
                self._missing[name] = self._line
            ends.append(self._names.number(name))
        own = attributes.get("directed")
        if own == "true" and self.undirected:
            self._complain(
                "a directed edge in an undirected graph; set its edgedefault to directed"
            )
        self._edge = ends[0], ends[1], own == "false" and not self.undirected
        self._weight = None

    def _data(self, text: str) -> None:
        if self._text is not None and sum(map(len, self._text)) <= MAX_TEXT:
            self._text.append(text)

    def _end(self, tag: str) -> None:
        if tag == "edge" and self._edge is not None:
            self._add(*self._edge)
            self._edge = None
        elif tag in ("data", "default") and self._text is not None:
            text, self._text = "".join(self._text).strip(), None
            if tag == "data" and self._open[-1] == "edge":
                self._weight = self._number(text)
            elif tag == "data":
                self._sizes.add(self._node_number, self._size(text))
            elif self._key == self._sizes.key:
                self._sizes.default = self._size(text)
            elif self._key in self._keys and self._wanted in (
                None,
                self._key,
                self._keys[self._key].name,
            ):
                named = self._keys[self._key].name.strip().lower() in WEIGHTS
                if named or self._wanted is not None:
                    self._keys[self._key].default = self._number(text)

    def _size(self, text: str) -> int:
        if not (text.isascii() and text.isdigit() and len(text) < 40 and int(text) < MAX_SIZE):
            self._complain(f"size {text[:24]!r} is not a whole number from 0; repair it")
        return int(text)

    def _number(self, text: str) -> float:
        try:
            value = float(text)
        except ValueError:
            self._complain(f"weight {text[:24]!r} is not a number; repair it")
        if not isfinite(value):
            self._complain(f"weight {text} is not a finite number; repair it")
        return value

    def _add(self, source: int, target: int, both: bool) -> None:
        weight = self._weight
        if weight is None and self._chosen is not None:
            weight = self._keys[self._chosen].default
        for ends in ((source, target), (target, source))[: 1 + both]:
            self._edges.add(*ends, 1.0 if weight is None else weight)


def load(job: ImportJob, columns: ColumnNames | None = None) -> NetworkMeta:
    """Convert a GraphML document to a network file, directed or undirected as declared.

    columns : its weight names the key of weights; source and target cannot be chosen
    Raises `BadInputError` with the line of the first fault.
    """
    wanted = wanted_weight(job, "graphml", columns)
    names = NameTable(job.source, job.memory)
    with TextReader(job.source) as reader, EdgeSpool(job, names) as spool:
        parser = GraphMLParser(job.source, spool, names, wanted)
        while piece := reader.raw_bytes(READ_BYTES):
            parser.feed(piece)
            names.require_memory(reader.fraction)
            job.progress(reader.fraction)
        parser.feed(b"", last=True)
        sizes = parser.sizes()
        return spool.write(
            {"format": "graphml"},
            undirected=bool(parser.undirected),
            attributes=() if sizes is None else ((SIZE, sizes, None),),
        )
