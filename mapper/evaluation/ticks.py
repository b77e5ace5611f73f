"""Cycle-accurate simulation of ticks of a mapped network: cores, mesh and barrier of the chip."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from chipsim.chip.model import Chip
from chipsim.noc.mesh import Mesh
from chipsim.ticks.routes import core_routes, tree_routes
from chipsim.ticks.run import TickRun, TickSimulator
from chipsim.ticks.state import Routes
from mapper.errors import MapperError
from mapper.evaluation.mapped import open_mapped
from mapper.monitoring.callbacks import OnFraction, ignore
from mapper.results.mapping_file import mapping_in
from storage.store.network import RATE, NetworkFile

TICKS = 100
"""Default number of ticks."""
AT_ONCE = 1 << 22
"""Limit of neurons times ticks whose spikes are held in memory."""
MODEL = {
    "simulated": "cores, mesh and barrier of the chip, cycle by cycle: the sweep over the neurons, "
    "the lists of packets, routers and links, the synaptic events",
    "sources": "spikes at random: each neuron at its mean rate, independent of all others",
    "ticks": "a tick begins when the last spike of the one before is in its sum",
}


@dataclass(frozen=True, slots=True)
class MappedRoutes:
    """The neurons of all cores, and the targets of their packets.

    routes : by slot; slots number the neurons core by core, in the order of their ids
    neurons : ndarray[int64], shape (slots,), the neuron of each slot
    slot : ndarray[int64], shape (neurons,), the slot of each neuron
    rate : ndarray[float64], shape (neurons,), spikes per unit of time: the firing rate, or without
        rates the largest weight of the neuron's synapses
    """

    routes: Routes
    neurons: NDArray[np.int64]
    slot: NDArray[np.int64]
    rate: NDArray[np.float64]


def mapped_routes(
    network: NetworkFile, core: NDArray[np.int32], mesh: Mesh, tree: bool
) -> MappedRoutes:
    """Return the routes of a network, read block by block.

    core : of every neuron; tree : one multicast tree per spike instead of one packet per core

    Memory holds one number per pair of a neuron and a core that it reaches. The packets of the host
    equal the neurons' packets: they follow the slots' packets, with core 0 as source.
    """
    order = np.argsort(core, kind="stable").astype(np.int64)
    slot = np.empty_like(order)
    slot[order] = np.arange(order.size)
    attribute = network.attribute(RATE) if RATE in network.meta.attributes else None
    rate = np.zeros(core.size)
    if attribute is not None:
        rate[:] = attribute.stored * attribute.unit
    keys, events = [], []
    for index in range(network.block_count):
        indptr, targets, weights = network.read_outgoing(index)
        first, end = network.block_bounds(index)
        source = np.repeat(np.arange(first, end), np.diff(indptr))
        if attribute is None:
            np.maximum.at(rate, source, weights * network.meta.weight_unit)
        pairs, made = np.unique(slot[source] * mesh.cores + core[targets], return_counts=True)
        keys.append(pairs)
        events.append(made)
    key, made = np.concatenate([[], *keys]).astype(np.int64), np.concatenate([[], *events])
    arranged = np.argsort(key, kind="stable")
    sender, target = np.divmod(key[arranged], mesh.cores)
    made = made[arranged].astype(np.int64)
    origin = np.r_[core[order].astype(np.int64), np.zeros(order.size, np.int64)]
    begins = np.searchsorted(core[order], np.arange(mesh.cores + 1)).astype(np.int64)
    make = tree_routes if tree else core_routes
    routes = make(
        mesh, origin, begins, np.r_[sender, sender + order.size], np.r_[target, target],
        np.r_[made, made],
    )  # fmt: skip
    return MappedRoutes(routes, order, slot, rate)


@dataclass(frozen=True, slots=True)
class TickRequest:
    """ticks : number of ticks; depth : flits per input buffer; seed : of the spikes"""

    ticks: int
    depth: int
    seed: int


def simulate_ticks(
    folder: Path,
    network: NetworkFile,
    chip: Chip,
    request: TickRequest,
    memory: int,
    progress: OnFraction = ignore,
) -> dict[str, Any]:
    """Run ticks of a mapping with random spikes; return the entry `ticks` of report.json.

    Raises `MapperError` for a chip without times, or with one packet per synapse.
    """
    if chip.time is None:
        raise MapperError(
            f"chip {chip.name}: has no core times; add a table [time] to its file, as "
            "printed by `mapper chips show`, and map again"
        )
    if chip.delivery == "synapse":
        raise MapperError(
            f"chip {chip.name}: sends one packet per synapse, which the simulator does not "
            'support; print the chip with `mapper chips`, set delivery = "core" or "tree" in '
            "that file, and map onto it"
        )
    mesh = Mesh.of(chip, request.depth)
    with open_mapped(network, mapping_in(folder), chip, memory // 4) as (whole, core):
        mapped = mapped_routes(whole, core, mesh, chip.delivery == "tree")
    chance = mapped.rate * chip.time.tick
    runs = []
    done = 0
    for run, spikes in random_ticks(mapped, chip, mesh, request.ticks, request.seed):
        runs.append((run, spikes))
        done += run.cycles.size
        progress(done / request.ticks)
    return {
        "model": dict(MODEL),
        "depth": request.depth,
        "seed": request.seed,
        "ticks": request.ticks,
        "spikes": sum(spikes for _, spikes in runs),
        **tick_facts([run for run, _ in runs]),
        "clamped": int((chance > 1).sum()),
        "silent": int((chance == 0).sum()),
    }


def random_ticks(
    mapped: MappedRoutes, chip: Chip, mesh: Mesh, ticks: int, seed: int
) -> Iterator[tuple[TickRun, int]]:
    """Yield runs of ticks in which each neuron spikes at its mean rate, with their spike counts."""
    assert chip.time is not None
    simulator = TickSimulator(mesh, chip.time, mapped.routes)
    chance = (mapped.rate * chip.time.tick)[mapped.neurons]
    rng = np.random.default_rng(seed)
    step = max(1, AT_ONCE // max(1, chance.size))
    for first in range(0, ticks, step):
        count = min(step, ticks - first)
        tick, slot = np.nonzero(rng.random((count, chance.size)) < chance)
        ends = np.searchsorted(tick, np.arange(count + 1)).astype(np.int64)
        nobody = np.zeros(0, np.int64), np.zeros(ends.size, np.int64)
        yield simulator.run(slot.astype(np.int64), ends, *nobody), slot.size


def tick_facts(runs: list[TickRun]) -> dict[str, Any]:
    """Return statistics of consecutive ticks as an object for JSON; empty without a run."""
    if not runs:
        return {}
    cycles = np.concatenate([run.cycles for run in runs])
    swept = np.concatenate([run.swept for run in runs])
    received = np.concatenate([run.received for run in runs])
    ticks = cycles.size
    links = np.sum([run.links for run in runs], axis=0)
    taken, events = (sum(getattr(run, name) for run in runs) for name in ("taken", "events"))
    return {
        "cycles": {
            "mean": float(cycles.mean()),
            "p50": float(np.percentile(cycles, 50)),
            "p99": float(np.percentile(cycles, 99)),
            "max": int(cycles.max()),
        },
        "ended_by_neurons": int((swept >= received).sum()),
        "ended_by_spikes": int((swept < received).sum()),
        "packets_per_tick": float(np.sum(taken)) / ticks,
        "packets_per_tick_max": float(np.max(taken)) / ticks,
        "events_per_tick": float(np.sum(events)) / ticks,
        "events_per_tick_max": float(np.max(events)) / ticks,
        "link_flits_per_tick_max": float(links.max()) / ticks,
    }
