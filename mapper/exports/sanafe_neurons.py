"""Hardware neurons as SANA-FE neurons: the same spikes from its leaky integrate-and-fire model.

Its model (LoihiLifModel of SANA-FE 2.2) differs from the cores' model (docs/core.md) in four ways:
potentials are multiples of 1/64, truncated towards zero after each leak; a neuron spikes above the
threshold, not at it; there is no leak in the first tick; nothing saturates. So an integer of a core
is written as that many 64ths, with these changes:

* Thresholds are half a unit lower. A reset by subtraction subtracts the threshold, so there
  potentials are one unit higher instead: v + 1 is above t exactly if v is at least t.
* The leak v - (v >> k) rounds up, truncation towards zero rounds positive values down. A potential
  that is always higher by c = 1 + m 2^k leaks to the core's potential plus c - (1 + m) (the
  fraction that c adds, 1 - 2^-k, turns rounding down into rounding up), so 1 + m is added to the
  bias. It is exact if m is large enough to keep all potentials nonnegative; a reset by subtraction
  requires m = 0, which is exact from -1 up.
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
"""Unit of SANA-FE's potentials."""
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
    """Convert the neurons of a network of cores of a shape; return them with the losses."""
    network = numbers.network
    leak = np.full(network.neurons, NO_LEAK) if network.leak is None else network.leak
    keeps, leaks = leak == NO_LEAK, leak > 0
    soft = (network.subtract == 1) & (leak != 0)  # neurons without memory are reset anyway
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
        f"no leak that rounds up: negative potentials of {rough:,} neurons with reset by "
        "subtraction round the other way"
    )
    return found, [Loss("leak_below_zero", rough, text)] if rough else []


def neuron_lines(neurons: LifNeurons, unit: Int64) -> str:
    """Return the YAML of all neurons: one line per input, one per run of equal other neurons.

    unit : number of the hardware unit of an input in its core, else -1; shape (neurons,)
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
