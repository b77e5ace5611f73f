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
from typing import Any, NoReturn
from xml.parsers import expat

import numpy as np
from numpy.typing import NDArray

from storage.errors import BadInputError
from storage.formats.base import ImportJob
from storage.formats.columns import NONE, WEIGHTS, ColumnNames
from storage.formats.compact import EdgeSpool
from storage.formats.names import NameTable
from storage.formats.text.reader import TextReader
from storage.graph import MAX_VERTICES
from storage.store.meta import NetworkMeta
from storage.store.network import SIZE

READ_BYTES = 1 << 20
LONGEST = 2 << 20  # most bytes of a tag, which the parser scans again with each piece
EDGES = 1 << 16  # edges buffered as Python numbers
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


class GraphMLParser:
    """Parses a document in pieces and passes its edges to a spool.
    Raises `BadInputError` with the line of the first fault.
    """

    def __init__(
        self, path: Path, spool: EdgeSpool, names: NameTable, weight: str | None = None
    ) -> None:
        """names : receives the names of the nodes
        weight : name or id of the key that holds weights, if it has no usual name
        """
        self._path, self._spool, self._wanted = path, spool, weight
        self.undirected: bool | None = None  # None until the graph begins
        self._names = names
        self._declared = 0
        self._missing: dict[str, int] = {}  # ends without a node declaration so far, with lines
        self._keys: dict[str, _Key] = {}
        self._chosen: str | None = None
        self._sizes = _Sizes()
        self._node_number = -1  # number of the open node
        self._open: list[str] = []
        self._text: list[str] | None = None
        self._key = ""
        self._edge: tuple[int, int, bool] | None = None
        self._weight: float | None = None
        self._source: list[int] = []
        self._target: list[int] = []
        self._weights: list[float] = []
        self._fed = 0
        self._parser = parser = expat.ParserCreate(namespace_separator=" ")
        parser.buffer_text = True
        parser.StartElementHandler = self._start
        parser.EndElementHandler = self._end
        parser.CharacterDataHandler = self._data
        parser.EntityDeclHandler = self._refuse_entity

    def feed(self, piece: bytes, last: bool = False) -> None:
        """Parse the next bytes of the document."""
        try:
            self._parser.Parse(piece, last)
        except expat.ExpatError as error:
            reason = expat.ErrorString(error.code)
            raise BadInputError(
                f"{self._path}: line {error.lineno}: not valid XML ({reason}); "
                "is the file complete?"
            ) from error
        except BadInputError:
            raise
        except (LookupError, ValueError) as error:  # errors of Python's codecs
            raise BadInputError(
                f"{self._path}: line 1: unknown encoding ({error}); save it as UTF-8"
            ) from error
        self._fed += len(piece)
        if self._fed - max(0, self._parser.CurrentByteIndex) > LONGEST:
            self._complain("a tag or comment is longer than 2 MB; is the file damaged?")
        if last:
            self._flush()
            if self.undirected is None:
                raise BadInputError(f"{self._path}: contains no graph")
            for name, line in self._missing.items():
                raise BadInputError(
                    f"{self._path}: line {line}: an edge refers to node {_shown(name)}, which the "
                    "file does not declare"
                )

    def sizes(self) -> NDArray[np.int64] | None:
        """Return the sizes, shape (nodes,), if the document has them."""
        return self._sizes.array(len(self._names))

    def _complain(self, fault: str) -> NoReturn:
        raise BadInputError(f"{self._path}: line {self._parser.CurrentLineNumber}: {fault}")

    def _refuse_entity(self, *_: object) -> None:
        self._complain("declares an entity; remove it")

    def _start(self, tag: str, attributes: dict[str, str]) -> None:
        tag = tag.rpartition(" ")[2]
        parent = self._open[-1] if self._open else None
        self._open.append(tag)
        if parent is None and tag != "graphml":
            self._complain(f"the document is a <{tag[:40]}>, not <graphml>")
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

    def _required(self, attributes: dict[str, str], name: str, tag: str) -> str:
        if name not in attributes:
            self._complain(f"a <{tag}> has no {name}")
        return attributes[name]

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
            self._complain(f"node {_shown(name)} is declared twice")
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
                self._missing[name] = self._parser.CurrentLineNumber
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
        tag = self._open.pop()
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
            self._source.append(ends[0])
            self._target.append(ends[1])
            self._weights.append(1.0 if weight is None else weight)
        if len(self._source) >= EDGES:
            self._flush()

    def _flush(self) -> None:
        source, target = np.array(self._source, np.int64), np.array(self._target, np.int64)
        self._spool.add(source, target, np.array(self._weights, np.float64))
        self._source, self._target, self._weights = [], [], []


def _shown(name: str) -> str:
    return repr(name if len(name) <= 40 else name[:40] + "...")


def load(job: ImportJob, columns: ColumnNames | None = None) -> NetworkMeta:
    """Convert a GraphML document to a network file, directed or undirected as declared.

    columns : its weight names the key of weights; source and target cannot be chosen
    Raises `BadInputError` with the line of the first fault.
    """
    if columns is not None and columns != ColumnNames(weight=columns.weight):
        raise BadInputError(f"{job.source}: a graphml file has no columns for source and target")
    wanted: Any = None if columns is None else columns.weight
    names = NameTable(job.source, job.memory)
    with TextReader(job.source) as reader, EdgeSpool(job, names) as spool:
        parser = GraphMLParser(job.source, spool, names, wanted)
        while piece := reader.raw_bytes(READ_BYTES):
            parser.feed(piece)
            names.require_memory(reader.fraction)
            job.progress(reader.fraction)
        parser.feed(b"", last=True)
        undirected = bool(parser.undirected)
        return spool.write({"format": "graphml"}, undirected=undirected, sizes=parser.sizes())
