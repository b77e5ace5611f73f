"""Edge lists of networkx: ``source target {'weight': 4}``, with a dictionary of edge data.

`networkx.write_edgelist` writes them, by default with ``{}`` after the ends. Ids may be names.
The weight is the value of a key with a usual weight name, and 1 for edges without one.
"""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from storage.errors import BadInputError
from storage.formats.base import ImportJob
from storage.formats.columns import listed
from storage.formats.compact import EdgeSpool
from storage.formats.names import NameTable
from storage.formats.text.heading import separator
from storage.formats.text.namedtable import Where, kept_lines
from storage.formats.text.reader import TextReader
from storage.formats.weightkeys import WeightKeys
from storage.store.meta import NetworkMeta

READ_BYTES = 1 << 20  # bytes of text read at a time
MOST_CHARACTERS = 1 << 16  # most characters of a dictionary
_NUMBER = r"[-+]?(?:\d++\.?+\d*+|\.\d++)(?:[eE][-+]?\d++)?+"  # possessive: no backtracking
_PLAIN = re.compile(rf"\{{'weight': ({_NUMBER})\}}")
_SCALAR = re.compile(rf"\bnp\.\w++\(({_NUMBER})\)")  # repr of numpy scalars since 2.0


def holds_data(line: str) -> bool:
    """Return whether a line ends with a dictionary after two ends."""
    text = line.strip()
    return text.endswith("}") and len(_ends(text.partition("{")[0])) == 2


def _ends(text: str, mark: str | None = None) -> list[str]:
    """Split the text before the data at the given or detected separator."""
    mark = mark or separator(text)
    parts = text.split(mark)
    if mark is not None and not parts[-1].strip():
        parts.pop()  # separator between the second end and the data
    return [part.strip() for part in parts]


class EdgeData(WeightKeys):
    """Parses the dictionaries of edges, and collects their keys.

    missing : number of edges without a weight
    """

    def weights(self, texts: list[str]) -> NDArray[np.float64]:
        """Return the weight of each edge, default 1; raise `ValueError` (text, fault)."""
        known = {text: self._weight(text) for text in set(texts)}
        found = np.array(list(map(known.__getitem__, texts)))
        missing = np.isnan(found)
        self.missing += int(np.count_nonzero(missing))
        return np.where(missing, 1.0, found)

    def _weight(self, text: str) -> float:
        """Return the weight of an edge, nan if it has none."""
        plain = _PLAIN.fullmatch(text)
        if plain is not None and self.accepts("weight"):
            data: Any = {"weight": float(plain[1])}
        else:
            try:
                if len(text) > MOST_CHARACTERS:
                    raise ValueError
                with warnings.catch_warnings(action="ignore"):  # invalid escapes in text
                    data = ast.literal_eval(_SCALAR.sub(r"\1", text))
            except (ValueError, SyntaxError, MemoryError, RecursionError):
                data = None
        if not isinstance(data, dict):
            raise ValueError(text, "is not a dictionary of numbers and text")
        try:
            return self.weight(data)
        except ValueError as error:
            raise ValueError(text, *error.args) from error


def load_data(reader: TextReader, wanted: str | None, job: ImportJob) -> NetworkMeta:
    """Convert the rest of an open file to a directed network file.

    wanted : key of the weights
    Raises `BadInputError` with the line of the first fault.
    """
    table, data = NameTable(reader.path, job.memory), EdgeData(wanted)
    mark = separator((reader.peek() or "").partition("{")[0])
    with EdgeSpool(job, table) as spool:
        for sources, targets, texts, where in _pieces(reader, mark):
            try:
                weights = data.weights(texts)
            except ValueError as error:
                text, fault = error.args
                raise BadInputError(
                    f"{where(texts.index(text))}: {listed([text])} {fault}; repair it"
                ) from error
            spool.add(*table.pairs(sources, targets), weights)
            table.require_memory(reader.fraction)
            job.progress(reader.fraction)
        provenance = {"format": "edgelist", **data.facts(1, 2)}
        return spool.write(provenance, by_number=True)


def _pieces(
    reader: TextReader, mark: str | None
) -> Iterator[tuple[list[str], list[str], list[str], Where]]:
    """Yield sources, targets and data of some lines, and a function for the place of a line."""
    for texts, where in kept_lines(reader, READ_BYTES):
        found = [text.partition("{") for text in texts]
        ends = [_ends(head, mark) for head, _, _ in found]
        data = [brace + rest.rstrip() for _, brace, rest in found]
        for row, (pair, text) in enumerate(zip(ends, data, strict=True)):
            if len(pair) != 2 or not all(pair) or not text.endswith("}"):
                raise BadInputError(
                    f"{where(row)}: {listed([texts[row]])!r} is not an edge with data like the "
                    "first line; repair it"
                )
        yield [pair[0] for pair in ends], [pair[1] for pair in ends], data, where
