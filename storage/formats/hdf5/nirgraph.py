"""Nodes and edges of a NIR file, with nested graphs flattened, and the order of their ids.

A file is HDF5: the text `version`, and the group `node`, a graph. A graph is a group of the
`type` NIRGraph, with `nodes`, a group of nodes by name, and `edges`, pairs of names. A node may be
a nested graph; its nodes are then named graph/node here, edges to it lead to its Input and edges
from it come from its Output.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass, field
from graphlib import CycleError, TopologicalSorter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from storage.errors import BadInputError
from storage.formats.hdf5.file import require_content

DEEPEST = 32  # nesting limit; an HDF5 group can contain itself
POPULATIONS = {  # parameters of each kind of neuron
    "CubaLI": ("tau_syn", "tau_mem", "r", "v_leak"),
    "CubaLIF": ("tau_syn", "tau_mem", "r", "v_leak", "v_threshold"),
    "I": ("r",),
    "IF": ("r", "v_threshold"),
    "LI": ("tau", "r", "v_leak"),
    "LIF": ("tau", "r", "v_leak", "v_threshold"),
    "Threshold": ("threshold",),
}
WEIGHED = ("Affine", "AvgPool2d", "Conv1d", "Conv2d", "Linear", "SumPool2d")
PASSING = ("Delay", "Flatten", "Identity", "Scale")
KINDS = (*POPULATIONS, *WEIGHED, *PASSING, "Input", "Output")


@dataclass(slots=True)
class NirNode:
    """A node of the graph.

    kind : its `type`; "Identity" for the Input and Output of a nested graph
    group : the HDF5 group with its parameters
    neurons : whether its elements are neurons
    memory : bytes for a parameter; None: no limit
    before, stop : numbers of the predecessors and of the successors
    """

    name: str
    kind: str
    group: Any
    neurons: bool = False
    memory: int | None = None
    before: list[int] = field(default_factory=list)
    stop: list[int] = field(default_factory=list)

    def has(self, name: str) -> bool:
        """Return whether there is a parameter of that name."""
        return name in self.group

    def dataset(self, name: str) -> Any:
        """Return a parameter as HDF5 dataset, unread; raise `BadInputError` if missing."""
        found = self.group.get(name)
        if found is None or not hasattr(found, "shape"):
            raise self.fault(f"dataset {name} is missing")
        require_content(found, f"node {self.name!r} ({self.kind}): dataset {name}", self.memory)
        return found

    def array(self, name: str) -> NDArray[Any]:
        """Return a parameter as array; raise `BadInputError` if missing or not numeric."""
        dataset = self.dataset(name)
        if dataset.dtype.kind not in "biuf":
            raise self.fault(f"dataset {name} holds {dataset.dtype}; it must hold numbers")
        values = np.asarray(dataset[()])
        if not np.isfinite(values).all():
            raise self.fault(f"dataset {name} holds values that are not finite; repair it")
        return values

    def whole(self, name: str) -> list[int]:
        """Return a parameter as list of whole numbers."""
        values = np.atleast_1d(self.array(name)).ravel()
        if (values != np.floor(values)).any() or (np.abs(values.astype(np.float64)) > 2**53).any():
            raise self.fault(f"dataset {name} must hold whole numbers")
        return [int(value) for value in values]

    def shape(self, name: str) -> tuple[int, ...]:
        """Return a parameter as tensor shape; raise `BadInputError` if a size is below 1."""
        sizes = tuple(self.whole(name))
        if not sizes or min(sizes) < 1:
            raise self.fault(f"{name} is {sizes}; sizes of a shape must be at least 1")
        return sizes

    def fault(self, text: str) -> BadInputError:
        return BadInputError(f"node {self.name!r} ({self.kind}): {text}")


def read_graph(file: Any, memory: int | None = None) -> list[NirNode]:
    """Return all nodes of an open HDF5 file, in its order; raise `BadInputError` with the place.

    memory : bytes for each parameter of a node; None: no limit
    Parameters that are larger raise `MemoryShortError`.
    """
    version = _text(file.get("version"))
    if version is None:
        raise BadInputError("dataset version is missing; is this a NIR file?")
    if version.partition(".")[0] not in ("0", "1"):
        raise BadInputError(f"NIR version {version!r} is not supported; versions 0 and 1 are")
    root = file.get("node")
    if root is None:
        raise BadInputError("group node is missing; is this a NIR file?")
    nodes: list[NirNode] = []
    _collect(root, "", nodes)
    for node in nodes:
        node.memory = memory
    _require_known(nodes)
    for node in nodes:
        if not node.before and not node.neurons and node.stop:
            raise node.fault("nothing leads to it; connect an Input")
    for node in nodes:
        node.neurons = node.neurons or (node.kind == "Output" and _is_readout(nodes, node))
    if not any(node.neurons for node in nodes):
        raise BadInputError("no neurons: neither a population nor an Input")
    return nodes


def _require_known(nodes: Sequence[NirNode]) -> None:
    """Raise `BadInputError` naming all nodes of unknown types."""
    wrong = [node for node in nodes if node.kind not in KINDS]
    if not wrong:
        return
    if len(wrong) == 1:
        text = f"node {wrong[0].name!r}: type {wrong[0].kind!r} is not supported"
    else:
        named = ", ".join(f"{node.name!r} ({node.kind})" for node in wrong)
        text = f"nodes {named}: their types are not supported"
    raise BadInputError(f"{text}; use {', '.join(KINDS)}")


def _text(dataset: Any) -> str | None:
    """Return the content of a dataset that holds one text, or None."""
    if getattr(dataset, "shape", None) != () or not _holds_text(dataset.dtype):
        return None
    value = dataset[()]
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else None


def _holds_text(dtype: Any) -> bool:
    """Return whether a dtype is HDF5 text; h5py can crash when it reads damaged types."""
    about: Any = dtype.metadata or {}
    return dtype.kind == "S" or about.get("vlen") in (str, bytes)


def _collect(graph: Any, path: str, nodes: list[NirNode]) -> tuple[list[int], list[int]]:
    """Append the nodes of a graph; return the numbers of its Inputs and of its Outputs.

    path : "" for the outermost graph, else name of the graph and /
    """
    where = f"graph {path[:-1]!r}" if path else "the graph"
    if path.count("/") > DEEPEST:
        raise BadInputError(f"{where}: over {DEEPEST} nested graphs; does it contain itself?")
    kind = _text(graph.get("type")) if hasattr(graph, "items") else None
    if kind != "NIRGraph":
        raise BadInputError(f"{where}: type is {kind!r}; it must be a NIRGraph")
    members = graph.get("nodes")
    if members is None or not hasattr(members, "items"):
        raise BadInputError(f"{where}: group nodes is missing")
    entry: dict[str, list[int]] = {}  # targets of edges to each node of this graph
    leave: dict[str, list[int]] = {}
    ends: dict[str, list[int]] = {"Input": [], "Output": []}
    for name in members:
        group, full = members[name], path + name
        kind = _text(group.get("type")) if hasattr(group, "items") else None
        if kind is None:
            raise BadInputError(f"node {full!r}: dataset type is missing")
        if kind == "NIRGraph":
            entry[name], leave[name] = _collect(group, f"{full}/", nodes)
            continue
        if kind in ends:
            ends[kind].append(len(nodes))
            kind = "Identity" if path else kind
        entry[name] = leave[name] = [len(nodes)]
        nodes.append(NirNode(full, kind, group, kind in POPULATIONS or kind == "Input"))
    for a, b in _edges(graph.get("edges"), where):
        first = _end(leave, a, f"{where}, edge {a!r} -> {b!r}", "Output")
        second = _end(entry, b, f"{where}, edge {a!r} -> {b!r}", "Input")
        if second in nodes[first].stop:
            raise BadInputError(f"{where}: edge {a!r} -> {b!r} is a duplicate")
        nodes[first].stop.append(second)
        nodes[second].before.append(first)
    return ends["Input"], ends["Output"]


def _edges(dataset: Any, where: str) -> list[tuple[str, str]]:
    if not hasattr(dataset, "shape"):
        raise BadInputError(f"{where}: dataset edges is missing")
    if dataset.shape[:1] == (0,):
        return []
    if dataset.ndim != 2 or dataset.shape[1] != 2:
        raise BadInputError(f"{where}: edges has shape {dataset.shape}; it must be (edges, 2)")
    if not _holds_text(dataset.dtype):
        raise BadInputError(f"{where}: edges must hold names of nodes")
    require_content(dataset, f"{where}: edges")
    pairs = dataset[()].tolist()
    return [(a.decode("utf-8", "replace"), b.decode("utf-8", "replace")) for a, b in pairs]


def _end(table: dict[str, list[int]], name: str, where: str, kind: str) -> int:
    found = table.get(name)
    if found is None:
        raise BadInputError(f"{where}: no node is called {name!r}")
    if len(found) != 1:
        raise BadInputError(f"{where}: graph {name!r} has {len(found)} {kind} nodes; it needs one")
    return found[0]


def _is_readout(nodes: Sequence[NirNode], output: NirNode) -> bool:
    """Return whether weights connect the last neurons to an Output of the whole graph."""
    seen, waiting = set(output.before), list(output.before)
    while waiting:
        node = nodes[waiting.pop()]
        if node.kind in WEIGHED:
            return True
        if not node.neurons:
            waiting += [number for number in node.before if number not in seen]
            seen.update(node.before)
    return False


def visiting_order(nodes: Sequence[NirNode]) -> list[int]:
    """Return the numbers of all nodes in topological order.

    Among several candidates, the first in the file comes next. In a cycle there is no candidate:
    next is the first node in the file with a visited predecessor, or the first of all if none.
    """
    missing = [len(node.before) for node in nodes]
    ready = [number for number, count in enumerate(missing) if count == 0]
    reached: list[int] = []
    rest = iter(range(len(nodes)))
    done = [False] * len(nodes)
    order: list[int] = []
    while len(order) < len(nodes):
        if ready:
            number = heapq.heappop(ready)
        elif reached:
            number = heapq.heappop(reached)
        else:
            number = next(number for number in rest if not done[number])
        if done[number]:
            continue
        done[number] = True
        order.append(number)
        for other in nodes[number].stop:
            missing[other] -= 1
            heapq.heappush(ready if missing[other] == 0 else reached, other)
    return order


def connection_order(nodes: Sequence[NirNode]) -> list[int]:
    """Return the numbers of nodes without neurons in topological order.

    Raises `BadInputError` that names the nodes of a cycle of such nodes: a signal would pass
    through it infinitely often at the same time.
    """
    sorter: TopologicalSorter[int] = TopologicalSorter()
    for number, node in enumerate(nodes):
        if not node.neurons:
            sorter.add(number, *(other for other in node.before if not nodes[other].neurons))
    try:
        return list(sorter.static_order())
    except CycleError as error:
        names = " -> ".join(repr(nodes[number].name) for number in error.args[1])
        raise BadInputError(
            f"nodes {names} form a cycle without a population; put neurons into it"
        ) from error
