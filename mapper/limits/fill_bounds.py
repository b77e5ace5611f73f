"""Bounds on how full cores are: the settings `min_fill` and `spread`.

`min_fill` is the least share of the neuron limit of each core in use. `spread` uses all cores: it
lowers the neuron limit of every core by the same factor, the lowest at which the network fits with
the free capacity that partitioning needs, and then acts as `fill` does. A mapping with k equal
cores in use exists only if k times the least number of neurons is at most their total size, and k
times the limit at least that; for unlike cores, this holds for the k smallest least numbers and the
k largest limits.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from chipsim.chip.limits import Usage
from chipsim.chip.model import Chip
from chipsim.chip.unlike import filled, limit_of_cores, neurons_changed
from mapper.errors import DoesNotFitError
from mapper.planning.memory import FILL
from mapper.settings import Settings
from storage.arrays import Int64, Mask


@dataclass(frozen=True, slots=True)
class FillBounds:
    """Least sizes of the neurons of cores.

    least : ndarray[int64], shape (cores,), of each core in use
    aim : ndarray[int64], shape (cores,), that moves keep on a core in use, at least `least`
    used : number of cores that should be in use; 0 for any number
    share : setting `min_fill`, for messages
    """

    least: Int64
    aim: Int64
    used: int = 0
    share: float = 0.0

    def lack(self, held: Int64, used: Mask) -> Int64:
        """Return by how much each core in use is below its least size, shape (cores,)."""
        return np.where(used, np.maximum(self.least - held, 0), 0)


def neurons_of(chip: Chip) -> Int64:
    """Return the neuron limit of every core, shape (cores,)."""
    found = limit_of_cores(chip, "neurons")
    assert found is not None, "every core has a limit on neurons"
    return found


def least_neurons(chip: Chip, share: float) -> Int64:
    """Return a share of the neuron limit of every core, rounded up, shape (cores,).

    The share is read as a decimal number: 0.7 of 10 neurons is 7.
    """
    exact = Fraction(repr(float(share)))
    limits, place = np.unique(neurons_of(chip), return_inverse=True)
    return np.array([math.ceil(exact * int(limit)) for limit in limits], np.int64)[place]


def on_cores(settings: Settings, usable: int) -> Settings:
    """Return settings with the number of cores that `spread` uses; usable : usable cores"""
    if settings.spread == "no" or settings.cores:
        return settings
    return replace(settings, cores=usable)


def limited_chip(chip: Chip, settings: Settings, sizes: Int64) -> Chip:
    """Return the chip with the neuron limits that `fill` and `spread` allow.

    sizes : ndarray[int64], shape (items,), of neurons, or of neurons that are kept together
    """
    chip = filled(chip, settings.fill)
    if settings.spread == "no":
        return chip
    total, largest = int(sizes.sum()), int(sizes.max(initial=1))
    limits = np.sort(neurons_of(chip)[chip.usable])[::-1]
    if settings.cores:
        limits = limits[: settings.cores]
    share = total / max(1, int(limits.sum())) / FILL

    def lowered(limit: int) -> int:
        return min(limit, max(math.ceil(limit * share), largest))

    return neurons_changed(chip, lowered)


def below_least(chip: Chip, share: float, usage: Usage) -> list[str]:
    """Return a line for each core in use with less than a share of its neuron limit, by core id."""
    if not share:
        return []
    held, least = usage.neurons, least_neurons(chip, share)
    return [
        f"core {core} holds {held[core]} neurons (least {least[core]})"
        for core in np.flatnonzero((usage.count > 0) & (held < least)).tolist()
    ]


def fill_bounds(chip: Chip, limited: Chip, settings: Settings, sizes: Int64) -> FillBounds | None:
    """Return the bounds of a run; None without `min_fill` and `spread`.

    limited : see `limited_chip`; sizes : of the items
    """
    if not settings.bounds_fill:
        return None
    least = np.maximum(least_neurons(chip, settings.min_fill), 1)
    least[~chip.usable] = 0
    aim, used = least, 0
    if settings.spread == "yes":
        used = settings.cores or chip.usable_count
        used = min(used, int(np.count_nonzero(sizes)))
        limits = neurons_of(limited)
        capacity = int(np.sort(limits[chip.usable])[::-1][:used].sum())
        aim = np.maximum(least, (limits * (FILL * int(sizes.sum()) / capacity)).astype(np.int64))
        aim[~chip.usable] = 0
    return FillBounds(least, aim, used, settings.min_fill)


def bounded_chip(
    given: Chip, limited: Chip, settings: Settings, sizes: Int64, free: bool
) -> tuple[Chip, FillBounds | None]:
    """Return the chip with only the cores to use, and the bounds of a run.

    given, limited : the chip, and the chip with the limits of `limited_chip`
    sizes : of the items; free : items may be on all cores

    Raises `DoesNotFitError` if no number of cores can hold the neurons.
    """
    bounds = fill_bounds(given, limited, settings, sizes)
    if bounds is None:
        return limited, None
    total, most = int(sizes.sum()), settings.cores or limited.usable_count
    require_fillable(bounds, limited, total, most)
    return chosen_cores(bounds, limited, total, most) if free else limited, bounds


def most_used(bounds: FillBounds, chip: Chip, total: int) -> int:
    """Return the largest number of cores whose least sizes a network can fill, at least 1.

    chip : its usable cores; total : size of all neurons
    """
    sums = np.cumsum(np.sort(bounds.least[chip.usable]))
    return max(1, int(np.searchsorted(sums, total, side="right")))


def require_fillable(bounds: FillBounds, limited: Chip, total: int, most: int) -> None:
    """Raise `DoesNotFitError` if no number of cores can hold the neurons within the bounds.

    limited : see `limited_chip`; total : size of all neurons; most : number of cores, at most
    """
    usable = limited.usable
    low = np.cumsum(np.sort(bounds.least[usable]))[:most]
    high = np.cumsum(np.sort(neurons_of(limited)[usable])[::-1])[:most]
    if total == 0 or ((low <= total) & (total <= high)).any() or (high < total).all():
        return  # too many neurons: the limits report it
    count = int(np.count_nonzero(high < total)) + 1
    name = "1 core" if count == 1 else f"{count:,} cores"
    raise DoesNotFitError(
        f"min_fill is {bounds.share:g}: {total:,} neurons need at least {name}, which hold at "
        f"least {low[count - 1]:,} neurons then ({low[count - 1] - total:,} more than there are); "
        f"give a lower --min-fill or {'smaller' if count == 1 else 'other'} cores"
    )


def chosen_cores(bounds: FillBounds, limited: Chip, total: int, most: int) -> Chip:
    """Return the chip with only the cores that are used, if cores have unlike limits.

    They are few, and some of the largest together with some of the smallest, so that the size of
    all neurons is between the sums of their bounds. Unchanged if no such choice is found.
    """
    neurons = np.where(limited.usable, neurons_of(limited), 0)
    order = np.argsort(-neurons, kind="stable")[: limited.usable_count]
    if bounds.used >= order.size or np.unique(neurons[order]).size == 1:
        return limited
    low = np.append(0, np.cumsum(bounds.least[order]))
    high = np.append(0, np.cumsum(neurons[order]))
    for slack in (FILL, 1.0):
        for count in range(max(1, bounds.used), min(most, order.size) + 1):
            large = np.arange(count, -1, -1)  # the others are the smallest cores
            small = order.size - count + large
            fits = low[large] + low[-1] - low[small] <= total
            fits &= slack * (high[large] + high[-1] - high[small]) >= total
            if fits.any():
                at = int(fits.argmax())
                unused = order[int(large[at]) : int(small[at])]
                return without_cores(limited, unused)
    return limited


def without_cores(chip: Chip, unused: Int64) -> Chip:
    """Return the chip without some cores."""
    gone = np.union1d(np.flatnonzero(~chip.usable), unused).tolist()
    return replace(chip, unavailable=tuple(gone), host=None)
