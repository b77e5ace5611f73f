"""Mappings for SANA-FE (Boyle et al., IEEE TCAD 44(8), 2025): network and mapping as its YAML.

One group `n` has all neurons, by their number in the network; every synapse is an edge with its
weight in real units (an undirected network has two per edge). A tile of the mesh has the cores that
share a router, and tiles are numbered column by column: on a chip without tiles the core at (x, y)
is ``x * height + y . 0``. `chipsim.chip.sanafe` reads these files.

NAME.arch.yaml is the chip: its mesh, with the cost of a hop over a link and a router, and the known
energies of its cores; all other costs are 0. Costs are written as pJ and ns; relative units are
copied without conversion. Sizes of neurons, rates and ids are omitted.

A network with synaptic weights is written in the integers of the cores, and gives the same spikes
(`sanafe_neurons`); a neuron that only relays input is an input unit of its core, `input[I]`, to
which the user gives spikes. In other networks all neurons have the given threshold and bias.
SANA-FE's neurons spike above their threshold, neurons of the hardware's cores (docs/core.md) at it:
the threshold written is the next lower number.
"""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from chipsim.chip.energy import PARTS
from chipsim.chip.model import Chip
from hw.core.network import SpikingNetwork
from hw.core.shape import CoreShape
from mapper.errors import UsageError
from mapper.exports.base import NEURON_OPTIONS, MappedRun
from mapper.exports.hardware_network import core_network
from mapper.exports.sanafe_neurons import UNIT, lif_neurons, neuron_lines
from mapper.exports.synaptic import synaptic_weights
from storage.files import PartialFile, commit_together
from storage.formats.losses import Loss
from storage.formats.text.render import render_edges

LINES = 1 << 16
"""Neurons whose lines are written at a time."""
LONGEST_DELAY = 5
"""Ticks, of the dendrites of SANA-FE (AccumulatorWithDelayModel)."""
_SMALLEST = sys.float_info.min
"""Least number above 0 that every YAML parser reads; nonzero potentials are larger."""
_EDGE = re.compile(rb"(\d+),(\d+),(.+)\n")
_YAML_EDGE = rb"    - n.\1 -> n.\2: {weight: \3}\n"
_YAML_NEGATIVE = rb"    - n.\1 -> n.\2: {weight: -\3}\n"
_ARCH = """\
# The mesh of chip {name} with the costs of its hops: a link and a router (J, s). Costs of cores
# that it does not know are 0: fill in your own.
architecture:
  name: chip
  attributes: {{topology: mesh, width: {width}, height: {height}, link_buffer_size: 16}}
  tile:
    - name: tile[0..{last}]
      attributes:
{hops}
      core:
        - name: core{cores}
          attributes: {{buffer_position: {buffer}, max_neurons_supported: {neurons}}}
          axon_in:
            - name: axon_in
              attributes: {{energy_message_in: {packet_in!r}, latency_message_in: 0.0}}
          synapse:
            - name: synapse
              attributes: {{model: current_based, energy_process_spike: {event!r}, \
latency_process_spike: 0.0}}
          dendrite:
            - name: dendrite
              attributes: {{model: {dendrite}, energy_update: 0.0, latency_update: 0.0}}
          soma:
            - name: soma
              attributes: {{model: leaky_integrate_fire, energy_access_neuron: {neuron!r}, \
latency_access_neuron: 0.0, energy_update_neuron: 0.0, latency_update_neuron: 0.0, \
energy_spike_out: 0.0, latency_spike_out: 0.0}}
{inputs}          axon_out:
            - name: axon_out
              attributes: {{energy_message_out: {packet_out!r}, latency_message_out: 0.0}}
"""


_INPUTS = """\
            - name: input[0..{last}]
              attributes: {{model: input, energy_access_neuron: 0.0, \
latency_access_neuron: 0.0, energy_update_neuron: 0.0, latency_update_neuron: 0.0, \
energy_spike_out: 0.0, latency_spike_out: 0.0}}
"""


class SanafeNetwork(NamedTuple):
    """Written parts of a network.

    group : attributes of all neurons, YAML; lines : of single ones
    edges : pieces of YAML
    units : input units per core
    delays : whether edges have delays
    """

    group: str
    lines: str
    edges: Iterator[bytes]
    units: int
    delays: bool = False


def save(run: MappedRun, destination: Path, options: dict[str, Any]) -> dict[str, Any]:
    """Write both files.

    options : with synaptic weights: `NEURON_OPTIONS` and widths of cores; otherwise: threshold and
        bias of all neurons, default: the simulator's; magnitudes, see `synaptic_weights`
    """
    run.require_whole("a SANA-FE network")
    synaptic = synaptic_weights(run.network, bool(options.get("magnitudes")))
    losses = list(synaptic.losses)
    written = (_modelled if synaptic.kept else _plain)(run, options, losses)
    losses += machine_losses(run.chip)
    found = write_sanafe(destination, run.chip, run.core, written, synaptic.lines(losses))
    return found | {"weights": synaptic.weights, "losses": losses}


def write_sanafe(
    destination: Path, chip: Chip, core: NDArray[Any], written: SanafeNetwork, about: list[str]
) -> dict[str, Any]:
    """Write a network and its architecture; return facts for the user.

    core : of each neuron, shape (neurons,)
    about : lines for a comment
    """
    arch = destination.with_name(f"{destination.stem}.arch.yaml")
    comment = "".join(f"# {line}\n" for line in about)
    edges = 0
    with PartialFile(destination) as file, PartialFile(arch) as hardware:
        hardware.write(architecture(chip, written.units, delays=written.delays).encode())
        file.write(
            f"# {core.size} neurons on {chip.width}x{chip.height} cores; tile = x * "
            f"{chip.routers[1]} + y\n{comment}"
            "network:\n  name: network\n  groups:\n    - name: n\n"
            f"      attributes: {{{written.group}}}\n      neurons:\n{written.lines}".encode()
        )
        for text in written.edges:
            if not edges and text:
                file.write(b"  edges:\n")
            edges += text.count(b"\n")
            file.write(text)
        if not edges:
            file.write(b"  edges: []\n")
        file.write(b"mappings:\n")
        places = _places(chip, core)
        for start in range(0, core.size, LINES):
            rows = enumerate(places[start : start + LINES].tolist(), start)
            file.write("".join(f"  - n.{n}: [core: {t}.{c}]\n" for n, (t, c) in rows).encode())
        commit_together(hardware, file)
    return {"neurons": core.size, "synapses": edges, "architecture": str(arch)}


def _modelled(run: MappedRun, options: dict[str, Any], losses: list[Loss]) -> SanafeNetwork:
    """Convert a network with synaptic weights, as computed by cores; add the losses."""
    given = dict(options)
    neuron = {name: given.pop(name) for name in NEURON_OPTIONS if name in given}
    shape = CoreShape(**given)
    numbers = core_network(run.network, shape, neuron)
    neurons, rough = lif_neurons(numbers.network, shape)
    losses[:] = [*numbers.losses, *rough]
    unit = input_units(run.core, numbers.inputs)
    edges = core_edges(numbers.network)
    return SanafeNetwork("", neuron_lines(neurons, unit), edges, int(unit.max(initial=-1)) + 1)


def input_units(core: NDArray[Any], inputs: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Return the number of each input among the inputs of its core, -1 for other neurons."""
    unit = np.full(core.size, -1)
    own = np.flatnonzero(inputs)
    order = own[np.argsort(core[own], kind="stable")]
    first = np.searchsorted(core[order], core[order])
    unit[order] = np.arange(order.size) - first
    return unit


def core_edges(network: SpikingNetwork) -> Iterator[bytes]:
    """Yield the YAML of the synapses of an integer network."""
    for delay in np.unique(network.delay).tolist():
        own = np.flatnonzero(network.delay == delay)
        late = f", delay: {min(delay, LONGEST_DELAY)}".encode() if delay else b""
        for start in range(0, own.size, LINES):
            part = own[start : start + LINES]
            target = network.target[part]
            rows = network.source[part], target, network.weight[part] << network.shift[target]
            for some, form in ((rows[2] >= 0, _YAML_EDGE), (rows[2] < 0, _YAML_NEGATIVE)):
                text = render_edges(rows[0][some], rows[1][some], np.abs(rows[2][some]), UNIT)
                yield _EDGE.sub(form.replace(b"}", late + b"}"), text)


def _plain(run: MappedRun, options: dict[str, Any], losses: list[Loss]) -> SanafeNetwork:
    """Convert a network without synaptic weights; add the assumptions to the losses."""
    for name in options:
        if name not in ("threshold", "bias", "magnitudes"):
            raise UsageError(
                f"{run.network.path}: --{name.replace('_', '-')} is for networks with synaptic "
                "weights; leave it out"
            )
    neurons, unit = run.core.size, run.network.meta.weight_unit
    attributes = {name: options[name] for name in ("threshold", "bias") if name in options}
    if "threshold" in attributes:
        attributes["threshold"] = spikes_above(attributes["threshold"])
    else:
        assumed = f"no threshold: that of {neurons:,} neurons is SANA-FE's own, 0"
        losses.append(Loss("threshold", neurons, assumed))
    own = ", ".join(f"{name}: {value!r}" for name, value in attributes.items())
    every = "0" if neurons == 1 else f"0..{neurons - 1}"

    def edges() -> Iterator[bytes]:
        for block in run.network.blocks():
            indptr, ids, weights = block.outgoing()
            source = np.repeat(np.arange(block.vertices) + block.first, np.diff(indptr))
            yield _EDGE.sub(_YAML_EDGE, render_edges(source, ids.astype(np.int64), weights, unit))

    return SanafeNetwork(own, f"        - {every}: {{}}\n", edges(), 0)


def spikes_above(threshold: float) -> float:
    """Return the number t such that a potential is above t exactly if it is >= `threshold`."""
    return min(math.nextafter(threshold, -math.inf), threshold - _SMALLEST)


def _places(chip: Chip, core: NDArray[Any]) -> NDArray[np.int64]:
    """Return the tile of every neuron, and the core in the tile, shape (neurons, 2)."""
    wide, tall = (1, 1) if chip.machine is None else chip.machine.tile_size
    row, column = np.divmod(core.astype(np.int64), chip.width)
    (tx, x), (ty, y) = np.divmod(column, wide), np.divmod(row, tall)
    return np.column_stack([tx * chip.routers[1] + ty, y * wide + x])


def machine_losses(chip: Chip) -> list[Loss]:
    """Return features of a machine, and faults, that a mesh of tiles cannot represent."""
    machine, broken = chip.machine, len(chip.broken_links) + len(chip.broken_routers)
    text = f"no broken links and routers: messages cross the {broken} of the chip"
    faults = [Loss("faults", broken, text)]
    if machine is None:
        return faults if broken else []
    lost = [f"[{name}]" for name in ("chip", "board") if getattr(machine, name) is not None]
    lost += [name for name in ("torus", "columns", "rows") if getattr(machine, name)]
    text = f"no chip and board boundaries, tori or coordinates: {', '.join(lost)} of the machine"
    return ([Loss("machine", len(lost), text)] if lost else []) + (faults if broken else [])


def architecture(chip: Chip, units: int, *, delays: bool = False) -> str:
    """Return the YAML of a chip.

    units : input units per core; delays : whether synapses have delays
    """
    energies = [(link + chip.energy_router) * 1e-12 for link in chip.link_energies]
    latencies = [(link + chip.latency_router) * 1e-9 for link in chip.link_latencies]
    hops = "\n".join(
        f"        energy_{side}_hop: {energies[axis]!r}\n"
        f"        latency_{side}_hop: {latencies[axis]!r}"
        for side, axis in (("north", 1), ("east", 0), ("south", 1), ("west", 0))
    )
    columns, rows = chip.routers
    each = chip.cores // (columns * rows)
    known = {} if chip.energy is None else chip.energy.to_json()
    return _ARCH.format(
        name=" ".join(ascii(chip.name).split()),
        width=columns,
        height=rows,
        last=columns * rows - 1,
        cores=f"[0..{each - 1}]" if each > 1 else "",
        **{part: float(f"{known.get(part, 0.0) * 1e-12:.12g}") for part in PARTS},
        neurons=chip.neurons,
        hops=hops,
        buffer="dendrite, buffer_inside_unit: true" if delays else "soma",
        dendrite="accumulator_with_delay" if delays else "accumulator",
        inputs=_INPUTS.format(last=units - 1) if units else "",
    )
