"""The NIR source graph of a network, with the core of every neuron. Needs h5py.

The graph is copied unchanged, with its convolutions, signs, parameters and metadata. The metadata
of each population gets `core`, the core ids of its neurons, int32 in the shape of the population;
the metadata of the graph gets `chip`, `width` and `height`: core = y * width + x.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np

from mapper.errors import MapperError
from mapper.exports.base import MappedRun
from storage.files import PartialFile
from storage.formats.hdf5 import file as hdf5
from storage.formats.hdf5.nirfile import Population, read_populations
from storage.store.network import POPULATION

COPIED_BYTES = 1 << 22
"""Bytes copied at a time."""


def save(run: MappedRun, destination: Path, graph: Path) -> dict[str, Any]:
    """Write a copy of the file `graph` with cores.

    Raises `MapperError` if its populations differ from the network's.
    """
    populations = read_populations(graph)
    _check(run, graph, populations)
    with PartialFile(destination) as file:
        with graph.open("rb") as source:
            while piece := source.read(COPIED_BYTES):
                file.write(piece)
        file.flush()
        with hdf5.created(file, "nir", "r+") as (copy, _):
            first = 0
            for each in populations:
                size = math.prod(each.shape)
                core = run.core[first : first + size].reshape(each.shape)
                _put(copy[each.group], "core", core)
                first += size
            about = {"chip": run.chip.name, "width": run.chip.width, "height": run.chip.height}
            for name, value in about.items():
                _put(copy["node"], name, value)
        file.commit()
    return {"neurons": run.core.size, "populations": len(populations)}


def _check(run: MappedRun, graph: Path, populations: list[Population]) -> None:
    network = run.network
    found = {each.name: math.prod(each.shape) for each in populations}
    expected: dict[str, int] = {}
    if POPULATION in network.meta.attributes:
        attribute = network.attribute(POPULATION)
        labels = attribute.labels or []
        counts = np.bincount(attribute.stored, minlength=len(labels)).tolist()
        expected = dict(zip(labels, counts, strict=True))
    if list(found.items()) != list(expected.items()):
        raise MapperError(
            f"{graph}: is not the source graph of {network.path}: their populations differ "
            f"({_listed(found)}; the network has {_listed(expected)})"
        )


def _listed(sizes: dict[str, int], most: int = 5) -> str:
    shown = [f"{name!r} {size}" for name, size in list(sizes.items())[:most]]
    return ", ".join(shown + ["..."] * (len(sizes) > most)) or "none"


def _put(node: Any, name: str, value: Any) -> None:
    """Set an entry of the metadata of a node, an HDF5 group."""
    metadata = node.require_group("metadata")
    if name in metadata:
        del metadata[name]
    metadata[name] = value
