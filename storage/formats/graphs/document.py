"""A graph that a parser reads node by node and edge by edge, written as a network."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from storage.closing import Closing
from storage.errors import BadInputError
from storage.formats.base import ImportJob
from storage.formats.compact import EdgeSpool
from storage.formats.edgebuffer import EdgeBuffer
from storage.formats.graphs.nodes import Nodes, Where
from storage.formats.losses import ASSUMED
from storage.formats.weightkeys import WeightKeys
from storage.store.meta import NetworkMeta


class GraphDocument(Closing):
    """Nodes and edges of a file; neurons are in the order in which the nodes appear.

    nodes : the nodes; by_label : see `Nodes`
    weights : chooses the weights among the data of edges
    """

    def __init__(self, job: ImportJob, weights: WeightKeys, *, by_label: bool = False) -> None:
        self._job = job
        self.nodes = Nodes(job.source, job.memory, by_label=by_label)
        self._weights = weights
        self._spool = EdgeSpool(job, self.nodes)
        self._edges = EdgeBuffer(self._spool)

    def edge(
        self, ends: tuple[str, str], data: Mapping[str, Any], where: Where, *, both: bool = False
    ) -> None:
        """Add an edge; both : also in the other direction."""
        source, target = (self.nodes.end(end, where) for end in ends)
        try:
            weight = self._weights.weight(data)
        except ValueError as error:
            raise BadInputError(f"{where()}: an edge {error}; repair it") from error
        if weight != weight:
            self._weights.missing += 1
            weight = 1.0
        self._edges.add(source, target, weight)
        if both:
            self._edges.add(target, source, weight)

    def note_progress(self, fraction: float) -> None:
        """Report progress; raise `MemoryShortError` if the nodes exceed their memory."""
        self.nodes.require_memory(fraction)
        self._job.progress(fraction)

    def write(self, format: str, undirected: bool, assumed: str | None = None) -> NetworkMeta:
        """Write the network; assumed : a note on facts that the file does not state."""
        self._edges.flush()
        self.nodes.require_declared()
        said = {} if assumed is None else {ASSUMED: assumed}
        return self._spool.write(
            {"format": format, **self._weights.facts("source", "target"), **said},
            undirected=undirected,
            attributes=self.nodes.attributes(),
        )

    def close(self) -> None:
        self._spool.close()
