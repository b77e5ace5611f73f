"""Mapping of populations to cores, as tiles that share synapse lists.

Populations are cut into tiles (`tilings`), tiles are packed into cores (`packing`), and these are
placed on the mesh (`placement`).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mapper.errors import DoesNotFitError
from mapper.populations.packing import CoreContent, Packer, pack_cores
from mapper.populations.placement import routes_of
from mapper.populations.tilings import find_tilings
from mapper.populations.usage import LIMIT_NAMES, CoreLimits, FanIn, Links
from storage.arrays import Float64, Int64


def pack_populations(
    populations: list[FanIn],
    links: Links,
    watched: Int64,
    limits: CoreLimits,
    usable: int,
    rate: Float64,
) -> list[CoreContent]:
    """Return cores within all limits; populations with too many routes get more tiles.

    watched : neurons whose spikes go to the host
    usable : number of usable cores
    rate : spikes of each neuron and input per tick

    Raises `DoesNotFitError` naming population and limit.
    """
    packer = Packer(populations, limits, rate)
    tilings = [find_tilings(each, n, limits, usable) for n, each in enumerate(populations)]
    short: DoesNotFitError | None = None
    while True:
        contents = pack_cores(packer, tilings)
        if len(contents) > usable:
            raise short or _too_few_cores(populations, contents, limits, usable)
        routes = _routes(links, part_of(contents, links.neurons), watched)
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


def _neurons_of(content: CoreContent) -> Int64:
    """Return the ids of the neurons of a core."""
    return np.concatenate([part.neurons for part in content.parts])


def part_of(contents: Sequence[CoreContent], neurons: int) -> Int64:
    """Return the index of the content that holds each neuron."""
    part = np.zeros(neurons, np.int64)
    for at, each in enumerate(contents):
        part[_neurons_of(each)] = at
    return part


def _routes(links: Links, part: Int64, watched: Int64) -> Int64:
    """Return the routes of each neuron, with one to the host for watched neurons."""
    source, _ = routes_of(links, part)
    routes = np.bincount(source[source < links.neurons], minlength=links.neurons)
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
