"""Networks to edge lists: a header, then a line ``source,target,weight`` for every synapse.

Weights are in real units. An undirected network lists each edge once. Ids are the original ones,
numbers or names, if the network keeps them in its attribute `id`. Neurons without synapses leave no
trace in the file, nor do attributes.
"""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from storage.formats.render import TextSink, decimals_of, render_edges
from storage.network import ID, NetworkFile


def save(net: NetworkFile, destination: Path) -> None:
    """Write block by block, in order of the source."""
    original = net.attribute(ID) if ID in net.meta.attributes else None
    names: NDArray[Any] | None = None
    if original is not None:
        names = original.stored
        if original.labels is not None:
            names = np.array(original.labels, object)[names]
    with TextSink(destination) as sink:
        sink.write(b"source,target,weight\n")
        for block in net.blocks():
            indptr, ids, weights = block.outgoing()
            source = np.repeat(np.arange(block.vertices) + block.first, np.diff(indptr))
            target = ids.astype(np.int64)
            if net.undirected:
                once = source < target
                source, target, weights = source[once], target[once], weights[once]
            if names is not None:
                source, target = names[source], names[target]
            render = _render_names if source.dtype == object else render_edges
            sink.write(render(source, target, weights, net.meta.weight_unit))
        sink.commit()


def _render_names(
    source: NDArray[Any], target: NDArray[Any], stored: NDArray[np.int64], unit: float
) -> bytes:
    """Like `render_edges`, for ends that are text, all in quotes: a name may hold a comma."""
    weights = stored.tolist()
    if unit != 1:
        # the decimal that is nearest to the product is the exact value of a decimal unit
        digits = decimals_of(unit)
        real = stored * unit
        weights = (real if digits is None else np.round(real, digits)).tolist()
    lines = io.StringIO()
    table = csv.writer(lines, lineterminator="\n", quoting=csv.QUOTE_NONNUMERIC)
    table.writerows(zip(source.tolist(), target.tolist(), weights, strict=True))
    return lines.getvalue().encode()
