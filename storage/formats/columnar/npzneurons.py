"""Neuron attributes in an npz archive, next to its matrix or edge lists.

Arrays ``neuron/NAME`` of shape (neurons,) become attributes; with ``neuron/NAME/labels`` their
values index these labels. A true array `undirected` states that the matrix is symmetric and two
entries are one edge, or that a list holds each edge once.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from storage.errors import BadInputError
from storage.store.writer import NetworkWriter

PREFIX, LABELS, UNDIRECTED = "neuron/", "/labels", "undirected"


def is_about(name: str) -> bool:
    """Return whether an array is not part of the matrix or the lists."""
    return name == UNDIRECTED or name.startswith(PREFIX)


def says_undirected(archive: Any) -> bool:
    """Return whether an archive opened by numpy has a true array `undirected`."""
    return UNDIRECTED in archive.files and bool(np.asarray(archive[UNDIRECTED]).all())


def attributes(archive: Any) -> Iterator[tuple[str, NDArray[Any], list[str] | None]]:
    """Yield name, values and labels of all attributes; raise `BadInputError` if not numeric."""
    for key in archive.files:
        name = key.removeprefix(PREFIX)
        if name == key or "/" in name:
            continue
        values = archive[key]
        if values.dtype.kind not in "iuf" or values.ndim != 1:
            raise BadInputError(f"{key} is {values.dtype}, {values.ndim}-dimensional; give numbers")
        if values.dtype.kind == "u" and values.size and int(values.max()) >= 2**63:
            raise BadInputError(f"{key}: {values.max()} exceeds 2^63 - 1; scale it down")
        labels = archive[key + LABELS] if key + LABELS in archive.files else None
        if labels is not None and (labels.dtype.kind != "U" or labels.ndim != 1):
            raise BadInputError(f"{key}{LABELS} is {labels.dtype}; give a list of text")
        yield name, values, None if labels is None else labels.tolist()


def set_attributes(writer: NetworkWriter, archive: Any) -> None:
    """Set the neuron attributes of an archive in a writer."""
    for name, values, labels in attributes(archive):
        writer.set_attribute(name, values, labels)
