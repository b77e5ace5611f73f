"""Mapping of a spiking model to the cores of a chip."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from chipsim.chip.model import Chip
from chipsim.detours.tables import detours_of
from hw.core.network import SpikingNetwork
from hw.core.shape import CoreShape
from mapper.errors import DoesNotFitError
from mapper.populations.mapping import pack_populations, part_of
from mapper.populations.placement import place_parts
from mapper.populations.tiles import grid_of
from mapper.populations.usage import CoreLimits, FanIn, Links, fan_in_of
from mapper.spiking.model import Floats, SpikingModel

Int64 = NDArray[np.int64]


def map_neurons(
    model: SpikingModel,
    network: SpikingNetwork,
    chip: Chip,
    shape: CoreShape,
    activity: Floats | None = None,
    seed: int = 0,
) -> Int64:
    """Return the core id (y * width + x) of each neuron, ndarray[int64], shape (neurons,).

    network : the model in integers
    chip : mesh and usable cores; limits of its cores hold in addition to the memories of `shape`,
        and count list words instead of synapses if its `sharing` is "offset"
    activity : spikes per tick of each neuron and input, shape (neurons + inputs,), as from
        `MeasuredActivity`; by default all are equal
    seed : of the placement; equal seeds give equal mappings

    The mapping minimises cores, then packets per tick times list words, and then hops per tick.
    Raises `DoesNotFitError` naming population and limit, or a broken router of the host.
    """
    require_host(chip)
    sources = network.neurons + network.inputs
    rate = np.ones(sources) if activity is None or not activity.any() else activity
    own = CoreLimits.of(chip)
    limits = own._replace(
        neurons=min(shape.neurons, own.neurons),
        axons=min(shape.axons, own.axons),
        words=min(shape.synapses, own.words),
        profiles=shape.profiles,
        routes=shape.routes,
    )
    populations = _fan_ins(model, network, shape, rate)
    if not populations:
        return np.zeros(0, np.int64)
    watched = model.watched
    if watched.size > shape.axons:
        names = ", ".join(model.populations[number].name for number in model.host_axons)
        raise DoesNotFitError(
            f"{names}: outputs of {watched.size:,} neurons, but packets to the host have "
            f"{shape.axons:,} axons; use cores with more axons"
        )
    links = Links(network.neurons, network.source, network.target)
    contents = pack_populations(populations, links, watched, limits, chip.usable_count, rate)
    part = part_of(contents, network.neurons)
    return place_parts(links, part, rate, watched, chip, seed)[part]


def require_host(chip: Chip) -> None:
    """Raise `DoesNotFitError` if broken links separate the host from the usable cores.

    The host sends at the router of core 0, and receives at the last router of column 0.
    """
    detours = detours_of(chip)
    if detours is None:
        return
    columns, rows = chip.routers
    core = int(chip.usable.argmax())
    wide, tall = chip.width // columns, chip.height // rows
    reached = detours.reaches(core // chip.width // tall * columns + core % chip.width // wide)
    for router in (0, (rows - 1) * columns):
        if not reached[router]:
            place = f"[0, {router // columns * tall}]"
            raise DoesNotFitError(
                f"chip {chip.name}: no link of the router of core {place} leads to usable cores, "
                "and packets of the host pass it; spiking models need it"
            )


def _fan_ins(
    model: SpikingModel, network: SpikingNetwork, shape: CoreShape, rate: Floats
) -> list[FanIn]:
    """Return the populations with neurons, in order of their ids.

    rate : spikes per tick of each neuron and input, shape (neurons + inputs,)
    """
    order = np.lexsort((network.weight, network.delay, network.target, network.source))
    weight, delay = network.weight[order], network.delay[order]
    links = Links(network.neurons, network.source[order], network.target[order])
    _, profile = np.unique(network.dynamics(shape), axis=0, return_inverse=True)
    profile = profile.reshape(-1)
    found = []
    for first, each in zip(model.first, model.populations, strict=True):
        if each.dynamics is None or not each.size:
            continue
        own = profile[first : first + each.size]
        found.append(
            fan_in_of(each.name, grid_of(each.shape), first, own, links, (weight, delay), rate)
        )
    return found
