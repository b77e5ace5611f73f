"""Search for the cuts of a population into tiles that fit in cores.

Numbers of tiles are tried upwards until every tile fits; for these, and for a few more tiles, the
cuts with the fewest packets are kept for the packing of cores. All counts are exact.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from mapper.errors import DoesNotFitError
from mapper.populations.tiles import Grid, cuts_of, tile_of
from mapper.populations.usage import (
    LIMIT_NAMES,
    CoreLimits,
    FanIn,
    TileAxons,
    count_axons,
    count_words,
)
from storage.arrays import Int64

KEPT = 4  # cuts per number of tiles that are kept, in addition to the one with most packets
MORE_TILES = 2  # numbers of tiles beyond the first that fits, for cores shared by populations


class Part(NamedTuple):
    """A part of a population on one core.

    population : index in the list of populations with neurons
    neurons, sources : ids, ascending
    words : of its synapse lists
    synapses : that reach it
    profiles : set of bits, bit p for profile p of the network
    packets : that reach it per tick
    """

    population: int
    neurons: Int64
    sources: Int64
    words: int
    synapses: int
    profiles: int
    packets: float


class Tiling(NamedTuple):
    """A cut of a population, and its parts; each fits in a core."""

    cut: Grid
    parts: tuple[Part, ...]


class _Counted(NamedTuple):
    """A cut with the use of its tiles. shortage : largest ratio of use to limit, and its limit."""

    cut: Grid
    axons: TileAxons
    words: Int64 | None
    shortage: tuple[float, int]

    @property
    def cost(self) -> tuple[float, int]:
        words = 0 if self.words is None else int(self.words.sum())
        return float(self.axons.packets.sum()), words


def find_tilings(
    fan_in: FanIn, number: int, limits: CoreLimits, cores: int, least: int = 1
) -> list[Tiling]:
    """Return tilings of a population, the one with the fewest tiles and packets first.

    number : of the population, for its parts
    cores : usable cores of the chip, the most tiles
    least : fewest tiles to try

    Raises `DoesNotFitError` naming the population and the limit if a neuron fits in no core, or
    if the chip has fewer cores than the population needs.
    """
    tiles = max(least, -(-fan_in.size // limits.neurons))
    end = min(cores, fan_in.size)
    found: list[_Counted] = []
    while tiles <= end:
        counted = _counted(fan_in, tiles, limits)
        fitting = [each for each in counted if each.shortage[0] <= 1]
        if fitting and not found:
            end = min(end, tiles + MORE_TILES)
        found += sorted(fitting, key=lambda each: each.cost)
        short = min((each.shortage[0] for each in counted), default=1.0)
        tiles += 1 if found else max(1, int(tiles * (short - 1) / 2))
    if not found:
        raise _shortage(fan_in, limits, cores)
    return [_tiling(fan_in, number, each) for each in found]


def _counted(fan_in: FanIn, tiles: int, limits: CoreLimits) -> list[_Counted]:
    """Return the cuts into this number of tiles; words are only counted where the rest fits."""
    found = []
    for cut in cuts_of(fan_in.grid, tiles):
        axons = count_axons(fan_in, tile_of(fan_in.grid, cut), tiles)
        found.append(_Counted(cut, axons, None, _use(axons, None, limits)))
    found.sort(key=lambda each: (each.shortage[0] > 1, *each.cost))
    fitting = sum(each.shortage[0] <= 1 for each in found)
    kept = 0
    for at, each in enumerate(found[:fitting]):
        if kept >= KEPT and at < fitting - 1:  # the last has most packets, but often fewest words
            continue
        words = count_words(fan_in, each.axons)
        found[at] = each._replace(words=words, shortage=_use(each.axons, words, limits))
        kept += found[at].shortage[0] <= 1
    return [each for each in found if each.words is not None or each.shortage[0] > 1]


def _use(axons: TileAxons, words: Int64 | None, limits: CoreLimits) -> tuple[float, int]:
    """Return the largest ratio of use to limit in any tile, and the index of this limit."""
    held = np.zeros_like(axons.neurons) if words is None else words
    used = limits.uses((axons.neurons, axons.axons, held, axons.profiles, axons.synapses))
    ratios = [float(each.max()) / limit for each, limit in zip(used, limits.most, strict=True)]
    worst = int(np.argmax(ratios))
    return ratios[worst], worst


def _tiling(fan_in: FanIn, number: int, counted: _Counted) -> Tiling:
    axons, words = counted.axons, counted.words
    assert words is not None, "words of cuts that fit are counted"
    order = np.argsort(axons.part, kind="stable") + fan_in.first
    neurons = np.split(order, np.cumsum(axons.neurons)[:-1])
    sources = np.split(
        fan_in.sources[axons.pair % max(fan_in.sources.size, 1)], np.cumsum(axons.axons)[:-1]
    )
    parts = []
    for tile, own in enumerate(neurons):
        profiles = 0
        for profile in np.unique(fan_in.profile[own - fan_in.first]).tolist():
            profiles |= 1 << profile
        parts.append(
            Part(
                number, own, sources[tile], int(words[tile]),
                int(axons.synapses[tile]), profiles, float(axons.packets[tile]),
            )
        )  # fmt: skip
    return Tiling(counted.cut, tuple(parts))


def _shortage(fan_in: FanIn, limits: CoreLimits, cores: int) -> DoesNotFitError:
    """Return the error for a population without a tiling."""
    each = np.arange(fan_in.size)
    axons = count_axons(fan_in, each, fan_in.size)
    words = count_words(fan_in, axons)
    needs = limits.uses((axons.neurons, axons.axons, words, axons.profiles, axons.synapses))
    for name, used, limit in zip(LIMIT_NAMES, needs, limits.most, strict=True):
        worst = int(used.argmax())
        if used[worst] > limit:
            return DoesNotFitError(
                f"{fan_in.name}: neuron {worst} alone needs {used[worst]:,} {name}, but a core "
                f"holds {limit:,}; use cores with more {name}"
            )
    tiles = min(cores, fan_in.size)
    counted = _counted(fan_in, tiles, limits) or _counted(fan_in, max(1, tiles - 1), limits)
    name = "neurons"
    if fan_in.size <= limits.neurons * tiles and counted:
        name = LIMIT_NAMES[min(counted, key=lambda each: each.shortage[0]).shortage[1]]
    return DoesNotFitError(
        f"{fan_in.name}: does not fit on the {cores} usable cores of the chip, limited by {name} "
        f"per core; use a larger chip, or cores with more {name}"
    )
