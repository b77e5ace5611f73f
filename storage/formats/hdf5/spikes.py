"""SONATA spike reports: the neuron and time of each spike, read and written. Needs h5py.

The node ids of a population in a report index the population of the same name in the network's
attribute `population`. Times are in milliseconds unless the report states otherwise.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from storage.errors import BadInputError
from storage.files import PartialFile
from storage.formats.hdf5 import file as hdf5
from storage.formats.hdf5.sonata import BLOCK, MAGIC, check_version
from storage.store.network import ID, POPULATION, NetworkFile

MILLISECONDS = {"ms": 1.0, "s": 1000.0, "us": 0.001}  # milliseconds per unit of time stamps
BY_TIME = 2  # value of the format's sorting enumeration: none, by_id, by_time
ALL = "default"  # population name for networks without populations

Int64 = NDArray[np.int64]
Piece = tuple[Int64, NDArray[np.float64]]


def report_spikes(path: Path, network: NetworkFile) -> Iterator[Piece]:
    """Yield neurons that spike and times in ms, piece by piece; shape (spikes,), never empty.

    Raises `BadInputError` for populations and neurons that the network does not have.
    """
    with hdf5.opened(path) as file:
        check_version(file, path)
        spikes = hdf5.group(file, "spikes", path)
        names = hdf5.groups(spikes)
        if not names:
            raise BadInputError(f"{path}: /spikes holds no population")
        for name in names:
            yield from _pieces(spikes[name], _members(network, name, len(names), path), path)


def save_report(
    file: PartialFile, network: NetworkFile, neuron: Int64, time: NDArray[np.floating]
) -> None:
    """Write a report; neuron, time : of each spike, sorted by time, in ms, shape (spikes,)"""
    names, of = [ALL], np.zeros(network.vertices, np.int64)
    if POPULATION in network.meta.attributes:
        population = network.attribute(POPULATION)
        names, of = population.labels or names, population.stored
    number = np.empty_like(of)  # index of each neuron in its population
    order = np.argsort(of, kind="stable")
    number[order] = np.arange(of.size) - np.searchsorted(of[order], of[order])
    h5py = hdf5.library(file.path)
    sorting = h5py.enum_dtype({"none": 0, "by_id": 1, "by_time": BY_TIME}, basetype="u1")
    with hdf5.created(file) as (report, _):
        report.attrs["magic"] = np.uint32(MAGIC)
        report.attrs["version"] = np.array([0, 1], np.uint32)
        for index, name in enumerate(names):
            own = of[neuron] == index
            group = report.create_group(f"spikes/{name}")
            group.attrs.create("sorting", BY_TIME, dtype=sorting)
            group.create_dataset("node_ids", data=number[neuron[own]].astype(np.uint64))
            group.create_dataset("timestamps", data=time[own]).attrs["units"] = "ms"


def _members(network: NetworkFile, name: str, populations: int, path: Path) -> Int64:
    """Return the neurons of a population in the order of its nodes."""
    if POPULATION not in network.meta.attributes:
        if populations > 1:
            raise BadInputError(
                f"{path}: has spikes of {populations} populations, but the network has none"
            )
        return np.arange(network.vertices)
    population = network.attribute(POPULATION)
    labels = population.labels or []
    if name not in labels:
        shown = ", ".join(map(repr, labels))
        raise BadInputError(f"{path}: /spikes/{name}: the network's populations are {shown}")
    own = np.flatnonzero(population.stored == labels.index(name))
    if network.meta.provenance.get("format") != "sonata" and ID in network.meta.attributes:
        ids = network.attribute(ID)
        if ids.labels is not None or not np.array_equal(ids.stored[own], np.arange(own.size)):
            raise BadInputError(
                f"{path}: /spikes/{name} has node ids 0..{own.size - 1}, but the ids of this "
                "population differ; give an npz file"
            )
    return own


def _pieces(group: Any, own: Int64, path: Path) -> Iterator[Piece]:
    """Yield the spikes of a population, piece by piece."""
    ids = hdf5.column(group, "node_ids", path)
    size = int(ids.shape[0])
    times = hdf5.column(group, "timestamps", path, size, kinds="iuf")
    unit = hdf5.text(times.attrs.get("units", "ms"))
    if unit not in MILLISECONDS:
        raise BadInputError(f"{path}: {times.name} is in {unit!r}; use ms, s or us")
    for first in range(0, size, BLOCK):
        stamps = times[first : first + BLOCK]
        wrong = np.flatnonzero(~np.isfinite(stamps) | (stamps < 0))
        if wrong.size:
            at = int(wrong[0])
            raise BadInputError(
                f"{path}: {times.name}, row {first + at} (from 0): {stamps[at]} is not a valid "
                "spike time"
            )
        nodes = hdf5.whole(
            ids[first : first + BLOCK], f"{path}: {ids.name}", first, own.size,
            " of the population",
        )  # fmt: skip
        yield own[nodes], stamps.astype(np.float64) * MILLISECONDS[unit]
