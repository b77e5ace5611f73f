"""Detection of formats without a magic number, from the first bytes of a file or its content.

Nothing here needs compiled kernels; see `base`.
"""

from __future__ import annotations

import re
import struct
from pathlib import Path

from storage.formats.base import is_text
from storage.formats.text.heading import names_columns, separator

LEAST_COLUMNS = 4
"""Columns of a square text matrix that is recognised: lines of two or three numbers are edges."""
_GML = re.compile(rb"(?:\A|[\r\n])[ \t]*graph\s*\[")
_JSON = re.compile(rb'"(?:[^"\\]|\\.)*"|[\[\]{}:]', re.DOTALL)


def is_graphml(head: bytes) -> bool:
    return b"<graphml" in head


def is_nir(path: Path) -> bool | None:
    """Return whether an HDF5 file is NIR (group `node`) or SONATA (`edges`, `nodes`)."""
    from storage.formats.hdf5 import file as hdf5  # deferred: it imports numpy

    names = hdf5.members(path)
    if names is None or not names & {"node", "nodes", "edges"}:
        return None
    return not names & {"nodes", "edges"}


def is_parhip(head: bytes) -> bool:
    """Return whether the list of vertex 0 begins right after the starts of all lists."""
    if len(head) < 32:
        return False
    version, vertices, _, first = struct.unpack_from("<4Q", head)
    return version < 64 and bool(first == 8 * (4 + vertices))


def is_gexf(head: bytes) -> bool:
    return b"<gexf" in head


def is_gml(head: bytes) -> bool:
    return _GML.search(head) is not None


def is_pajek(head: bytes) -> bool:
    """Return whether the first line that is not a comment begins a network of Pajek."""
    for line in head.splitlines():
        text = line.strip().lower()
        if text and not text.startswith(b"%"):
            return text.startswith((b"*vertices", b"*network"))
    return False


def is_nodelink(head: bytes) -> bool:
    """Return whether a JSON object has a list of nodes or links, not nested in another object."""
    if not head.lstrip().startswith(b"{"):
        return False
    depth, last, key = 0, b"", b""
    for match in _JSON.finditer(head):
        token = match[0]
        if token == b":":
            key = last if depth == 1 else key
        elif token in (b"{", b"["):
            if depth == 1 and token == b"[" and key in (b'"nodes"', b'"links"', b'"edges"'):
                return True
            depth += 1
        elif token in (b"}", b"]"):
            depth -= 1
        else:
            last = token
    return False


def is_square(path: Path, head: bytes) -> bool:
    """Return whether a text holds a square matrix of at least four columns, not a list of edges."""
    if names_columns(head) or not is_text(head):
        return False
    lines = (line for line in head.splitlines() if line.strip() and line.strip()[:1] not in b"#%")
    first = next(lines, b"").decode("utf-8", "replace")
    mark = separator(first)
    if len(first.split(mark)) < LEAST_COLUMNS:
        return False
    from storage.formats.matrices.textmatrix import is_square_table  # deferred: it imports numpy

    return is_square_table(path, LEAST_COLUMNS)


def is_pickle(head: bytes) -> bool:
    """Return whether the head of a file is a pickle of protocol 2 to 5."""
    return len(head) > 2 and head[0] == 0x80 and 2 <= head[1] <= 5
