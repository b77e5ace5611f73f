"""Mappings as NIR graphs (Pedersen et al., Nature Communications 15, 2024). Needs nir.

If the source graph of the network is given, the cores are added to it. Otherwise a flat
graph is built: between ``input_5`` and ``output_5`` a node ``core_5`` for the neurons of core 5,
and a node ``weights_3_to_5`` of type Linear for the synapses from core 3 to core 5, of shape
(neurons of 5, neurons of 3). The metadata of a core's node has `core`, `x`, `y` and `neurons`, the
ids in the network; if the network has them also `ids` of its source file, and `sizes`.

For a network with a neuron model, each core has one node per kind of neurons, named as
``core_5_LIF`` if there are several, with their parameters, and biases in an Affine that leads to
it; inputs and outputs are the model's. Otherwise all nodes are of type IF, and every core has an
input and an output for all of its neurons, since the network does not define them.

NIR has only dense weights, so large networks are refused, and synapses of weight 0 are lost. Rates
are not represented.
"""

from __future__ import annotations

import io
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mapper.errors import MapperError, UsageError
from mapper.exports.base import MappedRun
from mapper.exports.synaptic import synaptic_weights
from storage.extras import require
from storage.files import PartialFile, write_file
from storage.formats.hdf5 import file as hdf5
from storage.formats.hdf5.nirfile import Population, read_populations
from storage.formats.losses import Loss
from storage.store.network import POPULATION, NetworkFile
from storage.store.neurons import read_neurons

COPIED_BYTES = 1 << 22
"""Bytes copied at a time."""
_PARAMETERS = {
    "CubaLI": ("tau_syn", "tau_mem", "r", "v_leak", "w_in"),
    "CubaLIF": ("tau_syn", "tau_mem", "r", "v_leak", "v_threshold", "v_reset", "w_in"),
    "I": ("r",),
    "IF": ("r", "v_threshold", "v_reset"),
    "LI": ("tau", "r", "v_leak"),
    "LIF": ("tau", "r", "v_leak", "v_threshold", "v_reset"),
    "Threshold": ("threshold",),
}
_STORED = {"tau_mem": "tau", "threshold": "v_threshold"}
_ENDS = ("Input", "Output")
MAX_WEIGHTS = 1 << 25
"""Limit of numbers in all matrices of a graph, 256 MiB."""


def save(run: MappedRun, destination: Path, options: dict[str, Any]) -> dict[str, Any]:
    """Write the graph.

    options : graph, the NIR source file of the network; or threshold of all neurons, which the
        network lacks, and magnitudes, see `synaptic_weights`
    """
    if "graph" in options:
        if "threshold" in options:
            raise UsageError("--graph has its own thresholds; leave out --threshold")
        if "magnitudes" in options:
            raise UsageError("--graph has its own weights; leave out --magnitudes")
        return _add_cores(run, destination, options["graph"])
    nir = require("nir", "nir", destination, "NIR graphs")
    modelled = "threshold" not in options and run.network.meta.synaptic is not None
    neurons = read_neurons(run.network) if modelled else None
    if neurons is None and "threshold" not in options:
        raise UsageError(
            f"{destination}: a NIR graph needs --graph FILE, the source of the network, "
            "or the --threshold of all neurons"
        )
    synaptic = synaptic_weights(run.network, bool(options.get("magnitudes")))
    run.require_whole("a NIR graph")
    if neurons is None:
        ones = np.ones(run.core.size)
        values = {"r": ones, "v_threshold": ones * float(options["threshold"])}
        groups = Groups(run, ["IF"], np.zeros(run.core.size, np.int64))
    else:
        values = neurons.parameters
        groups = Groups(run, neurons.kinds, neurons.kind)
    losses, nodes = list(synaptic.losses), groups.nodes(nir, values)
    edges = groups.ends(nir, nodes)
    biased = values.get("bias", np.zeros(run.core.size))
    matrices = 0
    for source, target, weight in _matrices(run, groups, *_synapses(run.network)):
        name = groups.matrix_name(source, target)
        bias = biased[groups.members(target)]
        nodes[name] = nir.Affine(weight=weight, bias=bias) if bias.any() else nir.Linear(weight)
        biased = np.where(groups.group == target, 0.0, biased)  # only once
        edges += [(groups.names[source], name), (name, groups.names[target])]
        matrices += 1
    alone = int(np.count_nonzero(biased))
    if alone:
        text = f"no biases without synapses: left out for {alone:,} neurons"
        losses.append(Loss("biases", alone, text))
    buffer = io.BytesIO()
    about = {"chip": run.chip.name, "width": run.chip.width, "height": run.chip.height}
    about |= {"weights": "; ".join(synaptic.lines(losses))}
    nir.write(buffer, nir.NIRGraph(nodes, edges, metadata=about))
    write_file(destination, buffer.getvalue())
    found = {"neurons": run.core.size, "cores": groups.cores, "matrices": matrices}
    return found | {"weights": synaptic.weights, "losses": losses}


def _synapses(network: NetworkFile) -> tuple[NDArray[Any], NDArray[Any], NDArray[np.float64]]:
    """Return source, target and weight of all synapses, in real units."""
    parts: list[tuple[NDArray[Any], ...]] = []
    for index in range(network.block_count):
        if network.meta.synaptic is not None:
            parts.append(network.read_synapses(index))
            continue
        indptr, ids, weight = network.read_outgoing(index)
        first, end = network.block_bounds(index)
        source = np.repeat(np.arange(first, end), np.diff(indptr))
        parts.append((source, ids.astype(np.int64), weight * network.meta.weight_unit))
    source, target, strength = (np.concatenate(column) for column in zip(*parts, strict=True))
    return source, target, strength


def _matrices(
    run: MappedRun,
    groups: Groups,
    source: NDArray[Any],
    target: NDArray[Any],
    weight: NDArray[np.float64],
) -> Iterator[tuple[int, int, NDArray[np.float64]]]:
    """Yield source group, target group and dense weights of all pairs of groups with synapses."""
    count = groups.count
    pair = groups.group[source] * count.size + groups.group[target]
    by_pair = np.argsort(pair, kind="stable")
    pairs, begins = np.unique(pair[by_pair], return_index=True)
    if (count[pairs // count.size] * count[pairs % count.size]).sum() > MAX_WEIGHTS:
        raise MapperError(
            f"{run.folder}: the weights between cores need more than {MAX_WEIGHTS} numbers, since "
            "NIR has only dense matrices; give the source graph of the network with --graph, "
            "or export to csv or npz"
        )
    for one, at in zip(
        pairs.tolist(), np.split(by_pair, begins[1:]) if pairs.size else [], strict=True
    ):
        s, t = divmod(one, count.size)
        matrix = np.zeros((count[t], count[s]))
        matrix[groups.local[target[at]], groups.local[source[at]]] = weight[at]
        yield s, t, matrix


def _add_cores(run: MappedRun, destination: Path, graph: Path) -> dict[str, Any]:
    """Write a copy of the file `graph` with the core of every neuron. Needs h5py.

    The graph is copied unchanged, with its convolutions, signs, parameters and metadata. The
    metadata of each population gets `core`, the core ids of its neurons, int32 in the shape of the
    population; the metadata of the graph gets `chip`, `width` and `height`.

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


class Groups:
    """The neurons of a mapping as NIR nodes: one group per core and kind, by core, then by kind.

    group, local : ndarray[int64], shape (neurons,), group of each neuron and its place in it
    count : ndarray[int64], shape (groups,), neurons per group
    names : of their nodes; cores : number of used cores
    """

    def __init__(self, run: MappedRun, kinds: list[str], kind: NDArray[np.int64]) -> None:
        self._run = run
        key = run.core.astype(np.int64) * len(kinds) + kind
        keys, self.group = np.unique(key, return_inverse=True)
        self._kinds = [kinds[one % len(kinds)] for one in keys.tolist()]
        self._cores = (keys // len(kinds)).tolist()
        self.count = np.bincount(self.group)
        self._order = np.argsort(self.group, kind="stable")
        self._ends = np.append(0, np.cumsum(self.count))
        self.local = np.empty(key.size, np.int64)
        self.local[self._order] = np.arange(key.size) - self._ends[self.group[self._order]]
        self.cores = len(set(self._cores))
        several = {core for core in self._cores if self._cores.count(core) > 1}
        self._labels = [
            f"{core}_{name}" if core in several else str(core)
            for core, name in zip(self._cores, self._kinds, strict=True)
        ]
        self.names = [f"core_{label}" for label in self._labels]

    def members(self, group: int) -> NDArray[np.int64]:
        """Return the neurons of a group, in order of their places."""
        return self._order[self._ends[group] : self._ends[group + 1]]

    def matrix_name(self, source: int, target: int) -> str:
        """Return the name of the node of the synapses between two groups."""
        return f"weights_{self._labels[source]}_to_{self._labels[target]}"

    def nodes(self, nir: Any, values: dict[str, NDArray[np.float64]]) -> dict[str, Any]:
        """Return the nodes of neurons; values : parameters by name, each of shape (neurons,)."""
        table, width = self._run.columns(), self._run.chip.width
        extras = {f"{name}s": table[name] for name in ("id", "size") if name in table}
        found = {}
        for group, (name, kind, core) in enumerate(
            zip(self.names, self._kinds, self._cores, strict=True)
        ):
            own = self.members(group)
            about = {"core": core, "x": core % width, "y": core // width, "neurons": own}
            about |= {name: column[own] for name, column in extras.items()}
            if kind in _ENDS:
                node = getattr(nir, kind)({kind.lower(): np.array([own.size])}, metadata=about)
            else:
                given = {
                    name: values[_STORED.get(name, name)][own]
                    for name in _PARAMETERS[kind]
                    if _STORED.get(name, name) in values
                }
                node = getattr(nir, kind)(**given, metadata=about)
            found[name] = node
        return found

    def ends(self, nir: Any, nodes: dict[str, Any]) -> list[tuple[str, str]]:
        """Add inputs and outputs; return their edges.

        Inputs are the model's if it has any; otherwise every group gets one. Every group except
        inputs and outputs of the model gets an output.
        """
        edges = []
        given = "Input" in self._kinds
        for group, (name, kind) in enumerate(zip(self.names, self._kinds, strict=True)):
            size = np.array([self.count[group]])
            if not given:
                nodes[f"input_{self._labels[group]}"] = nir.Input({"input": size})
                edges.append((f"input_{self._labels[group]}", name))
            if kind not in _ENDS:
                nodes[f"output_{self._labels[group]}"] = nir.Output({"output": size})
                edges.append((name, f"output_{self._labels[group]}"))
        return edges
