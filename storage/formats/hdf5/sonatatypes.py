"""Tables of SONATA edge types: properties shared by the edges of a type.

Text, columns separated by blanks, one line per type; the first line holds `edge_type_id` and the
names of the other columns. The values NULL and NONE count as missing.
"""

from __future__ import annotations

import csv
import io
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from storage.errors import BadInputError
from storage.files import read_input

FACTORS = ("syn_weight", "nsyns")  # factors of a weight
MOST_TABLE_BYTES = 16 << 20  # bytes of a table
LEFT_OUT = ("NULL", "NONE", "nan", "")

Floats = NDArray[np.float64]
Int64 = NDArray[np.int64]
Types = dict[str, tuple[Int64, Floats]]
"""For each factor: the edge types that have it, increasing, and the values."""


def read_types(path: Path | None) -> Types:
    """Return the factors in a table; empty without a table.

    Raises `BadInputError` that names the edge type of a faulty line.
    """
    if path is None:
        return {}
    try:
        text = read_input(path, MOST_TABLE_BYTES).decode("utf-8", "replace")
        lines = io.StringIO(text, newline="")
        rows = [row for row in csv.reader(lines, delimiter=" ", skipinitialspace=True) if row]
    except csv.Error as error:
        raise BadInputError(f"{path}: cannot read: {error}") from error
    head = rows[0] if rows else []
    if "edge_type_id" not in head:
        raise BadInputError(f"{path}: line 1: no column edge_type_id; give a table of edge types")
    found: Types = {}
    for factor in set(FACTORS) & set(head):
        values: dict[int, float] = {}
        for row in rows[1:]:
            if len(row) < len(head):
                raise BadInputError(
                    f"{path}: edge type {row[0]}: {len(row)} of {len(head)} columns"
                )
            text = row[head.index(factor)]
            if text not in LEFT_OUT:
                try:
                    values[int(row[head.index("edge_type_id")])] = float(text)
                except ValueError as error:
                    reason = str(error)[:120]
                    raise BadInputError(f"{path}: edge type {row[0][:24]}: {reason}") from error
        beyond = [key for key in values if not -(2**63) <= key < 2**63]
        if beyond:
            raise BadInputError(f"{path}: edge type {str(beyond[0])[:24]} exceeds 2^63")
        types = np.array(sorted(values), np.int64)
        theirs = np.array([values[key] for key in types.tolist()], np.float64)
        if not np.isfinite(theirs).all():
            raise BadInputError(f"{path}: a {factor} is not finite; repair it")
        if types.size:
            found[factor] = types, theirs
    return found
