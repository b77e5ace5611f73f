"""Helpers that read the exported mapping: cores, attributes, synapses, spikes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from mapper.exports.core_numbers import CoreNumbers
from storage.store.network import NetworkFile
from tests.mapper.helpers import synapses_of

Array = np.ndarray[Any, Any]
N, WIDTH, HEIGHT = 40, 4, 3
CHIP = ("--chip", "mine.toml", "--preset", "fast", "--threads", "1", "-q")
TOML = """width = 4
height = 3
neurons = 8
unavailable = [11]
energy_router = 1.5
energy_link = 2.5
"""


def sanafe_chip(network: str = "a.yaml", arch: str = "a.arch.yaml") -> Any:
    """Return SANA-FE's simulator of exported files; skips the test without SANA-FE."""
    sanafe: Any = pytest.importorskip("sanafe")
    read = sanafe.load_arch(arch)
    chip = sanafe.SpikingChip(read)
    chip.load(sanafe.load_net(network, read))
    return chip


def sanafe_spikes(chip: Any, ticks: int, neurons: int) -> NDArray[np.bool_]:
    """Return the spikes of all neurons, shape (ticks, neurons)."""
    found = np.zeros((ticks, neurons), bool)
    for tick, spikes in enumerate(chip.sim(ticks, spike_trace=True)["spike_trace"]):
        for spike in spikes:
            found[tick, int(str(spike).split(".")[1])] = True
    return found


def spikes_of(
    numbers: CoreNumbers, told: NDArray[np.bool_], decay_bits: int = 12
) -> NDArray[np.bool_]:
    """Return the spikes of an integer network according to docs/core.md, without saturation.

    told : spikes of the inputs, shape (ticks, inputs); inputs spike only as told
    """
    network, inputs = numbers.network, np.flatnonzero(numbers.inputs)
    unity, kept = 1 << decay_bits, network.potential_decay
    assert kept is not None
    potential, spikes = network.potential.copy(), np.zeros(network.neurons, bool)
    current = network.current.copy()
    found = np.zeros((len(told), network.neurons), bool)
    for tick, row in enumerate(told):
        total = np.zeros(network.neurons, np.int64)
        np.add.at(total, network.target, network.weight * spikes[network.source])
        current = np.fix(current * network.current_decay / unity).astype(np.int64)
        current += (total << network.shift) + network.current_bias
        potential = np.fix(potential * kept / unity).astype(np.int64)
        potential += current + network.potential_bias
        spikes = (potential >= network.threshold) & (network.silent == 0)
        after = np.where(network.subtract == 1, potential - network.threshold, network.reset)
        potential = np.where(spikes, after, potential)
        assert not spikes[inputs].any()
        spikes[inputs] = row
        found[tick] = spikes
    return found


def core_of(out: Path) -> Array:
    with np.load(out / "mapping.npz") as file:
        core: Array = file["core"]
    return core


def attribute(name: str, path: str = "net.bin") -> list[int]:
    with NetworkFile(Path(path)) as network:
        return network.attribute(name).stored.tolist()


def synapses(path: str = "net.bin") -> dict[tuple[int, int], float]:
    return synapses_of(Path(path))
