"""Hardware neurons as SANA-FE neurons: the same spikes from its leaky integrate-and-fire model.

Its model (LoihiLifModel of SANA-FE 2.2) has no synaptic currents, and differs from the cores' model
(docs/core.md) in three ways: a neuron spikes above the threshold, not at it; there is no leak in
the first tick; nothing saturates. Potentials are multiples of 2^-6, truncated towards zero after
each leak, as in the cores. So an integer of a core is written as that many 64ths, with these
changes:

* Thresholds are half a unit lower. A reset by subtraction subtracts the threshold, so potentials
  are one unit higher instead where they do not leak: v + 1 is above t exactly if v is at least t.
  Where they leak, v + 1 would round otherwise, so the neuron spikes a unit above its threshold.
* Initial potentials have already leaked once.
"""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hw.core.arithmetic import decayed
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
    kept = network.dynamics(shape)[:, 1]
    soft = (network.subtract == 1) & (kept > 0)  # neurons without memory are reset anyway
    offset = np.where(soft & (kept == shape.unity), 1, 0)
    potential = decayed(network.potential, kept, shape.decay_bits)
    threshold = np.where(soft, network.threshold, network.threshold + offset - 0.5)
    bias = network.current_bias + network.potential_bias
    found = LifNeurons(
        threshold=threshold.astype(np.float64) * UNIT,
        bias=bias.astype(np.float64) * UNIT,
        leak_decay=kept / shape.unity,
        reset=network.reset.astype(np.float64) * UNIT,
        potential=(potential + offset).astype(np.float64) * UNIT,
        soft=soft,
    )
    late = int(np.count_nonzero(soft & (kept < shape.unity)))
    currents = int(np.count_nonzero(network.current_decay))
    losses = [
        Loss("at_threshold", late, f"no threshold that {late:,} leaking neurons with reset by "
             "subtraction can reach: they spike above it"),
        Loss("currents", currents, f"no synaptic currents: left out for {currents:,} neurons, the "
             "charge of a spike arrives at once"),
    ]  # fmt: skip
    return found, [loss for loss in losses if loss.count]


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
