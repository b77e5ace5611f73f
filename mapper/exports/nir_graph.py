"""Mappings as NIR graphs (Pedersen et al., Nature Communications 15, 2024). Needs nir.

Where the graph is given that the network came from, `nir_cores` adds the cores to it. Else one is
made. It is flat: between ``input_5`` and ``output_5`` a node ``core_5`` of type IF for the neurons
of core 5, and a node ``weights_3_to_5`` of type Linear for the synapses from core 3 to core 5, of
shape (neurons of 5, neurons of 3). The metadata of a core's node has `core`, `x`, `y` and
`neurons`, the ids in the network; if it has them also `ids` of the file that it came from, and
`sizes`.

NIR knows dense weights only, so that large networks are refused; a synapse of weight 0 is none.
The network does not say what comes in and goes out: every core has an input and an output for all
of its neurons. Rates have no place in the graph.
"""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mapper.errors import MapperError, UsageError
from mapper.exports import nir_cores
from mapper.exports.base import MappedRun
from mapper.exports.synaptic import synaptic_weights
from storage.extras import require
from storage.files import write_file

MAX_WEIGHTS = 1 << 25
"""Numbers in all matrices of a graph, 256 MiB."""


def save(run: MappedRun, destination: Path, options: dict[str, Any]) -> dict[str, Any]:
    """Write the graph.

    options : graph, the NIR file that the network came from; or threshold of all neurons, which
        the network does not have, and magnitudes, see `synaptic_weights`
    """
    if "graph" in options:
        if "threshold" in options:
            raise UsageError("--graph has its own thresholds; leave out --threshold")
        if "magnitudes" in options:
            raise UsageError("--graph has its own weights; leave out --magnitudes")
        return nir_cores.save(run, destination, options["graph"])
    nir = require("nir", "nir", destination, "NIR graphs")
    if "threshold" not in options:
        raise UsageError(
            f"{destination}: a NIR graph needs --graph FILE, the one that the network came from, "
            "or the --threshold of all neurons"
        )
    run.require_whole("a NIR graph")
    synaptic = synaptic_weights(run.network, bool(options.get("magnitudes")))
    order, ends = run.by_core()
    width = run.chip.width
    table = run.columns()
    extras = {f"{name}s": table[name] for name in ("id", "size") if name in table}
    nodes: dict[str, Any] = {}
    edges: list[tuple[str, str]] = []
    cores = 0
    for core in np.flatnonzero(np.diff(ends)).tolist():
        neurons = order[ends[core] : ends[core + 1]]
        about = {"core": core, "x": core % width, "y": core // width, "neurons": neurons}
        about |= {name: values[neurons] for name, values in extras.items()}
        nodes[f"core_{core}"] = nir.IF(
            r=np.ones(neurons.size),
            v_threshold=np.full(neurons.size, float(options["threshold"])),
            metadata=about,
        )
        size = np.array([neurons.size])
        nodes[f"input_{core}"] = nir.Input({"input": size})
        nodes[f"output_{core}"] = nir.Output({"output": size})
        edges += [(f"input_{core}", f"core_{core}"), (f"core_{core}", f"output_{core}")]
        cores += 1
    matrices = 0
    for source, target, weight in _matrices(run, order, ends):
        name = f"weights_{source}_to_{target}"
        nodes[name] = nir.Linear(weight=weight)
        edges += [(f"core_{source}", name), (name, f"core_{target}")]
        matrices += 1
    buffer = io.BytesIO()
    about = {"chip": run.chip.name, "width": width, "height": run.chip.height}
    about |= {"weights": "; ".join(synaptic.texts)}
    nir.write(buffer, nir.NIRGraph(nodes, edges, metadata=about))
    write_file(destination, buffer.getvalue())
    found = {"neurons": run.core.size, "cores": cores, "matrices": matrices}
    return found | {"weights": synaptic.weights, "losses": list(synaptic.losses)}


def _matrices(
    run: MappedRun, order: NDArray[np.int64], ends: NDArray[np.int64]
) -> list[tuple[int, int, NDArray[np.float64]]]:
    """Source core, target core and dense weights in real units of all pairs with synapses."""
    network, cores = run.network, run.chip.cores
    too_large = (
        f"{run.folder}: the weights between cores fill more than {MAX_WEIGHTS} numbers, since NIR "
        "has only dense matrices; name the graph that the network came from by --graph, or "
        "export to csv or npz"
    )
    if network.connections > 2 * MAX_WEIGHTS:  # every one of them takes a number
        raise MapperError(too_large)
    local = np.empty(order.size, np.int64)
    local[order] = np.arange(order.size) - ends[run.core[order]]
    sources, targets, weights = [], [], []
    for index in range(network.block_count):
        indptr, ids, weight = network.read_outgoing(index)
        first, end = network.block_bounds(index)
        sources.append(np.repeat(np.arange(first, end), np.diff(indptr)))
        targets.append(ids.astype(np.int64))
        weights.append(weight * network.meta.weight_unit)
    source, target = np.concatenate(sources), np.concatenate(targets)
    weight = np.concatenate(weights)
    pair = run.core[source].astype(np.int64) * cores + run.core[target]
    by_pair = np.argsort(pair, kind="stable")
    pairs, begins = np.unique(pair[by_pair], return_index=True)
    count = np.diff(ends)
    if (count[pairs // cores] * count[pairs % cores]).sum() > MAX_WEIGHTS:
        raise MapperError(too_large)
    found = []
    for one, at in zip(
        pairs.tolist(), np.split(by_pair, begins[1:]) if pairs.size else [], strict=True
    ):
        s, t = divmod(one, cores)
        matrix = np.zeros((count[t], count[s]))
        matrix[local[target[at]], local[source[at]]] = weight[at]
        found.append((s, t, matrix))
    return found
