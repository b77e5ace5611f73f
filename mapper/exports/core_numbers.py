"""A model in the integer arithmetic of the hardware's cores, with the losses of the conversion.

Every neuron has a separate scale, a power of two, for its potential, threshold and bias and the
weights of its incoming synapses; scaling changes no spike. The scale is 1 if that gives integers,
else the least one that does, if the cores have enough bits. Otherwise, and only if the user allows
it, numbers are rounded: the scale is then the largest one that fits. Leaks are powers of two; if
the user allows it, they are rounded to the nearest one.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hw.core.network import NO_LEAK, SpikingNetwork
from hw.core.shape import CoreShape
from mapper.errors import MapperError
from mapper.exports.model import Floats, Int64, NeuronModel
from storage.formats.losses import Loss

LARGEST_SCALE = 60  # as a power of two; beyond it a float64 has no significant digits left


@dataclass(frozen=True, slots=True, eq=False)
class CoreNumbers:
    """A model as computed by cores.

    network : with integer parameters
    exponent : ndarray[int64], shape (neurons,): a number of a neuron is the real one times 2^this
    inputs : neurons that spike only on external input, shape (neurons,)
    losses : parts of the model and of its network that were rounded or left out
    """

    network: SpikingNetwork
    exponent: Int64
    inputs: NDArray[np.bool_]
    losses: tuple[Loss, ...]


def core_numbers(model: NeuronModel, shape: CoreShape, quantise: bool, where: str) -> CoreNumbers:
    """Convert a model to integers for cores of a shape.

    quantise : whether numbers may be rounded
    where : prefix of messages
    Raises `MapperError` if rounding is required but not allowed.
    """
    silent = ~np.isfinite(model.threshold)
    threshold = np.where(silent, 0.0, model.threshold)
    leak, inexact = _leaks(model.decay, shape)
    exact = _least_exponents(model, threshold)
    room = _largest_exponents(model, threshold, shape)
    rounded = exact > room
    reasons = [
        f"{count:,} {what}"
        for count, what in (
            (int(rounded.sum()), "neurons have numbers beyond the bits of a core"),
            (int(inexact.sum()), "neurons have a leak that is not a power of two"),
            *((loss.count, "neurons have synaptic currents") for loss in _currents(model)),
        )
        if count
    ]
    if reasons and not quantise:
        raise MapperError(
            f"{where}: cores cannot compute this model exactly: {', '.join(reasons)}; widen "
            "their words (--weight-bits, --potential-bits), or round it with --quantise"
        )
    exponent = np.where(rounded, room, np.maximum(exact, np.minimum(room, 0)))
    weight = _rounded(model, exponent, shape)
    scale = np.exp2(exponent)
    top = 2.0 ** (shape.potential_bits - 1) - 1
    real = threshold * scale
    # the least number above a threshold, or the least one not below it
    level = np.floor(real) + 1 if model.strict else np.ceil(real)
    potential = np.rint(model.potential * scale)
    late = np.zeros(silent.size, np.bool_)
    if model.subtract:
        level = np.rint(real)
        if model.strict:  # potentials one lower reach a threshold where others exceed it
            late = ~silent & (leak != NO_LEAK)
            potential -= ~silent & ~late
    numbers = SpikingNetwork(
        model.neurons,
        model.source,
        model.target,
        weight.astype(np.int64),
        threshold=np.where(silent, top, level).astype(np.int64),
        leak=leak,
        bias=np.rint(model.bias * scale).astype(np.int64),
        subtract=np.full(model.neurons, int(model.subtract)),
        potential=potential.astype(np.int64),
    )
    losses = [*model.losses, *_losses(model, numbers, scale, rounded, inexact, shape)]
    if late.any():
        count = int(late.sum())
        text = f"no strict thresholds: {count:,} neurons with a leak spike at the threshold"
        losses.append(Loss("at_threshold", count, text))
    return CoreNumbers(numbers, exponent.astype(np.int64), model.inputs, tuple(losses))


def _rounded(model: NeuronModel, exponent: Int64, shape: CoreShape) -> Floats:
    """Return the integer weights, shape (synapses,).

    exponent : of each neuron; decremented for neurons whose rounded weights add up beyond the range
        of a core's sums
    """
    half = 2.0 ** (shape.sum_bits - 1)
    while True:
        weight = np.rint(model.weight * np.exp2(exponent)[model.target])
        over = np.zeros(model.neurons, np.bool_)
        for part, most in ((np.maximum(weight, 0), half - 1), (np.maximum(-weight, 0), half)):
            over |= np.bincount(model.target, part, minlength=model.neurons) > most
        if not over.any():
            return weight
        exponent[over] -= 1


def _currents(model: NeuronModel) -> list[Loss]:
    return [loss for loss in model.losses if loss.kind == "currents"]


def _leaks(decay: Floats, shape: CoreShape) -> tuple[Int64, NDArray[np.bool_]]:
    """Return the shifts of the leaks, and where they differ from the decay; shape (neurons,)."""
    with np.errstate(divide="ignore"):
        shift = np.rint(-np.log2(decay))
    none = decay == 0
    leak = np.where(none, NO_LEAK, np.clip(shift, 0, shape.no_leak - 1)).astype(np.int64)
    return leak, ~none & (0.5 ** np.maximum(leak, 0) != decay)


def _least_exponents(model: NeuronModel, threshold: Floats) -> Int64:
    """Return the least power of two that makes all numbers of a neuron integers."""
    own = [_fraction_bits(model.bias), _fraction_bits(model.potential)]
    if model.subtract:  # otherwise a threshold between two integers is equivalent to the next one
        own.append(_fraction_bits(threshold))
    found = np.maximum.reduce(own)
    np.maximum.at(found, model.target, _fraction_bits(model.weight))
    return np.maximum(found, -LARGEST_SCALE)


def _fraction_bits(values: Floats) -> Int64:
    """Return the least e for which value * 2^e is an integer; far below zero for zero."""
    mantissa, exponent = np.frexp(values)
    digits = np.abs(mantissa * 2.0**53).astype(np.int64)
    lowest = digits & -digits
    trailing = np.frexp(lowest.astype(np.float64))[1] - 1
    found: Int64 = np.where(digits == 0, -2 * LARGEST_SCALE, 53 - exponent - trailing)
    return found


def _largest_exponents(model: NeuronModel, threshold: Floats, shape: CoreShape) -> Int64:
    """Return the largest power of two for which numbers fit in cores, shape (neurons,)."""
    n = model.neurons
    # per sign: largest weight and sum; without -0.0, to avoid division by it
    signs = np.abs(np.maximum(model.weight, 0)), np.abs(np.minimum(model.weight, 0))
    largest, total = np.zeros((2, n)), np.zeros((2, n))
    for sign, part in enumerate(signs):
        np.maximum.at(largest[sign], model.target, part)
        np.add.at(total[sign], model.target, part)
    potential = np.maximum.reduce([np.abs(threshold), np.abs(model.bias), np.abs(model.potential)])
    half = [2.0 ** (bits - 1) for bits in (shape.weight_bits, shape.potential_bits, shape.sum_bits)]
    with np.errstate(divide="ignore"):
        room = np.minimum.reduce([
            (half[0] - 1) / largest[0],
            half[0] / largest[1],
            (half[1] - 2) / potential,  # and one more, above a threshold
            (half[2] - 1) / total[0],
            half[2] / total[1],
        ])  # fmt: skip
        found = np.floor(np.log2(room))
    return np.clip(found, -LARGEST_SCALE, LARGEST_SCALE).astype(np.int64)


def _losses(
    model: NeuronModel,
    numbers: SpikingNetwork,
    scale: Floats,
    rounded: NDArray[np.bool_],
    inexact: NDArray[np.bool_],
    shape: CoreShape,
) -> list[Loss]:
    """Return the changes by rounding, counted."""
    found = []
    if inexact.any():
        count = int(inexact.sum())
        worst = np.abs(0.5 ** numbers.leaks(shape) / np.where(model.decay > 0, model.decay, 1) - 1)
        text = (
            f"no leaks other than powers of two: {count:,} neurons changed by up to "
            f"{worst[inexact].max():.1%}"
        )
        found.append(Loss("leaks", count, text))
    leak = numbers.leaks(shape)
    floors = int(np.count_nonzero((leak > 0) & (leak < shape.no_leak)))
    if floors:
        text = f"no fractions of potentials: leaks of {floors:,} neurons round down in every tick"
        found.append(Loss("leak_rounding", floors, text))
    if not rounded.any():
        return found
    real = model.weight * scale[model.target]
    off = np.abs(numbers.weight - real)
    changed = off > 0
    level = np.abs(model.threshold * scale)[model.target]
    share = off[changed] / np.where(np.isfinite(level) & (level > 0), level, np.inf)[changed]
    text = (
        f"no fractions: {int(changed.sum()):,} weights rounded to {shape.weight_bits} bits, by up "
        f"to {share.max(initial=0):.2%} of the threshold ({share.mean() if share.size else 0:.2%} "
        "on average)"
    )
    found.append(Loss("rounded", int(changed.sum()), text))
    gone = int(np.count_nonzero((numbers.weight == 0) & (real != 0)))
    if gone:
        found.append(Loss("vanished", gone, f"no smaller weights: {gone:,} rounded to zero"))
    return found
