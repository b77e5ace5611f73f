"""Between networks of the hardware and the files of `mapper`."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from hw.network import SpikingNetwork
from storage.writer import NetworkWriter


def save_traffic(path: Path, network: SpikingNetwork, spikes: NDArray[np.bool_]) -> None:
    """Write the network file by which `mapper` maps a network: its weights are its traffic.

    spikes : of a run without a chip, shape (ticks, neurons) (`hw.arithmetic.simulate`). A synapse
        has the weight of the spikes of its source; that of a silent one is 0, but it is kept.

    Inputs are left out, since they are on no core.
    """
    between = network.source < network.neurons
    source, target = network.source[between], network.target[between]
    pairs = np.unique(np.stack([source, target]), axis=1)  # a spike goes there once
    rate = spikes.sum(axis=0)
    with NetworkWriter(path, network.neurons) as writer:
        writer.add(pairs[0], pairs[1], rate[pairs[0]])
        writer.set_attribute("rate", rate)
        writer.finish()
