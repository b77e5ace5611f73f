"""States before the first tick of populations that start late.

A population of latency L must have no current and no potential before its tick L. A potential is
held by L refractory ticks, at the reset value. Currents also change in refractory ticks, and a
reset value other than 0 is not rest: both start at the value from which L ticks lead to 0.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hw.core.shape import CoreShape

Int64Array = NDArray[np.int64]


class LateNeurons(NamedTuple):
    """Parameters of neurons as in `hw.core.network.SpikingNetwork`, each of shape (neurons,).

    latency : ticks before the first tick of the model
    origin : potential that stands for 0
    """

    latency: Int64Array
    current_decay: Int64Array
    potential_decay: Int64Array
    current_bias: Int64Array
    potential_bias: Int64Array
    threshold: Int64Array
    reset: Int64Array
    origin: Int64Array


class StartStates(NamedTuple):
    """States before the first tick, each of shape (neurons,).

    misses : bool, the neuron does not start at 0, as no state that fits leads there
    """

    current: Int64Array
    potential: Int64Array
    waits: Int64Array
    misses: NDArray[np.bool_]


def start_states(neurons: LateNeurons, shape: CoreShape) -> StartStates:
    """Return the states from which each neuron is at rest after its latency."""
    current = np.zeros_like(neurons.latency)
    potential = neurons.origin.copy()
    lost = np.zeros(current.shape, bool)  # no current that fits
    moves = lost.copy()  # no potential that fits, or a spike on the way
    for left in range(int(neurons.latency.max(initial=0))):
        late = neurons.latency > left
        own = np.where(neurons.current_decay > 0, current, neurons.current_bias)
        after = np.where(neurons.potential_decay > 0, potential, own + neurons.potential_bias)
        forgets = neurons.potential_decay == 0
        moves |= late & ((left > 0) | forgets) & (after >= neurons.threshold)
        target = potential - own - neurons.potential_bias
        before, found = _before(target, neurons.potential_decay, shape)
        potential = np.where(late, before, potential)
        moves |= late & ~found
        before, found = _before(current - neurons.current_bias, neurons.current_decay, shape)
        current = np.where(late, before, current)
        lost |= late & ~found
    held = neurons.reset == neurons.origin
    waits = np.where(held | moves | lost, neurons.latency, 0)
    potential = np.where(waits > 0, neurons.reset, potential)
    potential[neurons.latency == 0] = neurons.origin[neurons.latency == 0]
    return StartStates(np.where(lost, 0, current), potential, waits, lost | (moves & ~held))


def _before(
    after: Int64Array, decay: Int64Array, shape: CoreShape
) -> tuple[Int64Array, NDArray[np.bool_]]:
    """Return the smallest values that decay to `after`, and whether they exist and fit.

    A decay of 0 forgets the value before; the result is then 0.
    """
    size = -((np.abs(after) << shape.decay_bits) // -np.maximum(decay, 1))
    fits = (size < 1 << (shape.state_bits - 1)) | (decay == 0)
    return np.where((decay > 0) & fits, np.sign(after) * size, 0), fits
