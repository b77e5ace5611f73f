"""Back end of networkx: `nx.community.kernighan_lin_bisection(graph, backend="mapper")`.

The package in packages/networkx registers it. networkx loads this module at the first call that
dispatches to it. The back end has the one partitioning function of networkx with the contract of
`mapper.partition`: two halves of equal size with a small cut.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

BISECTION = "kernighan_lin_bisection"
LEAST_NODES = 500
"""Nodes from which on networkx should choose this back end by itself: start and compilation of
kernels take longer than smaller graphs."""


@dataclass(frozen=True, eq=False)
class EdgeArrays:
    """A graph of networkx as arrays.

    nodes : its nodes, which the arrays index; weights : by the name of their attribute
    """

    nodes: Sequence[Any]
    source: NDArray[np.int64]
    target: NDArray[np.int64]
    weights: Mapping[str, NDArray[np.float64]]
    directed: bool
    multigraph: bool

    __networkx_backend__: ClassVar[str] = "mapper"

    def is_directed(self) -> bool:
        """Return whether edges have a direction."""
        return self.directed

    def is_multigraph(self) -> bool:
        """Return whether there may be several edges between two nodes."""
        return self.multigraph


class BackendInterface:
    """Functions that networkx calls; see its reference, "Backends"."""

    @staticmethod
    def convert_from_nx(
        graph: Any, *, edge_attrs: Mapping[str, Any] | None = None, **others: object
    ) -> EdgeArrays:
        """Return a graph as arrays. edge_attrs : attributes to read, with their defaults"""
        nodes = list(graph)
        number = {node: index for index, node in enumerate(nodes)}
        pairs = [(number[u], number[v]) for u, v in graph.edges()]
        ends = np.array(pairs, np.int64).reshape(-1, 2)
        weights = {}
        for name, default in (edge_attrs or {}).items():
            found = [value for _, _, value in graph.edges(data=name, default=default)]
            try:
                weights[name] = np.array(found, np.float64)
            except (TypeError, ValueError) as error:
                raise NotImplementedError(f"{name} has values that are not numbers") from error
        return EdgeArrays(
            nodes, ends[:, 0], ends[:, 1], weights, graph.is_directed(), graph.is_multigraph()
        )

    @staticmethod
    def convert_to_nx(result: Any, **others: object) -> Any:
        """Return a result, or a converted graph as a graph of networkx."""
        if not isinstance(result, EdgeArrays):
            return result
        import networkx

        kinds = (networkx.Graph, networkx.DiGraph, networkx.MultiGraph, networkx.MultiDiGraph)
        found = kinds[result.directed + 2 * result.multigraph]()
        found.add_nodes_from(result.nodes)
        rows = zip(result.source.tolist(), result.target.tolist(), strict=True)
        edges = [(result.nodes[u], result.nodes[v]) for u, v in rows]
        names = list(result.weights)
        columns = [result.weights[name].tolist() for name in names]
        values = list(zip(*columns, strict=True)) if names else [()] * len(edges)
        found.add_edges_from(
            (u, v, dict(zip(names, each, strict=True)))
            for (u, v), each in zip(edges, values, strict=True)
        )
        return found

    @staticmethod
    def can_run(name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool | str:
        """Return whether a call is supported, or the reason against it."""
        given = dict(zip(("graph", "partition", "max_iter", "weight"), args, strict=False))
        given |= kwargs
        if name != BISECTION:
            return f"mapper has only {BISECTION}"
        if given.get("partition") is not None:
            return "mapper does not start from a partition"
        return "mapper needs the name of an attribute" if callable(given.get("weight")) else True

    @staticmethod
    def should_run(name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool | str:
        """Return whether networkx should choose this back end without being asked for it."""
        graph = args[0] if args else kwargs.get("G")
        small = graph is not None and len(getattr(graph, "nodes", ())) < LEAST_NODES
        return f"graphs below {LEAST_NODES} nodes are faster in networkx" if small else True

    @staticmethod
    def kernighan_lin_bisection(
        graph: EdgeArrays,
        partition: Any = None,
        max_iter: int = 10,
        weight: str | Callable[..., Any] | None = "weight",
        seed: Any = None,
    ) -> tuple[set[Any], set[Any]]:
        """Return two sets of nodes whose sizes differ by at most one, with a small cut.

        seed : a `random.Random`; None: the same result in each call
        max_iter has no effect: the method of `mapper.partition` decides when to end.
        """
        if partition is not None or callable(weight):
            raise NotImplementedError("mapper neither starts from a partition nor calls weights")
        from mapper.api.partitioning import partition as divide

        count = len(graph.nodes)
        if count < 2:
            return set(), set(graph.nodes)
        edges = graph.source, graph.target
        weights = None if weight is None else graph.weights.get(weight)
        if weights is not None and (weights < 0).any():
            raise NotImplementedError("mapper has no negative weights")
        number = 0 if seed is None else seed.randrange(1 << 31)
        given = edges if weights is None else (*edges, weights)
        part = divide(given, 2, imbalance=0.0, vertices=count, seed=number).part
        halves: tuple[set[Any], set[Any]] = (set(), set())
        for node, half in zip(graph.nodes, part.tolist(), strict=True):
            halves[half].add(node)
        return halves
