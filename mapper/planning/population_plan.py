"""Memory plan of the stage that measures the traffic of populations."""

from __future__ import annotations

from mapper.planning.core_limits import CoreLimits
from storage.store.network import NetworkFile
from storage.store.populations import KINDS, has_populations

STAGE = "populations"
NEURON_BYTES = 28  # per neuron: cores, populations, slices, and numbering them
SLICE_BYTES = 64  # per slice, the neurons of a population in a core, and thread
PAIR_BYTES = 8  # per pair of slices with traffic
HELD_PAIRS = 1 << 24  # pairs of slices; sums of more are in files
ROUTES_BYTES = 48 << 20  # routes of population pairs, and the strongest pairs of links
LAYERS = 64  # assumed number of layers without names


def population_stage(
    network: NetworkFile, parts: int, chip: CoreLimits, threads: int, base: int
) -> dict[str, int]:
    """Return the bytes of the stage, by its name; empty without populations.

    parts : most cores in use; base : bytes before the stage
    """
    if not has_populations(network):
        return {}
    attributes = network.meta.attributes
    labels = next(attributes[name].labels for name in KINDS if name in attributes)
    count = LAYERS if labels is None else len(labels)
    slices = min(network.vertices, parts * count)
    pairs = min(network.connections // 2, slices * slices, HELD_PAIRS)
    need = NEURON_BYTES * network.vertices + SLICE_BYTES * slices * threads + PAIR_BYTES * pairs
    need += 24 * chip.cores * threads + ROUTES_BYTES
    return {STAGE: base + need}
