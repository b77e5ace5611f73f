"""Conversion of networks and mappings to networks and tables of the hardware's cores.

A network file with synaptic weights is converted to the integers of cores, with its neuron
parameters, or with parameters that the caller gives for all (`core_network`). A file without has
only the traffic: sources, targets and rates; its numbers are used as weights unless they are known
to be something else (`mapper.exports.synaptic`).
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from chipsim.chip.presets import from_fields
from hw.core.network import SpikingNetwork
from hw.core.shape import CoreShape
from hw.errors import HwError
from hw.tables import ChipTables, make_tables
from mapper.errors import MapperError, UsageError
from mapper.exports.core_numbers import CoreNumbers, core_numbers
from mapper.exports.model import SUBTRACT, read_model
from mapper.exports.synaptic import synaptic_weights
from mapper.results.mapping_file import load_mapping, load_relays, mapping_in
from mapper.results.output import read_report
from storage.store.network import NetworkFile


def core_network(network: NetworkFile, shape: CoreShape, options: dict[str, Any]) -> CoreNumbers:
    """Return a network as computed by cores of a shape, with the losses of the conversion.

    options : threshold, leak and bias of all neurons, replacing the network's; tick_length and
        reset, see `read_model`; quantise, whether numbers may be rounded; magnitudes, see
        `synaptic_weights`

    Raises `UsageError` for missing or unsuitable options, `MapperError` if the network has no
    synaptic weights or cores cannot compute it, `HwError` for wrong parameters.
    """
    quantise = bool(options.get("quantise"))
    if network.meta.synaptic is not None:
        synaptic = synaptic_weights(network, bool(options.get("magnitudes")))
        model = read_model(network, options)
        found = core_numbers(model, shape, quantise, str(network.path))
        return replace(found, losses=(*synaptic.losses, *found.losses))
    if "threshold" not in options:
        raise UsageError(f"{network.path}: has no neuron thresholds; add --threshold")
    for name in ("tick_length", "quantise"):
        if options.get(name) is not None:
            raise UsageError(
                f"{network.path}: --{name.replace('_', '-')} is for networks with synaptic "
                "weights; leave it out"
            )
    magnitudes = bool(options.get("magnitudes"))
    neuron = {"threshold": options["threshold"], "potential_bias": options.get("bias", 0)}
    if (leak := options.get("leak")) is not None:
        if leak > shape.decay_bits:
            raise UsageError(f"--leak {leak}: cores of {shape.decay_bits}-bit decays have leaks of "
                             f"0 to {shape.decay_bits}")  # fmt: skip
        neuron["potential_decay"] = shape.unity - (shape.unity >> leak)
    if options.get("reset") == SUBTRACT:
        neuron["subtract"] = 1
    spiking = read_spiking(network.path, magnitudes=magnitudes, **neuron)
    losses = synaptic_weights(network, magnitudes).losses
    none = np.zeros(network.vertices, np.int64)
    return CoreNumbers(spiking, none, none > 0, losses)


def read_spiking(
    path: Path, threshold: Any, *, magnitudes: bool = False, **parameters: Any
) -> SpikingNetwork:
    """Read a network file without synaptic weights for the hardware, using its numbers as weights.

    threshold, parameters : fields of `SpikingNetwork` that the file does not have
    magnitudes : use the file's weights even if they are known not to be synaptic weights

    Raises `MapperError` if they are known not to be and magnitudes is false, or if they are not
    integers; `HwError` for wrong parameters.
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
    """Return the tables of the cores that a network was mapped to, for `hw.chip.ChipDesign`.

    folder : output folder of `mapper run`
    shape : of the chip's cores, with the coordinates of its mesh (`hw.chip.chip_shape`)

    Raises `MapperError` if the mapping belongs to another network or splits neurons, or if the
    tables exceed a memory, with the names of memory and core.
    """
    report = read_report(folder)
    chip = from_fields(report["chip"], f"{folder}: chip of the report")
    path = mapping_in(folder)
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
