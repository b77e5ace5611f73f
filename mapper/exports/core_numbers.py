"""A model in the integer arithmetic of the hardware's cores, with the losses of the conversion.

Every neuron has a separate scale, a power of two, for its potential, threshold and bias and the
weights of its incoming synapses; scaling changes no spike. The scale is 1 if that gives integers,
else the least one that does, if the cores have enough bits. Otherwise, and only if the user allows
it, numbers are rounded: the scale is then the largest one that fits. Decays are multiples of
2^-decay_bits; if the user allows it, they are rounded to the nearest one. Neurons that decay keep
fractions of their currents and potentials: these, thresholds and biases have `shift` more bits than
weights, as many as their words can hold.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hw.core.network import SpikingNetwork
from hw.core.shape import CoreShape
from mapper.errors import MapperError
from mapper.exports.model import Floats, Int64, NeuronModel
from storage.formats.losses import Loss

LARGEST_SCALE = 60  # as a power of two; beyond it a float64 has no significant digits left


@dataclass(frozen=True, slots=True, eq=False)
class CoreNumbers:
    """A model as computed by cores.

    network : with integer parameters
    exponent : ndarray[int64], shape (neurons,): a weight of a neuron is the real one times 2^this;
        thresholds, biases and states have `network.shift` bits more
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
    kept = [_decays(lost, shape) for lost in (model.current_decay, model.decay)]
    inexact = kept[0][1] | kept[1][1]
    exact = _least_exponents(model, threshold)
    room = _largest_exponents(model, threshold, shape)
    rounded = exact > room
    bits = shape.decay_bits
    reasons = [
        f"{count:,} {what}"
        for count, what in (
            (int(rounded.sum()), "neurons have numbers beyond the bits of a core"),
            (int(inexact.sum()), f"neurons have a decay that is no multiple of 2^-{bits}"),
        )
        if count
    ]
    if reasons and not quantise:
        raise MapperError(
            f"{where}: cores cannot compute this model exactly: {', '.join(reasons)}; widen "
            "their words (--weight-bits, --state-bits, --decay-bits), or round it with --quantise"
        )
    exponent = np.where(rounded, room, np.maximum(exact, np.minimum(room, 0)))
    weight = _rounded(model, exponent, shape)
    shift = _fractions(model, threshold, weight, exponent, shape)
    scale = np.exp2(exponent + shift)
    top = 2.0 ** (shape.state_bits - 1) - 1
    real = threshold * scale
    # the least number above a threshold, or the least one not below it
    level = np.floor(real) + 1 if model.strict else np.ceil(real)
    potential = np.rint(model.potential * scale)
    late = np.zeros(silent.size, np.bool_)
    if model.subtract:
        level = np.rint(real)
        if model.strict:  # potentials one lower reach a threshold where others exceed it
            late = ~silent & (model.decay > 0)
            potential -= ~silent & ~late
    numbers = SpikingNetwork(
        model.neurons,
        model.source,
        model.target,
        weight.astype(np.int64),
        threshold=np.where(silent, top, level).astype(np.int64),
        current_decay=kept[0][0],
        potential_decay=kept[1][0],
        current_bias=np.rint(model.current_bias * scale).astype(np.int64),
        potential_bias=np.rint(model.bias * scale).astype(np.int64),
        shift=shift,
        subtract=np.full(model.neurons, int(model.subtract)),
        silent=silent.astype(np.int64),
        potential=potential.astype(np.int64),
    )
    losses = [*model.losses, *_losses(model, numbers, np.exp2(exponent), rounded, shape)]
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


def _decays(lost: Floats, shape: CoreShape) -> tuple[Int64, NDArray[np.bool_]]:
    """Return the decay factors of a part that is lost per tick, and where they differ from it."""
    real = (1 - lost) * shape.unity
    factor = np.rint(real)
    return factor.astype(np.int64), factor != real


def _fractions(
    model: NeuronModel, threshold: Floats, weight: Floats, exponent: Int64, shape: CoreShape
) -> Int64:
    """Return the fraction bits of currents and potentials, shape (neurons,).

    Only neurons that decay need some. A word holds the threshold, the biases, the initial potential
    and the largest sum of a tick, each with one bit to spare.
    """
    decays = (model.decay > 0) & (model.decay < 1) | (model.current_decay < 1)
    own = [threshold, model.current_bias, model.bias, model.potential]
    largest = np.maximum.reduce([np.abs(one) for one in own]) * np.exp2(exponent)
    for part in (np.maximum(weight, 0), np.maximum(-weight, 0)):
        total = np.bincount(model.target, part, minlength=model.neurons)
        largest = np.maximum(largest, total)
    room = shape.state_bits - 2 - np.ceil(np.log2(np.maximum(largest, 1) + 1))
    most = (1 << shape.shift_bits) - 1
    return np.where(decays, np.clip(room, 0, most), 0).astype(np.int64)


def _least_exponents(model: NeuronModel, threshold: Floats) -> Int64:
    """Return the least power of two that makes all numbers of a neuron integers."""
    own = [_fraction_bits(one) for one in (model.current_bias, model.bias, model.potential)]
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
    own = [threshold, model.current_bias, model.bias, model.potential]
    potential = np.maximum.reduce([np.abs(one) for one in own])
    half = [2.0 ** (bits - 1) for bits in (shape.weight_bits, shape.state_bits, shape.sum_bits)]
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
    shape: CoreShape,
) -> list[Loss]:
    """Return the changes by rounding, counted; scale : of the weights of each neuron."""
    found = []
    factors = numbers.dynamics(shape)[:, :2] / shape.unity
    lost = np.column_stack([model.current_decay, model.decay])
    off = np.abs(1 - factors - lost)
    inexact = int(np.count_nonzero(off.any(axis=1)))
    if inexact:
        text = (
            f"decays in steps of 2^-{shape.decay_bits}: {inexact:,} neurons changed by up to "
            f"{np.max(off / np.where(lost > 0, lost, 1)):.2%}"
        )
        found.append(Loss("decays", inexact, text))
    rounds = int(np.count_nonzero(((factors > 0) & (factors < 1)).any(axis=1)))
    if rounds:
        text = f"few fractions of states: {rounds:,} neurons round them towards zero in every tick"
        found.append(Loss("decay_rounding", rounds, text))
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
