"""SONATA networks (Dai et al., PLoS Comput. Biol. 16, 2020): HDF5 files of nodes and edges.

Node populations follow one another in the order of their files, and within a file by name; node i
of a population whose first neuron is f becomes neuron f + i. The attribute `population` holds the
population of each neuron. Virtual nodes are treated like others.

The format has no firing rates: each neuron gets a `rate` of 1, and so does each edge, whatever its
weight. The weight of an edge is its `syn_weight`, times its `nsyns` if present; each comes from the
edge's group, else from its type, else is 1. `weights_missing` of the provenance counts the edges
that have neither. Weights are kept with their signs. If the job states that they are traffic, or
`traffic` requests it, the traffic is their magnitude (`weights_negative` counts the negative ones).
Edges exported by `mapper` with the attribute `mapper_traffic` are also read as traffic.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from storage.errors import BadInputError
from storage.formats.base import ImportJob
from storage.formats.hdf5 import file as hdf5
from storage.formats.hdf5.sonataconfig import EdgesFile, find_circuit
from storage.formats.hdf5.sonatanodes import read_attributes
from storage.formats.hdf5.sonatatypes import FACTORS, Types, read_types
from storage.formats.losses import WEIGHTS_MISSING, WEIGHTS_NEGATIVE, Magnitudes
from storage.graph import MAX_VERTICES
from storage.store.meta import NetworkMeta
from storage.store.network import POPULATION, RATE
from storage.store.traffic import RATE_WEIGHTS, UNIFORM, WEIGHTS, from_weights, uniform
from storage.store.writer import NetworkWriter

OWN_TRAFFIC = "mapper_traffic"
BLOCK = 1 << 18  # rows read at a time
MAGIC = 0x0A7A

Floats = NDArray[np.float64]
Int64 = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Populations:
    """Number ranges of the neuron populations.

    counts : nodes of each, in order
    """

    counts: dict[str, int]

    def first(self, name: str) -> int:
        """Return the neuron of node 0."""
        found = 0
        for other, count in self.counts.items():
            if other == name:
                return found
            found += count
        raise KeyError(name)

    @property
    def total(self) -> int:
        return sum(self.counts.values())


def check_version(file: Any, path: Path) -> None:
    """Raise `BadInputError` if a file declares a format other than SONATA 0.x or 1.x."""
    magic, version = file.attrs.get("magic"), file.attrs.get("version")
    if magic is not None and np.asarray(magic).ravel().tolist() != [MAGIC]:
        raise BadInputError(f"{path}: attribute magic is {magic}; in SONATA files it is {MAGIC}")
    if version is not None:
        numbers = np.asarray(version).ravel().tolist()
        if numbers[:1] not in ([0], [1]):
            shown = ".".join(map(str, numbers))
            raise BadInputError(f"{path}: SONATA version {shown} is not supported; 0.x and 1.x are")


def read_nodes(paths: list[Path]) -> Populations:
    """Return the populations of all nodes files; node ids must be 0 .. n-1 in order."""
    counts: dict[str, int] = {}
    for path in paths:
        with hdf5.opened(path) as file:
            check_version(file, path)
            nodes = hdf5.group(file, "nodes", path)
            for name in hdf5.groups(nodes):
                if name in counts:
                    raise BadInputError(
                        f"{path}: population {name!r} is also in another nodes file"
                    )
                types = hdf5.column(nodes[name], "node_type_id", path, kinds="iuOS")
                counts[name] = types.shape[0]
                if "node_id" in nodes[name]:
                    _check_node_ids(nodes[name], counts[name], path)
    return Populations(counts)


def _check_node_ids(group: Any, count: int, path: Path) -> None:
    ids = hdf5.column(group, "node_id", path, count)
    for first in range(0, count, BLOCK):
        part = ids[first : first + BLOCK]
        wrong = np.flatnonzero(part != np.arange(first, first + part.size, dtype=part.dtype))
        if wrong.size:
            at = int(wrong[0])
            raise BadInputError(
                f"{path}: {ids.name}, row {first + at} (from 0): {part[at]}; ids must be "
                f"0..{count - 1} in order"
            )


class EdgePopulation:
    """An edge population of an open file. Raises `BadInputError` if parts are missing."""

    def __init__(self, group: Any, path: Path, types: Types) -> None:
        self._group, self._path, self._types = group, path, types
        self._ends = [hdf5.column(group, f"{end}_node_id", path) for end in ("source", "target")]
        self.size = int(self._ends[0].shape[0])
        self.missing = 0  # edges without weight, counted by `blocks`
        hdf5.column(group, "target_node_id", path, self.size)
        self._type = hdf5.column(group, "edge_type_id", path, self.size) if types else None
        numbered = [name for name in hdf5.groups(group) if hdf5.is_numbered(name)]
        self._groups = {int(name): group[name] for name in numbered}
        self._grouped = len(self._groups) > 1 or "edge_group_id" in group
        if self._grouped:
            self._group_id = hdf5.column(group, "edge_group_id", path, self.size)
            self._group_index = hdf5.column(group, "edge_group_index", path, self.size)

    @property
    def is_traffic(self) -> bool:
        """Return whether the file declares its weights as traffic."""
        return hdf5.text(self._group.attrs.get(OWN_TRAFFIC, "")) == WEIGHTS

    def populations(self) -> tuple[str | None, str | None]:
        """Return the node populations of source and target ids; None if undeclared."""
        names = [end.attrs.get("node_population") for end in self._ends]
        source, target = (None if name is None else hdf5.text(name) for name in names)
        return source, target

    def largest(self) -> tuple[int, int]:
        """Return the largest source and target id, -1 without edges; takes one pass."""
        found = [-1, -1]
        for k, end in enumerate(self._ends):
            for first in range(0, self.size, BLOCK):
                found[k] = max(found[k], int(end[first : first + BLOCK].max()))
        return found[0], found[1]

    def blocks(self, sources: int, targets: int) -> Iterator[tuple[Int64, Int64, Floats]]:
        """Yield source, target and weight of all edges; ids as in the file.

        sources, targets : node counts of the two populations
        """
        for first in range(0, self.size, BLOCK):
            last = min(first + BLOCK, self.size)
            ends = [
                hdf5.whole(
                    end[first:last], f"{self._path}: {end.name}", first, count,
                    f" of population {name!r}" if name else "",
                )
                for end, count, name in zip(
                    self._ends, (sources, targets), self.populations(), strict=True
                )
            ]  # fmt: skip
            yield ends[0], ends[1], self._weights(first, last)

    def _weights(self, first: int, last: int) -> Floats:
        """Return the weights of edges first .. last-1, with their signs."""
        product, found = np.ones(last - first), np.zeros(last - first, np.bool_)
        group, index = np.zeros(last - first, np.int64), np.arange(first, last)
        if self._grouped:
            group = self._group_id[first:last].astype(np.int64)
            index = self._group_index[first:last]
        for number in _distinct(group):
            if self._grouped and number not in self._groups:
                row = first + int(np.flatnonzero(group == number)[0])
                raise BadInputError(
                    f"{self._path}: {self._group_id.name}, row {row} (from 0): no group "
                    f"{number} exists"
                )
            rows = np.flatnonzero(group == number)
            for factor in FACTORS:
                values = self._of_group(number, factor, index, rows, first)
                known: NDArray[np.bool_] | bool = True
                if values is None:
                    values, known = self._of_types(factor, rows, first)
                product[rows] *= values
                found[rows] |= known
        self.missing += int(np.count_nonzero(~found))
        return product

    def _of_group(
        self, number: int, factor: str, index: NDArray[Any], rows: Int64, first: int
    ) -> Floats | None:
        """Return a factor of edges from their group, None if the group has none."""
        group = self._groups.get(number)
        if group is None or factor not in group:
            return None
        data = hdf5.column(
            group, factor, self._path, None if self._grouped else self.size, kinds="iuf"
        )
        place = self._group_index.name if self._grouped else data.name
        size = int(data.shape[0])
        wrong = np.flatnonzero(index[rows] >= size)
        if wrong.size:
            row = int(rows[wrong[0]])
            raise BadInputError(
                f"{self._path}: {place}, row {first + row} (from 0): {index[row]} is outside "
                f"0..{size - 1} of group {number}"
            )
        wanted = index[rows].astype(np.int64)
        values = np.empty(rows.size)
        windows = wanted // BLOCK
        for window in _distinct(windows):
            inside = windows == window
            low = int(wanted[inside].min())
            part = data[low : int(wanted[inside].max()) + 1]
            values[inside] = part[wanted[inside] - low]
        wrong = np.flatnonzero(~np.isfinite(values))
        if wrong.size:
            raise BadInputError(
                f"{self._path}: {data.name}, row {wanted[wrong[0]]} (from 0): "
                f"{values[wrong[0]]} is not finite; repair it"
            )
        return values

    def _of_types(
        self, factor: str, rows: Int64, first: int
    ) -> tuple[Floats, NDArray[np.bool_] | bool]:
        """Return a factor of edges from their types (default 1), and which types have one."""
        values = np.ones(rows.size)
        if factor not in self._types or self._type is None or not rows.size:
            return values, False
        low, high = int(rows[0]), int(rows[-1]) + 1
        types = self._type[first + low : first + high].astype(np.int64)[rows - low]
        known, theirs = self._types[factor]
        at = np.minimum(np.searchsorted(known, types), known.size - 1)
        has = known[at] == types
        return np.where(has, theirs[at], values), has


def _distinct(values: Int64) -> list[int]:
    """Return the distinct values, increasing; nearly always there is one."""
    low, high = int(values.min()), int(values.max())
    found: list[int] = [low] if low == high else np.unique(values).tolist()
    return found


def _edge_populations(file: Any, path: Path, types: Types) -> Iterator[tuple[str, EdgePopulation]]:
    check_version(file, path)
    if "edges" not in file and "nodes" in file:
        raise BadInputError(f"{path}: holds nodes but no edges; give an edges file or a config")
    if "edges" not in file:
        raise BadInputError(
            f"{path}: no group /edges: not a SONATA edges file; for a NIR graph give --format nir"
        )
    edges = hdf5.group(file, "edges", path)
    for name in hdf5.groups(edges):
        yield name, EdgePopulation(edges[name], path, types)


def _named(name: str | None, populations: Populations, end: str, where: str) -> str:
    """Return the node population of one end of an edge population."""
    if name is None and len(populations.counts) == 1:
        return next(iter(populations.counts))
    if name is None:
        raise BadInputError(f"{where}/{end}_node_id has no attribute node_population")
    if name not in populations.counts:
        raise BadInputError(
            f"{where}/{end}_node_id refers to population {name!r}, which no nodes file has "
            f"({', '.join(map(repr, populations.counts))})"
        )
    return name


def guess_nodes(edges: list[EdgesFile]) -> Populations:
    """Infer populations without a nodes file: their size is the largest id + 1."""
    counts: dict[str, int] = {}
    for given in edges:
        with hdf5.opened(given.path) as file:
            for _, edge in _edge_populations(file, given.path, {}):
                for name, largest in zip(edge.populations(), edge.largest(), strict=True):
                    own = "nodes" if name is None else name
                    counts[own] = max(counts.get(own, 0), largest + 1)
    return Populations(dict(sorted(counts.items())))


def load(job: ImportJob, nodes: Path | None = None, traffic: str | None = None) -> NetworkMeta:
    """Convert a SONATA circuit, given by its edges file or configuration, to a directed network.

    nodes : nodes file, see `sonataconfig.find_circuit`
    traffic : `UNIFORM` or `WEIGHTS` of `storage.store.traffic`; None: as declared by the edges,
        default `UNIFORM`
    Raises `BadInputError` with file, data set and row of the first fault.
    """
    hdf5.library(job.source)
    circuit = find_circuit(job.source, nodes)
    populations = read_nodes(circuit.nodes) if circuit.nodes else guess_nodes(circuit.edges)
    if not 0 < populations.total <= MAX_VERTICES:
        raise BadInputError(
            f"{job.source}: {populations.total} nodes; a network needs 1 to {MAX_VERTICES} neurons"
        )
    if traffic is None:
        traffic = UNIFORM
        if _are_traffic(circuit.edges):
            traffic, job = WEIGHTS, job._replace(weights=RATE_WEIGHTS)
    counts = list(populations.counts.values())
    with job.writer(populations.total, weights_are_rates=traffic == UNIFORM) as writer:
        edges = _Edges(job, writer, populations, weighted=traffic == WEIGHTS)
        for place, file in enumerate(circuit.edges):
            edges.add_file(file, place, len(circuit.edges))
        labels = np.repeat(np.arange(len(counts)), counts)
        writer.set_attribute(POPULATION, labels, list(populations.counts))
        for name, (values, texts) in read_attributes(circuit.nodes, populations.counts).items():
            writer.set_attribute(name, values, texts)
        if traffic == UNIFORM:
            writer.set_attribute(RATE, np.ones(populations.total, np.int64))
        provenance = {
            "format": "sonata",
            "source": job.source.name,
            "node_populations": populations.counts,
            "edge_populations": edges.read,
            WEIGHTS_MISSING: edges.missing,
            **(uniform() if traffic == UNIFORM else from_weights()),
            WEIGHTS_NEGATIVE: edges.magnitudes.negative,
        }
        return writer.finish(provenance)


def _are_traffic(edges: list[EdgesFile]) -> bool:
    """Return whether all edges declare their weights as traffic."""
    found = []
    for given in edges:
        with hdf5.opened(given.path) as file:
            found += [edge.is_traffic for _, edge in _edge_populations(file, given.path, {})]
    return bool(found) and all(found)


class _Edges:
    """Adds the edges of files to a network.

    read : edges of each population; missing : edges without a weight
    """

    def __init__(
        self, job: ImportJob, writer: NetworkWriter, populations: Populations, weighted: bool
    ) -> None:
        """weighted : whether edges carry the magnitude of their weight, or 1 each"""
        self._job, self._writer, self._weighted = job, writer, weighted
        self._populations = populations
        self.read: dict[str, int] = {}
        self.missing = 0
        self.magnitudes = Magnitudes(job.keeps_weights)

    def add_file(self, edges: EdgesFile, place: int, files: int) -> None:
        """Add the edges of file number `place`, from 0, of `files`."""
        populations, types = self._populations, read_types(edges.types)
        with hdf5.opened(edges.path) as file:
            found = list(_edge_populations(file, edges.path, types))
            total, done = max(1, sum(edge.size for _, edge in found)), 0
            for name, edge in found:
                where = f"{edges.path}: /edges/{name}"
                onto = [
                    _named(own, populations, end, where)
                    for own, end in zip(edge.populations(), ("source", "target"), strict=True)
                ]
                starts = [populations.first(own) for own in onto]
                sizes = [populations.counts[own] for own in onto]
                for source, target, weight in edge.blocks(sizes[0], sizes[1]):
                    carried = self.magnitudes.of(weight)
                    ends = source + starts[0], target + starts[1]
                    kept = self._weighted or self._job.keeps_weights
                    self._writer.add(*ends, carried if kept else None)
                    done += source.size
                    self._job.progress((place + done / total) / files)
                self.read[name] = self.read.get(name, 0) + edge.size
            self.missing += sum(edge.missing for _, edge in found)
