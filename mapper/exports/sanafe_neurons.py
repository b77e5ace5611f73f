"""Hardware neurons as SANA-FE neurons: the same spikes from its leaky integrate-and-fire model.

Its model (LoihiLifModel of SANA-FE 2.2) differs from the cores' model (docs/core.md) in these ways:
a neuron spikes above the threshold, not at it; there is no leak in the first tick; synaptic
currents keep fractions, and start at 0 without a bias; nothing saturates. Potentials are multiples
of 2^-6, truncated towards zero after each leak, as in the cores. So an integer of a core is written
as that many 64ths, with these changes:

* Thresholds are half a unit lower. A reset by subtraction subtracts the threshold, so potentials
  are one unit higher instead where they do not leak: v + 1 is above t exactly if v is at least t.
  Where they leak, v + 1 would round otherwise, so the neuron spikes a unit above its threshold.
* Initial potentials have already leaked once.
* The bias of a current that decays is added to the potential as the current that it settles at.
"""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hw.core.arithmetic import decayed
from hw.core.network import SpikingNetwork
from hw.core.shape import CoreShape
from storage.formats.losses import Loss

UNIT = 1 / 64
"""Unit of SANA-FE's potentials."""
Int64 = NDArray[np.int64]


class LifNeurons(NamedTuple):
    """Attributes of SANA-FE's neurons, each ndarray[float64], shape (neurons,)."""

    threshold: NDArray[np.float64]
    bias: NDArray[np.float64]
    leak_decay: NDArray[np.float64]
    input_decay: NDArray[np.float64]
    reset: NDArray[np.float64]
    potential: NDArray[np.float64]
    soft: NDArray[np.bool_]


def potential_bias(network: SpikingNetwork, shape: CoreShape) -> Int64:
    """Return the bias of each potential, with the settled current of a bias of the current."""
    held = network.dynamics(shape)[:, 0]
    settled = network.current_bias / np.maximum(1 - held / shape.unity, 1 / shape.unity)
    return np.trunc(settled).astype(np.int64) + network.potential_bias


def lif_neurons(network: SpikingNetwork, shape: CoreShape) -> tuple[LifNeurons, list[Loss]]:
    """Convert the neurons of a network of cores of a shape; return them with the losses."""
    held, kept = network.dynamics(shape)[:, :2].T
    soft = (network.subtract == 1) & (kept > 0)  # neurons without memory are reset anyway
    offset = np.where(soft & (kept == shape.unity), 1, 0)
    potential = decayed(network.potential, kept, shape.decay_bits)
    threshold = np.where(soft, network.threshold, network.threshold + offset - 0.5)
    found = LifNeurons(
        threshold=threshold.astype(np.float64) * UNIT,
        bias=potential_bias(network, shape).astype(np.float64) * UNIT,
        leak_decay=kept / shape.unity,
        input_decay=held / shape.unity,
        reset=network.reset.astype(np.float64) * UNIT,
        potential=(potential + offset).astype(np.float64) * UNIT,
        soft=soft,
    )
    late = int(np.count_nonzero(soft & (kept < shape.unity)))
    currents = int(np.count_nonzero(held))
    charged = int(np.count_nonzero((held > 0) & (network.current_bias != 0)))
    losses = [
        Loss("at_threshold", late, f"no threshold that {late:,} leaking neurons with reset by "
             "subtraction can reach: they spike above it"),
        Loss("currents", currents, f"no rounding of synaptic currents: {currents:,} neurons "
             "keep fractions of them"),
        Loss("current_bias", charged, f"no bias of synaptic currents: for {charged:,} neurons it "
             "is added to the potential from the first tick"),
    ]  # fmt: skip
    return found, [loss for loss in losses if loss.count]


def neuron_lines(neurons: LifNeurons, unit: Int64) -> str:
    """Return the YAML of all neurons: one line per input, one per run of equal other neurons.

    unit : number of the hardware unit of an input in its core, else -1; shape (neurons,)
    """
    numbers = (
        neurons.threshold, neurons.bias, neurons.leak_decay, neurons.input_decay, neurons.reset,
    )  # fmt: skip
    columns = np.column_stack([*numbers, neurons.potential, neurons.soft, unit])
    differ = np.any(columns[1:] != columns[:-1], axis=1) | (unit[1:] >= 0)
    new = np.flatnonzero(differ) + 1
    lines = []
    for first, stop in pairwise([0, *new.tolist(), len(columns)]):
        threshold, bias, decay, current, reset, potential, soft, own = columns[first].tolist()
        kept = f"input_decay: {current!r}, " if current else ""
        about = (
            f"soma_hw_name: 'input[{int(own)}]'"
            if own >= 0
            else f"threshold: {threshold!r}, bias: {bias!r}, leak_decay: {decay!r}, {kept}"
            f"reset: {reset!r}, reset_mode: {'soft' if soft else 'hard'}, potential: {potential!r}"
        )
        name = str(first) if stop == first + 1 else f"{first}..{stop - 1}"
        lines.append(f"        - {name}: {{{about}}}\n")
    return "".join(lines)
