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
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from chipsim.chip.energy import PARTS
from chipsim.chip.model import Chip
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
_SMALLEST = sys.float_info.min
"""Least number above 0 that every YAML parser reads; nonzero potentials are larger."""
_EDGE = re.compile(rb"(\d+),(\d+),(.+)\n")
_YAML_EDGE = rb"    - n.\1 -> n.\2: {weight: \3}\n"
_YAML_NEGATIVE = rb"    - n.\1 -> n.\2: {weight: -\3}\n"
_ARCH = """\
# The mesh of chip {name} with the costs of its hops: a link and a router (J, s). Costs of cores
# that it does not know are 0: fill in those of yours.
architecture:
  name: chip
  attributes: {{topology: mesh, width: {width}, height: {height}, link_buffer_size: 16}}
  tile:
    - name: tile[0..{last}]
      attributes:
{hops}
      core:
        - name: core{cores}
          attributes: {{buffer_position: soma, max_neurons_supported: {neurons}}}
          axon_in:
            - name: axon_in
              attributes: {{energy_message_in: {packet_in!r}, latency_message_in: 0.0}}
          synapse:
            - name: synapse
              attributes: {{model: current_based, energy_process_spike: {event!r}, \
latency_process_spike: 0.0}}
          dendrite:
            - name: dendrite
              attributes: {{model: accumulator, energy_update: 0.0, latency_update: 0.0}}
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


class _Written(NamedTuple):
    """Written parts of a network.

    group : attributes of all neurons, YAML; lines : of single ones
    edges : pieces of YAML
    units : input units per core
    """

    group: str
    lines: str
    edges: Iterator[bytes]
    units: int


def save(run: MappedRun, destination: Path, options: dict[str, Any]) -> dict[str, Any]:
    """Write both files.

    options : with synaptic weights: `NEURON_OPTIONS` and widths of cores; otherwise: threshold and
        bias of all neurons, default: the simulator's; magnitudes, see `synaptic_weights`
    """
    run.require_whole("a SANA-FE network")
    synaptic = synaptic_weights(run.network, bool(options.get("magnitudes")))
    losses = list(synaptic.losses)
    arch = destination.with_name(f"{destination.stem}.arch.yaml")
    written = (_modelled if synaptic.kept else _plain)(run, options, losses)
    losses += _machine_losses(run.chip)
    about = "".join(f"# {line}\n" for line in synaptic.lines(losses))
    edges = 0
    with PartialFile(destination) as file, PartialFile(arch) as chip:
        chip.write(architecture(run.chip, written.units).encode())
        file.write(
            f"# {run.core.size} neurons on {run.chip.width}x{run.chip.height} cores; tile = x * "
            f"{run.chip.routers[1]} + y\n{about}"
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
        places = _places(run)
        for start in range(0, run.core.size, LINES):
            rows = enumerate(places[start : start + LINES].tolist(), start)
            file.write("".join(f"  - n.{n}: [core: {t}.{c}]\n" for n, (t, c) in rows).encode())
        commit_together(chip, file)
    return {
        "neurons": run.core.size,
        "synapses": edges,
        "architecture": str(arch),
        "weights": synaptic.weights,
        "losses": losses,
    }


def _modelled(run: MappedRun, options: dict[str, Any], losses: list[Loss]) -> _Written:
    """Convert a network with synaptic weights, as computed by cores; add the losses."""
    given = dict(options)
    neuron = {name: given.pop(name) for name in NEURON_OPTIONS if name in given}
    shape = CoreShape(**given)
    numbers = core_network(run.network, shape, neuron)
    neurons, rough = lif_neurons(numbers, shape)
    losses[:] = [*numbers.losses, *rough]
    unit = np.full(run.core.size, -1)
    units = 0
    order, ends = run.by_core()
    for first, stop in pairwise(ends.tolist()):
        inputs = order[first:stop][numbers.inputs[order[first:stop]]]
        unit[inputs] = np.arange(inputs.size)
        units = max(units, inputs.size)

    def edges() -> Iterator[bytes]:
        network = numbers.network
        for start in range(0, network.source.size, LINES):
            part = slice(start, start + LINES)
            target = network.target[part]
            rows = network.source[part], target, network.weight[part] << network.shift[target]
            for some, form in ((rows[2] >= 0, _YAML_EDGE), (rows[2] < 0, _YAML_NEGATIVE)):
                text = render_edges(rows[0][some], rows[1][some], np.abs(rows[2][some]), UNIT)
                yield _EDGE.sub(form, text)

    return _Written("", neuron_lines(neurons, unit), edges(), units)


def _plain(run: MappedRun, options: dict[str, Any], losses: list[Loss]) -> _Written:
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

    return _Written(own, f"        - {every}: {{}}\n", edges(), 0)


def spikes_above(threshold: float) -> float:
    """Return the number t such that a potential is above t exactly if it is >= `threshold`."""
    return min(math.nextafter(threshold, -math.inf), threshold - _SMALLEST)


def _places(run: MappedRun) -> NDArray[np.int64]:
    """Return the tile of every neuron, and the core in the tile, shape (neurons, 2)."""
    wide, tall = (1, 1) if run.chip.machine is None else run.chip.machine.tile_size
    (tx, x), (ty, y) = (
        np.divmod(of.astype(np.int64), side) for of, side in ((run.x, wide), (run.y, tall))
    )
    return np.column_stack([tx * run.chip.routers[1] + ty, y * wide + x])


def _machine_losses(chip: Chip) -> list[Loss]:
    """Return features of a machine that a mesh of tiles cannot represent."""
    machine = chip.machine
    if machine is None:
        return []
    lost = [f"[{name}]" for name in ("chip", "board") if getattr(machine, name) is not None]
    lost += [name for name in ("torus", "columns", "rows") if getattr(machine, name)]
    text = f"no chip and board boundaries, tori or coordinates: {', '.join(lost)} of the machine"
    return [Loss("machine", len(lost), text)] if lost else []


def architecture(chip: Chip, units: int) -> str:
    """Return the YAML of a chip; units : input units per core."""
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
        inputs=_INPUTS.format(last=units - 1) if units else "",
    )
