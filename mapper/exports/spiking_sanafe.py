"""Compiled spiking models for SANA-FE, as mappings are exported (`mapper.exports.sanafe`).

Neurons have the numbers of the model, and its inputs follow them as input units on cores with room,
from core 0 on. SANA-FE delivers a spike of an input one tick later than the host of the cores: all
neurons spike one tick later than in `mapper simulate`. SANA-FE's neurons cannot wait until inputs
reach them: they start at the potential from which their bias leads to the potential at that time.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hw.core.network import DYNAMICS, STATE, VALUES, SpikingNetwork
from hw.core.shape import CoreShape
from mapper.errors import DoesNotFitError
from mapper.exports.sanafe import (
    LONGEST_DELAY,
    SanafeNetwork,
    core_edges,
    input_units,
    machine_losses,
    write_sanafe,
)
from mapper.exports.sanafe_neurons import lif_neurons, neuron_lines, potential_bias
from mapper.spiking.artifacts.folder import SpikingFolder
from mapper.spiking.starts import LateNeurons, start_states
from storage.formats.losses import Loss

MOST_NEURONS = 1024
"""Neurons and inputs of a core, at most, in SANA-FE's models."""


def save_sanafe(folder: SpikingFolder, destination: Path) -> dict[str, Any]:
    """Write network, mapping and architecture; return facts for the user.

    Raises `DoesNotFitError` if the inputs do not fit next to the neurons.
    """
    integers, chip = folder.integers, folder.chip
    network = integers.network
    started, early = _started(network, integers.shape)
    whole = _with_inputs(started)
    inputs = np.arange(whole.neurons) >= network.neurons
    core = np.concatenate([folder.core, _input_cores(folder)])
    neurons, losses = lif_neurons(whole, integers.shape)
    losses += [*_losses(network, early), *machine_losses(chip)]
    unit = input_units(core, inputs)
    delays = bool((network.delay > 0).any())
    written = SanafeNetwork(
        "", neuron_lines(neurons, unit), core_edges(whole), int(unit.max(initial=-1)) + 1, delays
    )
    roomy = replace(chip, neurons=max(chip.neurons, int(np.bincount(core).max())))
    lines = [f"has {loss.text}" for loss in losses]
    lines.append("Inputs follow the neurons; neurons spike one tick later than in mapper simulate")
    return write_sanafe(destination, roomy, core, written, lines) | {"losses": losses}


def _with_inputs(network: SpikingNetwork) -> SpikingNetwork:
    """Return the network with its inputs as silent neurons."""
    more = network.inputs
    given: dict[str, Any] = {
        name: np.concatenate([getattr(network, name), np.zeros(more, np.int64)])
        for name in (*DYNAMICS, *VALUES, *STATE)
    }
    given["silent"][network.neurons :] = 1
    return SpikingNetwork(
        network.neurons + more, network.source, network.target, network.weight,
        delay=network.delay, **given,
    )  # fmt: skip


def _input_cores(folder: SpikingFolder) -> NDArray[np.int64]:
    """Return a core with room for each input, shape (inputs,)."""
    chip, inputs = folder.chip, folder.integers.network.inputs
    room = MOST_NEURONS - np.bincount(folder.core, minlength=chip.cores)
    free = np.repeat(np.arange(chip.cores), np.where(chip.usable, room, 0))
    if free.size < inputs:
        raise DoesNotFitError(
            f"{folder.path}: {inputs:,} inputs do not fit next to the neurons: cores of SANA-FE "
            f"have at most {MOST_NEURONS:,} of both; compile for a chip with more cores"
        )
    return free[:inputs]


def _started(network: SpikingNetwork, shape: CoreShape) -> tuple[SpikingNetwork, int]:
    """Return the network with potentials a tick before the first, and how many start otherwise."""
    bias, kept = potential_bias(network, shape), network.dynamics(shape)[:, 1]
    origin = np.where(network.waits > 0, network.reset, network.potential)
    none = np.zeros_like(bias)
    late = LateNeurons(
        network.waits + 1, none, kept, none, bias, network.threshold, origin + 1, origin
    )
    start = start_states(late, shape)
    potential = np.where(start.misses, origin, start.potential)
    return replace(network, potential=potential), int(start.misses.sum())


def _losses(network: SpikingNetwork, early: int) -> list[Loss]:
    """Return delays and starts that SANA-FE does not have; early : neurons with another start."""
    late = int((network.delay > LONGEST_DELAY).sum())
    losses = [
        Loss("delays", late, f"no delays above {LONGEST_DELAY} ticks: {late:,} synapses act "
             f"after {LONGEST_DELAY}"),
        Loss("starts", early, f"no waiting neurons: {early:,} that start late begin at once"),
    ]  # fmt: skip
    return [loss for loss in losses if loss.count]
