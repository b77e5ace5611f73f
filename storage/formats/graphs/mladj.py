"""Multi-line adjacency lists of networkx: ``node degree``, then a line ``neighbour {data}`` each.

The file does not state directions: each neighbour is a target of the node. The weight is the value
of a key with a usual weight name (`edgedata`), and 1 for edges without one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from storage.errors import BadInputError
from storage.formats.base import ImportJob
from storage.formats.columns import ColumnNames, listed
from storage.formats.compact import EdgeSpool
from storage.formats.graphs.adjlist import ASSUMPTION
from storage.formats.losses import ASSUMED
from storage.formats.names import NameTable
from storage.formats.text.edgedata import EdgeData
from storage.formats.text.namedtable import Where, kept_lines
from storage.formats.text.reader import TextReader
from storage.formats.weightkeys import wanted_weight
from storage.store.meta import NetworkMeta

READ_BYTES = 1 << 20
MOST_DEGREE = 2**31
_HEAD = re.compile(r"(\S+)\s+(\d{1,10})")
_EDGE = re.compile(r"([^\s{]+)\s*(\{.*\})?")


class _Lines:
    """Splits lines into edges; a list may continue in the next batch of lines.

    names : first names of all lines since they were last cleared, in order
    """

    def __init__(self) -> None:
        self._node, self._left = "", 0
        self.names: list[str] = []

    def edges(self, texts: list[str], where: Where) -> Iterator[tuple[str, str, str, int]]:
        """Yield source, target, data, and the number of the line."""
        for row, text in enumerate(texts):
            line = text.strip()
            if self._left:
                found = _EDGE.fullmatch(line)
                if found is None:
                    raise BadInputError(
                        f"{where(row)}: {listed([line])!r} is not a neighbour of {self._node[:40]};"
                        " repair it"
                    )
                self._left -= 1
                self.names.append(found[1])
                yield self._node, found[1], found[2] or "{}", row
                continue
            found = _HEAD.fullmatch(line)
            if found is None or int(found[2]) >= MOST_DEGREE:
                raise BadInputError(
                    f"{where(row)}: {listed([line])!r} is not a node and the number of its "
                    "neighbours; repair it"
                )
            self._node, self._left = found[1], int(found[2])
            self.names.append(self._node)

    def require_end(self, path: object) -> None:
        """Raise `BadInputError` if neighbours of the last node are missing."""
        if self._left:
            raise BadInputError(
                f"{path}: {self._left} neighbours of {self._node[:40]!r} are missing; is the file "
                "complete?"
            )


def load(job: ImportJob, columns: ColumnNames | None = None) -> NetworkMeta:
    """Convert a multi-line adjacency list to a directed network file.

    columns : its weight names the key of weights; source and target cannot be chosen
    """
    names, lines = NameTable(job.source, job.memory), _Lines()
    data = EdgeData(wanted_weight(job, "mladj", columns))
    with TextReader(job.source, comments=b"#") as reader, EdgeSpool(job, names) as spool:
        for texts, where in kept_lines(reader, READ_BYTES):
            edges = list(lines.edges(texts, where))
            sources, targets = [edge[0] for edge in edges], [edge[1] for edge in edges]
            found = [edge[2] for edge in edges]
            try:
                weights = data.weights(found)
            except ValueError as error:
                text, fault = error.args
                row = edges[found.index(text)][3]
                raise BadInputError(f"{where(row)}: {listed([text])} {fault}; repair it") from error
            names.of_each(lines.names)
            lines.names.clear()
            spool.add(*names.pairs(sources, targets), weights)
            names.require_memory(reader.fraction)
            job.progress(reader.fraction)
        lines.require_end(job.source)
        return spool.write(
            {"format": "mladj", **data.facts(1, 2), ASSUMED: ASSUMPTION}, by_number=True
        )
