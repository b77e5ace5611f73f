"""Neurons of the hardware as SANA-FE's: the same spikes from its leaky integrate-and-fire model.

Its model (LoihiLifModel of SANA-FE 2.2) differs from that of the cores (docs/core.md) in four ways:
potentials are multiples of 1/64, cut off towards zero after each leak; a spike comes above the
threshold, not at it; there is no leak in the first tick; nothing saturates. So a number of a core
is written as that many 64ths, and

* a threshold, as half a unit less. A reset by subtraction takes the threshold itself, so there
  potentials are one unit higher instead: v + 1 is above t exactly if v is at t.
* a leak v - (v >> k) rounds up, a cut towards zero rounds down what is positive. A potential that
  is higher by c = 1 + m 2^k all the time leaks to that of the core plus c - (1 + m) (the fraction
  that c adds, 1 - 2^-k, turns down into up), so 1 + m is added to the bias. With m so large that no
  potential falls below zero it is exact; a reset by subtraction leaves no choice but m = 0, which
  is exact from -1 up.
"""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hw.core.network import NO_LEAK
from hw.core.shape import CoreShape
from mapper.exports.core_numbers import CoreNumbers
from storage.formats.losses import Loss

UNIT = 1 / 64
"""What SANA-FE's potentials are multiples of."""
Int64 = NDArray[np.int64]


class LifNeurons(NamedTuple):
    """Attributes of SANA-FE's neurons, each ndarray[float64], shape (neurons,)."""

    threshold: NDArray[np.float64]
    bias: NDArray[np.float64]
    leak_decay: NDArray[np.float64]
    reset: NDArray[np.float64]
    potential: NDArray[np.float64]
    soft: NDArray[np.bool_]


def lif_neurons(numbers: CoreNumbers, shape: CoreShape) -> tuple[LifNeurons, list[Loss]]:
    """The neurons of a network of cores of a shape, and what of them is not the same."""
    network = numbers.network
    leak = np.full(network.neurons, NO_LEAK) if network.leak is None else network.leak
    keeps, leaks = leak == NO_LEAK, leak > 0
    soft = (network.subtract == 1) & (leak != 0)  # what keeps nothing is reset anyway
    shift = np.maximum(leak, 0)
    half = 1 << (shape.potential_bits - 1)
    m = np.where(leaks & ~soft, -(-half >> shift), 0)
    offset = np.where(leaks, 1 + (m << shift), np.where(keeps & soft, 1, 0))
    more = np.where(leaks, 1 + m, 0)
    leaked = np.where(keeps, network.potential, network.potential - (network.potential >> shift))
    threshold = np.where(soft, network.threshold, network.threshold + offset - 0.5)
    found = LifNeurons(
        threshold=threshold.astype(np.float64) * UNIT,
        bias=(network.bias + more).astype(np.float64) * UNIT,
        leak_decay=np.where(keeps, 1.0, 1 - np.ldexp(1.0, -shift)).astype(np.float64),
        reset=np.where(soft, 0, offset).astype(np.float64) * UNIT,
        potential=(leaked + offset - more).astype(np.float64) * UNIT,
        soft=soft,
    )
    inhibited = np.zeros(network.neurons, np.bool_)
    inhibited[network.target[network.weight < 0]] = True
    rough = int(np.count_nonzero(leaks & soft & (inhibited | (network.bias < 0))))
    text = (
        f"no leak that rounds up: potentials below zero of {rough:,} neurons that reset by "
        "subtraction round the other way"
    )
    return found, [Loss("leak_below_zero", rough, text)] if rough else []


def neuron_lines(neurons: LifNeurons, unit: Int64) -> str:
    """The YAML of all neurons: inputs have a line each, others one for all alike in a row.

    unit : of an input the number of its hardware unit in its core, else -1; shape (neurons,)
    """
    numbers = (neurons.threshold, neurons.bias, neurons.leak_decay, neurons.reset)
    columns = np.column_stack([*numbers, neurons.potential, neurons.soft, unit])
    differ = np.any(columns[1:] != columns[:-1], axis=1) | (unit[1:] >= 0)
    new = np.flatnonzero(differ) + 1
    lines = []
    for first, stop in pairwise([0, *new.tolist(), len(columns)]):
        threshold, bias, decay, reset, potential, soft, own = columns[first].tolist()
        about = (
            f"soma_hw_name: 'input[{int(own)}]'"
            if own >= 0
            else f"threshold: {threshold!r}, bias: {bias!r}, leak_decay: {decay!r}, "
            f"reset: {reset!r}, reset_mode: {'soft' if soft else 'hard'}, potential: {potential!r}"
        )
        name = str(first) if stop == first + 1 else f"{first}..{stop - 1}"
        lines.append(f"        - {name}: {{{about}}}\n")
    return "".join(lines)
