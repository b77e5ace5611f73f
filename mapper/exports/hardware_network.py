"""Between the files of `mapper` and the hardware: networks, mappings, and tables for the cores.

A network file holds what mapping needs: who spikes at whom, and how often. Thresholds, leaks and
signs of weights are no part of it, so they come from the caller. Networks whose weights are known
to be others than those of their synapses are refused (`mapper.exports.synaptic`).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from chipsim.chip.presets import from_fields
from hw.core.network import SpikingNetwork
from hw.core.shape import CoreShape
from hw.errors import HwError
from hw.tables import ChipTables, make_tables
from mapper.errors import MapperError
from mapper.exports.synaptic import synaptic_weights
from mapper.results.mapping_file import load_mapping, load_relays
from mapper.results.output import MAPPING, read_report
from storage.store.network import NetworkFile


def read_spiking(
    path: Path, threshold: Any, *, magnitudes: bool = False, **parameters: Any
) -> SpikingNetwork:
    """A network file as a network for the hardware: its weights are the weights of the synapses.

    threshold, parameters : fields of `SpikingNetwork` that the file does not have
    magnitudes : take the file's weights although they are known not to be those of synapses

    Raises `MapperError` where they are, or no whole numbers; `HwError` for wrong parameters.
    """
    with NetworkFile(path) as network:
        synaptic_weights(network, magnitudes)
        if network.meta.weight_unit != 1:
            raise MapperError(
                f"{path}: weights are multiples of {network.meta.weight_unit:g}; cores compute "
                "with whole numbers, import the network with such weights"
            )
        sources, targets, weights = [], [], []
        for index in range(network.block_count):
            indptr, ids, weight = network.read_outgoing(index)
            first, end = network.block_bounds(index)
            sources.append(np.repeat(np.arange(first, end), np.diff(indptr)))
            targets.append(ids.astype(np.int64))
            weights.append(weight)
        source, target, strength = map(np.concatenate, (sources, targets, weights))
        return SpikingNetwork(
            network.vertices, source, target, strength, threshold=threshold, **parameters
        )


def tables_of(folder: Path, network: SpikingNetwork, shape: CoreShape) -> ChipTables:
    """Tables for the cores of the chip that a network was mapped to, for `hw.chip.Chip`.

    folder : output folder of `mapper run`
    shape : of the chip's cores, with the coordinates of its mesh (`hw.chip.chip_shape`)

    Raises `MapperError` if the mapping is of another network or split neurons, and one that names
    the memory and the core if they do not fit.
    """
    report = read_report(folder)
    chip = from_fields(report["chip"], f"{folder}: chip of the report")
    path = folder / MAPPING
    core = load_mapping(path, network.neurons, chip)
    if load_relays(path, chip, network.neurons, network.source.size) is not None:
        raise MapperError(
            f"{path}: has relay neurons for neurons with many synapses, which spike a tick late; "
            "map the network without splitting neurons"
        )
    try:
        return make_tables(network, core, chip.width, chip.height, shape)
    except HwError as error:
        raise MapperError(f"{folder}: {error}") from error
