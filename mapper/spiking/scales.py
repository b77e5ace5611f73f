"""Scales of weights: integers per real unit, for groups of neurons.

A scale maps the largest weight of a group to the largest integer of a synapse. Groups are single
neurons, channels whose weights are a convolution's, so that synapse lists stay shared, or whole
populations.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mapper.spiking.model import Floats, SpikingModel

Int64Array = NDArray[np.int64]
Per = Literal["neuron", "population"]

CLIP_FACTORS = (1.0, 0.95, 0.9, 0.85, 0.8, 0.75, 0.7, 0.6, 0.5)
"""Candidates for the largest weight that is not clipped, relative to the largest of the group."""
UNIT_TOLERANCE = 1e-5  # deviation from a multiple of the unit, in steps of the integers
UNIT_STEPS = 64  # upper bound on the steps of Euclid's algorithm
DECIMALS = 9  # of a scaled weight: sums of the same path in another order round equally


class RealSynapses(NamedTuple):
    """Synapses of a model on the chip, each of shape (synapses,).

    source, target : numbers of a neuron or input, and of a neuron
    weight : float64, real
    delay : of the synapse on the chip, in ticks
    """

    source: Int64Array
    target: Int64Array
    weight: Floats
    delay: Int64Array


class WeightTable(NamedTuple):
    """Distinct magnitudes of the weights of each group, in order of group and magnitude.

    group, magnitude : of each entry; no magnitude is 0
    importance : share of an entry in the error of a group: the spikes per tick that it weights
    first : first entry of each group, shape (groups + 1,)
    """

    group: Int64Array
    magnitude: Floats
    importance: Floats
    first: Int64Array

    @property
    def groups(self) -> int:
        """Number of groups, also those without weights."""
        return self.first.size - 1

    def reduce(self, kind: np.ufunc, values: Floats, empty: float = 0.0) -> Floats:
        """Return `kind` of the values of each group; `empty` for groups without entries."""
        found = np.full(self.groups, empty)
        used = self.first[1:] > self.first[:-1]
        if used.any():
            found[used] = kind.reduceat(values, self.first[:-1][used])
        return found


def scale_groups(model: SpikingModel, synapses: RealSynapses, per: Per) -> Int64Array:
    """Return the group of each neuron, shape (neurons,): neurons of a group share their scale."""
    parts: list[Int64Array] = []
    groups = 0
    for number, population in enumerate(model.populations):
        if population.dynamics is None:
            continue
        size = population.size
        if per == "population":
            own = np.zeros(size, np.int64)
        elif len(population.shape) > 1:
            own = _channel_groups(population.shape, model.first[number], synapses)
        else:
            own = np.arange(size)
        parts.append(own + groups)
        groups += int(own[-1]) + 1 if size else 0
    return np.concatenate(parts) if parts else np.zeros(0, np.int64)


def _channel_groups(shape: tuple[int, ...], first: int, synapses: RealSynapses) -> Int64Array:
    """Return the groups of a population: its channels if they share weights, else its neurons.

    A channel shares weights if it has at most as many distinct ones as its neuron with the most
    synapses: border neurons of a convolution have a part of the kernel.
    """
    size = int(np.prod(shape))
    channel = np.repeat(np.arange(shape[0]), size // shape[0])
    inside = (synapses.target >= first) & (synapses.target < first + size)
    local = synapses.target[inside] - first
    fan_in = np.bincount(local, minlength=size)
    weights = synapses.weight[inside].astype(np.float32)
    order = np.lexsort((weights, channel[local]))
    of, sorted_weights = channel[local][order], weights[order]
    fresh = np.r_[True, (np.diff(of) != 0) | (np.diff(sorted_weights) != 0)][: of.size]
    distinct = np.bincount(of[fresh], minlength=shape[0])
    shares = distinct <= fan_in.reshape(shape[0], -1).max(axis=1)
    split = np.where(shares[channel], np.arange(size) % (size // shape[0]) == 0, True)
    return np.cumsum(split) - 1


def weight_table(synapses: RealSynapses, group: Int64Array, activity: Floats | None) -> WeightTable:
    """Return the distinct weights of each group.

    activity : spikes per tick of each source, shape (neurons + inputs,); None weights all equally
    """
    groups = int(group.max()) + 1 if group.size else 0
    of, magnitude = group[synapses.target], np.abs(synapses.weight)
    kept = magnitude > 0
    weighted = np.ones(of.size) if activity is None else activity[synapses.source]
    of, magnitude, weighted = of[kept], magnitude[kept], weighted[kept]
    order = np.lexsort((magnitude, of))
    of, magnitude, weighted = of[order], magnitude[order], weighted[order]
    if of.size:
        fresh = np.flatnonzero(np.r_[True, (np.diff(of) != 0) | (np.diff(magnitude) != 0)])
        weighted = np.add.reduceat(weighted, fresh)
        of, magnitude = of[fresh], magnitude[fresh]
    return WeightTable(of, magnitude, weighted, np.searchsorted(of, np.arange(groups + 1)))


def weight_units(table: WeightTable, largest: int) -> Floats:
    """Return the unit of which all weights of a group are whole multiples up to `largest`, or 0.

    Networks that were trained with quantised weights have one; their integers are then exact.
    Euclid's algorithm with the nearest remainder halves the candidate in every step.
    """
    top = table.reduce(np.maximum, table.magnitude)
    tolerance = UNIT_TOLERANCE * top / largest
    unit = table.reduce(np.minimum, table.magnitude)
    for _ in range(UNIT_STEPS):
        unit[unit * largest < top * (1 - UNIT_TOLERANCE)] = 0.0
        each = np.where(unit > 0, unit, 1.0)[table.group]
        rest = np.abs(table.magnitude - np.rint(table.magnitude / each) * each)
        rest[rest <= tolerance[table.group]] = np.inf
        smaller = table.reduce(np.minimum, rest, np.inf)
        divides = np.isinf(smaller) | (unit == 0)
        if divides.all():
            break
        unit = np.where(divides, unit, smaller)
    return unit


def largest_scales(table: WeightTable, largest: int, clip: bool, units: Floats) -> Floats:
    """Return the scale of each group by its weights; infinite for groups without weights.

    largest : integer of the largest weight
    clip : whether to clip the largest weights of a group where this lowers its squared error
    units : result of `weight_units`
    """
    top = table.reduce(np.maximum, table.magnitude)
    with np.errstate(divide="ignore"):
        scale = np.where(top > 0, largest / top, np.inf)
    if clip:
        best = np.full(table.groups, np.inf)
        factor = np.ones(table.groups)
        for each in CLIP_FACTORS:
            of = (scale / each)[table.group]
            wrong = np.minimum(np.rint(table.magnitude * of), largest) / of - table.magnitude
            error = table.reduce(np.add, table.importance * wrong * wrong)
            better = error < best
            best[better], factor[better] = error[better], each
        scale = np.where(units > 0, scale, scale / factor)
    return to_units(scale, units)


def to_units(scale: Floats, units: Floats) -> Floats:
    """Return the scale, lowered to one at which weights in units are whole numbers."""
    with np.errstate(invalid="ignore", divide="ignore"):
        steps = np.floor(np.where(units > 0, scale * units, 0.0) + UNIT_TOLERANCE)
        return np.where((steps >= 1) & np.isfinite(steps), steps / units, scale)


def rounded_weights(synapses: RealSynapses, scale: Floats) -> Int64Array:
    """Return the nearest integers of the weights, before clipping, shape (synapses,)."""
    scaled = synapses.weight * scale[synapses.target]
    return np.rint(np.round(scaled, DECIMALS)).astype(np.int64)
