"""Mapping of a spiking model to the cores of a chip.

Modules of `mapper.spiking.partition` cut populations into tiles (`tilings`), pack tiles into cores
(`packing`), and place these on the mesh (`placement`).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from chipsim.chip.model import Chip
from hw.core.network import SpikingNetwork
from hw.core.shape import CoreShape
from mapper.errors import DoesNotFitError
from mapper.spiking.model import Floats, SpikingModel
from mapper.spiking.partition.packing import CoreContent, Packer, pack_cores
from mapper.spiking.partition.placement import place_parts, routes_of
from mapper.spiking.partition.tilings import find_tilings
from mapper.spiking.partition.usage import LIMIT_NAMES, CoreLimits, FanIn, fan_ins

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
    Raises `DoesNotFitError` naming population and limit.
    """
    sources = network.neurons + network.inputs
    rate = np.ones(sources) if activity is None or not activity.any() else activity
    limits = CoreLimits.of(chip, shape)
    populations = fan_ins(model, network, shape, rate)
    if not populations:
        return np.zeros(0, np.int64)
    watched = _watched(model)
    contents = _packed(populations, network, watched, limits, chip.usable_count, rate)
    part = _part_of(contents, network.neurons)
    return place_parts(network, part, rate, chip, seed)[part]


def _packed(
    populations: list[FanIn],
    network: SpikingNetwork,
    watched: Int64,
    limits: CoreLimits,
    usable: int,
    rate: Floats,
) -> list[CoreContent]:
    """Return cores within all limits; populations with too many routes get more tiles."""
    packer = Packer(populations, limits, rate)
    tilings = [find_tilings(each, n, limits, usable) for n, each in enumerate(populations)]
    short: DoesNotFitError | None = None
    while True:
        contents = pack_cores(packer, tilings)
        if len(contents) > usable:
            raise short or _too_few_cores(populations, contents, limits, usable)
        routes = _routes(network, _part_of(contents, network.neurons), watched)
        held = np.array([routes[_neurons_of(each)].sum() for each in contents])
        worst = int(held.argmax())
        if held[worst] <= limits.routes:
            return contents
        sent = [int(routes[part.neurons].sum()) for part in contents[worst].parts]
        number = contents[worst].parts[int(np.argmax(sent))].population
        fan_in = populations[number]
        own = routes[fan_in.first : fan_in.first + fan_in.size]
        tiles = len(tilings[number][0].parts)
        more = max(tiles + 1, int(tiles * held[worst] / limits.routes))
        short = DoesNotFitError(
            f"{fan_in.name}: core needs {held[worst]:,} routes for neurons with up to "
            f"{own.max():,} destination cores, but holds {limits.routes:,} routes; use cores "
            "with more routes, or a larger chip"
        )
        if own.max() > limits.routes or more > min(usable, fan_in.size):
            raise short
        tilings[number] = find_tilings(fan_in, number, limits, usable, more)


def _watched(model: SpikingModel) -> Int64:
    """Return the neurons of outputs, whose spikes go to the host."""
    none = np.zeros(0, np.int64)
    outputs = {each.population for each in model.outputs}
    return np.concatenate(
        [none, *(model.first[n] + np.arange(model.populations[n].size) for n in sorted(outputs))]
    )


def _neurons_of(content: CoreContent) -> Int64:
    """Return the ids of the neurons of a core."""
    return np.concatenate([part.neurons for part in content.parts])


def _part_of(contents: Sequence[CoreContent], neurons: int) -> Int64:
    """Return the index of the content that holds each neuron."""
    part = np.zeros(neurons, np.int64)
    for at, each in enumerate(contents):
        part[_neurons_of(each)] = at
    return part


def _routes(network: SpikingNetwork, part: Int64, watched: Int64) -> Int64:
    """Return the routes of each neuron, with one to the host for watched neurons."""
    source, _ = routes_of(network, part)
    routes = np.bincount(source[source < network.neurons], minlength=network.neurons)
    routes[watched] += 1
    return routes


def _too_few_cores(
    populations: list[FanIn], contents: Sequence[CoreContent], limits: CoreLimits, usable: int
) -> DoesNotFitError:
    """Return the error for a model that needs more cores than a chip has.

    It names the population on most cores, and the limit that its cores come closest to.
    """
    holds = [{part.population for part in each.parts} for each in contents]
    counts = [sum(number in each for each in holds) for number in range(len(populations))]
    largest = int(np.argmax(counts))
    own = [each for each, held in zip(contents, holds, strict=True) if largest in held]
    held = np.array([each.counts for each in own], np.int64)
    uses = np.array(limits.uses(list(held.T)))
    name = LIMIT_NAMES[int((uses.mean(axis=1) / limits.most).argmax())]
    return DoesNotFitError(
        f"{populations[largest].name}: needs {counts[largest]} of {len(contents)} cores, limited "
        f"by {name} per core, but the chip has {usable} usable cores; use a larger chip, or cores "
        f"with more {name}"
    )
