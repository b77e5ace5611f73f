"""Run the cores of a compiled spiking model in Amaranth's simulator, and compare every tick."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from chipsim.chip.time import ChipTime
from chipsim.noc.mesh import Mesh
from chipsim.spiking.play import HostSpikes, SpikingRun
from chipsim.ticks.run import TickSimulator
from hw.chip import Borders, ChipDesign
from hw.run import ChipRun, ChipSimulator
from mapper.errors import CheckFailedError, DoesNotFitError
from mapper.inputs.chips import require_all_links
from mapper.monitoring.callbacks import OnFraction, ignore
from mapper.spiking.artifacts.cycles import DEPTH
from mapper.spiking.artifacts.folder import SpikingFolder
from mapper.spiking.simulate import InputSpikes
from mapper.spiking.slots import Slots
from storage.samples.spikes import SpikeSamples

MOST_CORES = 4


class HardwareRun(NamedTuple):
    """Amounts that were compared and are equal.

    heard : spikes of outputs that the host received
    states : currents, potentials and refractory ticks of all neurons after the last tick
    """

    samples: int
    ticks: int
    cycles: int
    spikes: int
    heard: int
    states: int


def check_hardware(
    folder: SpikingFolder, samples: SpikeSamples, progress: OnFraction = ignore
) -> HardwareRun:
    """Run samples in Amaranth's simulator, each from the states before the first tick.

    Raises `DoesNotFitError` for chips that would take too long, and `CheckFailedError` that names
    the first difference from the simulators.
    """
    chip, network = folder.chip, folder.integers.network
    if chip.cores > MOST_CORES:
        raise DoesNotFitError(
            f"{folder.path}: {chip.width}x{chip.height} cores; at most {MOST_CORES} run in "
            "Amaranth's simulator, so compile for a smaller chip"
        )
    require_all_links(chip, "routers of the hardware")
    tables = folder.tables()
    slots, mesh = Slots.of(tables), Mesh(chip.width, chip.height)
    design = ChipDesign(chip.width, chip.height, tables.shape, DEPTH, borders=Borders(output=True))
    hardware, watched = ChipSimulator(design), folder.model.watched
    given, ticks = InputSpikes.of(samples), samples.ticks + folder.last
    ends = given.ends(ticks)
    cycles = spikes = heard = 0
    for sample in range(samples.samples):
        own = ends[sample * ticks : (sample + 1) * ticks + 1]
        inputs = given.neuron[own[0] : own[-1]]
        told = np.split(inputs, own[1:-1] - own[0])
        found = hardware.run(tables, ticks, [each.tolist() for each in told])
        host = HostSpikes(slots.sender[network.neurons + inputs], own - own[0])
        different = _difference(slots, mesh, host, found, watched)
        if different is not None:
            raise CheckFailedError(f"{folder.path}: hardware: sample {sample}: {different}")
        cycles += int(found.cycles.sum())
        spikes += int(found.spikes.sum())
        heard += sum(map(len, found.heard))
        progress((sample + 1) / samples.samples)
    states = samples.samples * network.neurons * 3
    return HardwareRun(samples.samples, samples.samples * ticks, cycles, spikes, heard, states)


def _difference(
    slots: Slots, mesh: Mesh, host: HostSpikes, found: ChipRun, watched: NDArray[np.int64]
) -> str | None:
    """Return the first difference of a run from the simulators; None without one."""
    neurons, ticks = slots.neurons.size, len(host.ends) - 1
    run = SpikingRun(slots.cores)
    log = run.run(host, np.zeros(0, np.int64))
    tick = np.repeat(np.arange(ticks), np.diff(log.ends))
    spikes = np.zeros_like(found.spikes)
    spikes[tick, slots.neurons[log.slot]] = True
    for when, neuron in np.argwhere(spikes != found.spikes)[:1].tolist():
        return f"neuron {neuron} fires in only one of both in tick {when}"
    for when, axons in enumerate(found.heard):
        if sorted(axons) != np.flatnonzero(spikes[when, watched]).tolist():
            return f"the host receives other spikes of outputs in tick {when}"
    states = run.states[slots.sender[:neurons]]
    for neuron, _ in np.argwhere(states != found.states)[:1].tolist():
        return f"neuron {neuron} ends in state {found.states[neuron]}, not {states[neuron]}"
    timed = TickSimulator(mesh, ChipTime(), slots.routes(mesh, tree=False))
    expected = timed.run(log.slot.astype(np.int64), log.ends, host.sender + neurons, host.ends)
    for (when,) in np.argwhere(expected.cycles != found.cycles)[:1].tolist():
        return f"tick {when} takes {found.cycles[when]} cycles, not {expected.cycles[when]}"
    if expected.heard != sum(map(len, found.heard)):
        return f"the host receives {sum(map(len, found.heard))} packets, not {expected.heard}"
    return None
