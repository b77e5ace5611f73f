"""ONNX models of feed-forward networks (.onnx). Needs onnx (extra `onnx`).

Neurons are the elements of the input tensors, and of the outputs of nodes that combine several
elements: convolutions, matrix products, poolings, reductions, and sums (or products, maxima and so
on) of several tensors. Ids run through the inputs and then through these nodes in the order of the
file, row-major within each; the attribute `population` names the node of a neuron. A batch is one
sample; a model for several independent samples is refused.

All other nodes create no neurons. Activations, including Softmax and normalisations, quantisation,
and sums and products with constants belong to the preceding neurons. Reshape, Transpose, Concat,
Slice and similar nodes only rearrange elements. Nodes that select or name a class (ArgMax, ZipMap,
...) are dropped and listed in the provenance.

The weight of a synapse is the weight in the layer, times a directly following BatchNormalization or
constant factor; weights of quantised layers are dequantised first. In maxima and sums it is 1, in
averages 1 over the number of inputs. Zero weights create no synapses and are counted as
`weights_zero` of the provenance, negative ones as `weights_negative`; biases are dropped. By
default each neuron gets a `rate` of 1, and so does each of its synapses; on request the traffic of
a synapse is the magnitude of its weight, and neurons have no rates (`traffic`).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from storage.errors import BadInputError, MemoryShortError, with_place
from storage.formats.base import ImportJob
from storage.formats.layers.linear import SynapseWriter, row_blocks
from storage.formats.layers.onnxbatch import Samples
from storage.formats.layers.onnxbuild import Builder
from storage.formats.layers.onnxgraph import Model
from storage.formats.layers.onnxops import OPERATORS
from storage.store.meta import NetworkMeta
from storage.store.network import POPULATION
from storage.store.traffic import UNIFORM
from storage.store.writer import NetworkWriter


def _write(builder: Builder, writer: NetworkWriter, job: ImportJob, traffic: str) -> dict[str, Any]:
    """Write all synapses and the rates; return the result of `SynapseWriter.finish`."""
    synapses, samples = SynapseWriter(writer, traffic), Samples(builder)
    total = sum(join.layer.outputs for join in builder.joins)
    done = 0
    for join in builder.joins:
        population = builder.populations[join.population]
        for wanted in row_blocks(join.layer.outputs, join.layer.fan_in):
            rows, targets = join.layer.rows(wanted), join.targets[wanted]
            if population.gain is not None:
                gain = population.gain[targets - population.first]
                rows.data *= np.repeat(gain, np.diff(rows.indptr))
            if not np.isfinite(rows.data).all():
                raise BadInputError(f"node {population.name!r} has weights that are not finite")
            synapses.add(rows, join.sources, targets)
            samples.add(rows, join.sources, targets)
            done += wanted.size
            job.progress(done / total)
    samples.check()
    return synapses.finish()


def load(job: ImportJob, traffic: str | None = None) -> NetworkMeta:
    """Convert an ONNX model to a directed network file.

    traffic : `UNIFORM` (also if None) or `WEIGHTS` of `storage.store.traffic`
    The model and the ids of its tensors are in memory, synapses are processed in blocks.
    Raises `BadInputError` that names the node, and its operator if it is not supported.
    """
    traffic = traffic or UNIFORM
    try:
        builder = Builder(Model(job.source, memory=job.memory), OPERATORS, job.memory)
        if not builder.neurons:
            raise BadInputError("no neurons: the graph has no inputs")
        provenance: dict[str, Any] = {"format": "onnx", "source": job.source.name}
        with job.writer(builder.neurons, weights_are_rates=traffic == UNIFORM) as writer:
            provenance |= _write(builder, writer, job, traffic)
            if builder.left_out:
                provenance["nodes_left_out"] = builder.left_out
            sizes = [population.size for population in builder.populations]
            labels = [population.name for population in builder.populations]
            writer.set_attribute(POPULATION, np.repeat(np.arange(len(sizes)), sizes), labels)
            return writer.finish(provenance)
    except (BadInputError, MemoryShortError) as error:
        if str(job.source) in str(error):
            raise
        raise with_place(str(job.source), error) from error
