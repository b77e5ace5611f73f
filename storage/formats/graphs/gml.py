"""GML (Himsolt 1996): nested lists of keys and values, read token by token.

Neurons are in the order of the nodes. They are called by the labels of the nodes, as in networkx,
if each node has a different one, and by their ids otherwise. The weight is the number of an edge
with a usual name, or `value`; other keys of nodes see `nodes`. Without ``directed 1`` a graph is
undirected.
"""

from __future__ import annotations

import html
import re
from typing import Any, NoReturn

from storage.errors import BadInputError
from storage.formats.base import ImportJob
from storage.formats.columns import WEIGHTS, ColumnNames
from storage.formats.graphs.document import GraphDocument
from storage.formats.graphs.nodes import POSITION
from storage.formats.names import shown_name
from storage.formats.text.reader import TextReader
from storage.formats.weightkeys import WeightKeys, number_of, wanted_weight
from storage.store.meta import NetworkMeta

READ_BYTES = 1 << 20
LONGEST = 2 << 20  # most characters of a text, which is scanned again with each piece
DEEPEST = 64  # nested lists
GRAPH = ("graph",)
NODE, EDGE = (*GRAPH, "node"), (*GRAPH, "edge")
GRAPHICS = (*NODE, "graphics")
_TOKEN = re.compile(
    r'(?:\s++|\#[^\n]*+\n)*+(?:(?P<word>[^\s\[\]"\#]++)|"(?P<text>[^"]*+)"|(?P<mark>[\[\]])'
    r"|(?P<cut>.))",
    re.DOTALL,
)


class GmlParser:
    """Passes the nodes and edges of a file to a document.

    undirected : as the graph declares so far
    """

    def __init__(self, reader: TextReader, document: GraphDocument) -> None:
        self._reader, self._document = reader, document
        self.undirected = True
        self._stack: list[str] = []
        self._key: str | None = None
        self._data: dict[str, Any] = {}
        self._graphs = 0
        self._text, self._at, self._line = "", 0, 1

    def read(self) -> None:
        """Parse the file; raise `BadInputError` with the line of the first fault."""
        reader = self._reader
        while lines := reader.raw_lines(READ_BYTES):
            rest = self._text[self._at :]
            self._text = rest + "\n".join(lines) + "\n"
            self._line = reader.line - len(lines) + 1 - rest.count("\n")
            self._at = self._scan()
            self._document.note_progress(reader.fraction)
        if self._at < len(self._text):
            self._complain('a text has no closing "; is the file complete?')
        self._at = len(self._text.rstrip())
        if self._stack or self._key is not None:
            self._complain("the file ends inside a list or after a key; is it complete?")
        if not self._graphs:
            raise BadInputError(f"{reader.path}: contains no graph")

    def _scan(self) -> int:
        """Process the tokens of the text; return the position of an incomplete one."""
        text = self._text
        for match in _TOKEN.finditer(text):
            kind = match.lastgroup
            if kind == "cut":
                at = match.start("cut")
                if text[at] != '"':
                    self._at = at
                    self._complain(f"{text[at]!r} is not allowed here")
                if len(text) - at > LONGEST:
                    self._at = at
                    self._complain('a text has no closing " within 2 MB; is the file damaged?')
                return at
            self._at = match.start(kind)  # type: ignore[arg-type]
            self._token(match[kind], kind)  # type: ignore[index, arg-type]
        return len(text)

    def _where(self) -> str:
        return self._reader.where(self._line + self._text.count("\n", 0, self._at))

    def _complain(self, fault: str) -> NoReturn:
        raise BadInputError(f"{self._where()}: {fault}")

    def _token(self, token: str, kind: str) -> None:
        """Process a key, a value, or a mark."""
        key = self._key
        if key is None:
            if kind == "word":
                self._key = token
            elif token == "]" and self._stack and kind == "mark":
                self._close()
            else:
                self._complain(f"{token[:40]!r} is not a key")
            return
        self._key = None
        if kind != "mark":
            self._value(key, token, kind == "text")
        elif token == "[":
            self._begin(key)
        else:
            self._complain(f"key {key[:40]!r} has no value")

    def _begin(self, key: str) -> None:
        self._stack.append(key)
        if len(self._stack) > DEEPEST:
            self._complain(f"lists nested more than {DEEPEST} deep")
        place = tuple(self._stack)
        if place == GRAPH:
            self._graphs += 1
            if self._graphs > 1:
                self._complain("contains a second graph; split the file")
        elif place in (NODE, EDGE):
            self._data = {}

    def _value(self, key: str, token: str, quoted: bool) -> None:
        place = tuple(self._stack)
        if place == GRAPH and key == "directed":
            if token not in ("0", "1"):
                self._complain(f"directed is {token[:24]!r}; it must be 0 or 1")
            self.undirected = token == "0"
        elif place in (NODE, EDGE):
            self._data[key] = html.unescape(token) if quoted else _number(token)
        elif place == GRAPHICS and key in POSITION:
            self._data.setdefault(key, _number(token))

    def _close(self) -> None:
        place = tuple(self._stack)
        self._stack.pop()
        if place == NODE:
            self._document.nodes.declare(self._required("id", "node"), self._data, self._where)
        elif place == EDGE:
            ends = self._required("source", "edge"), self._required("target", "edge")
            self._document.edge(ends, self._data, self._where)

    def _required(self, key: str, what: str) -> str:
        if key not in self._data:
            self._complain(f"a {what} has no {key}")
        found = str(self._data.pop(key))
        if not found or len(found) > 1 << 16:
            self._complain(f"{key} {shown_name(found)} cannot identify a node")
        return found


def _number(token: str) -> Any:
    """Return an unquoted value as a number, or as text if it is none."""
    if token.isascii() and token.isdigit() and len(token) < 40:
        return int(token)
    found = number_of(token)
    return token if found != found else found


def load(job: ImportJob, columns: ColumnNames | None = None) -> NetworkMeta:
    """Convert a GML file to a network file, directed or undirected as declared.

    columns : its weight names the key of weights; source and target cannot be chosen
    Raises `BadInputError` with the line of the first fault.
    """
    weights = WeightKeys(wanted_weight(job, "gml", columns), (*WEIGHTS, "value"))
    with (
        TextReader(job.source) as reader,
        GraphDocument(job, weights, by_label=True) as document,
    ):
        parser = GmlParser(reader, document)
        parser.read()
        return document.write("gml", parser.undirected)
