"""Check the integers of a compiled spiking model against the model of the folder.

The stored scale of each neuron and its fraction bits are given; every weight, decay, bias, reset
value and threshold must then be the integer nearest to the number of the model, and the losses must
be as counted. This code shares none with the conversion (`mapper.spiking.integers`).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mapper.errors import CheckFailedError
from mapper.results.sealed_folder import MANIFEST
from mapper.spiking.artifacts.folder import INTEGERS, SpikingFolder
from mapper.spiking.schedule import schedule

Floats = NDArray[np.float64]
Int64 = NDArray[np.int64]
NEAREST = 0.5 + 1e-6
"""Distance of an integer from its real number, at most."""
WHOLE = 1e-6  # by which a product of a whole threshold may be off
NAMED = {
    "current_decay": "decay of the current",
    "potential_decay": "decay of the potential",
    "current_bias": "bias of the current",
    "potential_bias": "bias of the potential",
}


def verify_integers(folder: SpikingFolder) -> int:
    """Return how many numbers of neurons and synapses are right.

    Raises `CheckFailedError` naming the first wrong neuron or synapse, with its population.
    """
    network = folder.integers.network
    real = _parameters(folder)
    scale = folder.integers.scale * np.exp2(network.shift)
    unity = folder.integers.shape.unity
    kept = network.dynamics(folder.integers.shape)
    stored = {
        "current_decay": kept[:, 0], "potential_decay": kept[:, 1],
        "current_bias": network.current_bias, "potential_bias": network.potential_bias,
    }  # fmt: skip
    for name, values in stored.items():
        wanted = real[name] * (unity if name.endswith("decay") else scale)
        _require(folder, np.abs(values - wanted) <= NEAREST, NAMED[name], values, wanted)
    for name in ("subtract", "silent"):
        _require(folder, getattr(network, name) == real[name], name, getattr(network, name),
                 real[name])  # fmt: skip
    _require(folder, network.refractory == 0, "refractory ticks", network.refractory, 0 * scale)
    # Without a leak, potentials are one lower, so that a threshold is exact and subtracted.
    origin = -((real["subtract"] > 0) & (real["silent"] == 0) & (kept[:, 1] == unity)).astype(int)
    wanted = np.where(real["subtract"] > 0, origin, real["reset"] * scale)
    _require(folder, np.abs(network.reset - wanted) <= NEAREST, "reset", network.reset, wanted)
    _require_thresholds(folder, real, scale, origin)
    unsettled = _unsettled(folder, origin)
    leakless = int(((real["potential_decay"] < 1) & (kept[:, 1] == unity)).sum())
    numbers = _require_weights(folder)
    _require_count(folder, "unsettled", unsettled)
    _require_count(folder, "leakless", leakless)
    return numbers + 9 * network.neurons


def _parameters(folder: SpikingFolder) -> dict[str, Floats]:
    """Return the real parameters of all neurons by name, each of shape (neurons,)."""
    own = [each.dynamics for each in folder.model.populations if each.dynamics is not None]
    return {
        name: np.concatenate([np.asarray(getattr(each, name), np.float64) for each in own])
        for name in own[0]._fields
    }


def _require_thresholds(
    folder: SpikingFolder, real: dict[str, Floats], scale: Floats, origin: Int64
) -> None:
    """Each threshold is the least integer potential that stands for one above the model's."""
    network = folder.integers.network
    most = (1 << (folder.integers.shape.state_bits - 1)) - 1
    level = real["threshold"] * scale
    least = network.threshold - origin
    right = (least > level - WHOLE) & (least - 1 <= level + WHOLE)
    right |= (network.threshold == most) & ((network.silent == 1) | (level + 1 + origin >= most))
    _require(folder, right, "threshold", network.threshold, level + origin)


def _unsettled(folder: SpikingFolder, origin: Int64) -> int:
    """Return how many neurons are not at rest when their population starts, without inputs."""
    network, shape = folder.integers.network, folder.integers.shape
    latency = np.concatenate(
        [
            np.full(each.size, late)
            for each, late in zip(folder.model.populations, folder.integers.latency, strict=True)
            if each.dynamics is not None
        ]
    )
    kept = network.dynamics(shape)
    current, potential, waits = network.current, network.potential, network.waits
    fired = np.zeros(latency.size, bool)
    for tick in range(int(latency.max(initial=0))):
        late = latency > tick
        charge = np.sign(current) * ((np.abs(current) * kept[:, 0]) >> shape.decay_bits)
        charge = charge + network.current_bias
        value = np.sign(potential) * ((np.abs(potential) * kept[:, 1]) >> shape.decay_bits)
        value = value + charge + network.potential_bias
        fired |= late & (waits == 0) & (value >= network.threshold) & (network.silent == 0)
        potential = np.where(late, np.where(waits > 0, network.reset, value), potential)
        current = np.where(late, charge, current)
        waits = np.where(late, np.maximum(waits - 1, 0), waits)
    moved = (current != 0) & (kept[:, 0] > 0)
    moved |= (potential != origin) & (kept[:, 1] > 0)
    return int((fired | moved | (waits > 0)).sum())


def _require_weights(folder: SpikingFolder) -> int:
    """Each synapse has the nearest integer of its weight; return the number of weights."""
    integers = folder.integers
    network = integers.network
    source, target, delay, weight = _real_synapses(folder)
    wanted = weight * integers.scale[target]
    key = _keys(folder, source, target, delay)
    stored = _keys(folder, network.source, network.target, network.delay)
    order = np.argsort(key)
    for values in (np.sort(stored), key[order]):
        if (np.diff(values) == 0).any():
            raise _wrong(folder, "has a synapse twice")
    at = np.searchsorted(key, stored, sorter=order)
    known = at < key.size
    known[known] = key[order[at[known]]] == stored[known]
    for row in np.flatnonzero(~known)[:1].tolist():
        ends = [_name(folder, int(each[row])) for each in (network.source, network.target)]
        raise _wrong(
            folder, f"the model has no synapse from {ends[0]} to {ends[1]} with a delay of "
            f"{network.delay[row]} ticks",
        )  # fmt: skip
    found = np.zeros(key.size, np.int64)
    found[order[at]] = network.weight
    largest = (1 << (integers.shape.weight_bits - 1)) - 1
    nearest = np.clip(wanted, -largest, largest)
    for row in np.flatnonzero(np.abs(found - nearest) > NEAREST)[:1].tolist():
        ends = [_name(folder, int(each[row])) for each in (source, target)]
        raise _wrong(
            folder, f"the weight from {ends[0]} to {ends[1]} is {found[row]}, and the model's is "
            f"{nearest[row]:.6g} at its scale",
        )  # fmt: skip
    real = int((weight != 0).sum())
    beyond = np.abs(wanted) - largest - 0.5
    clipped = folder.manifest.counts.clipped
    least, most = (int((beyond > each).sum()) for each in (WHOLE, -WHOLE))
    _require_count(folder, "clipped", min(max(clipped, least), most))
    _require_count(folder, "synapses", real)
    _require_count(folder, "zeroed", real - network.weight.size)
    return real


def _real_synapses(folder: SpikingFolder) -> tuple[Int64, Int64, Int64, Floats]:
    """Return source, target, delay on the chip and real weight of a spike, of all synapses."""
    model, integers = folder.model, folder.integers
    none = np.zeros(0, np.int64)
    parts: list[tuple[Any, ...]] = [(none, none, none, np.zeros(0))]
    delays = schedule(model, integers.shape.longest_delay).delays
    for each, delay in zip(model.connections, delays, strict=True):
        found = each.weights.tocoo()
        given = model.populations[each.source].dynamics is None
        parts.append(
            (
                found.col.astype(np.int64) + model.first[each.source],
                found.row.astype(np.int64) + model.first[each.target],
                np.full(found.nnz, delay),
                found.data * (integers.options.input_unit if given else 1.0),
            )
        )
    source, target, late, weight = (np.concatenate(each) for each in zip(*parts, strict=True))
    return source, target, late, weight


def _keys(folder: SpikingFolder, source: Int64, target: Int64, delay: Int64) -> Int64:
    """Return a number of each synapse by its target, source and delay."""
    network, slots = folder.integers.network, folder.integers.shape.delay_slots
    return (target * (network.neurons + network.inputs) + source) * slots + delay


def _require(
    folder: SpikingFolder, right: NDArray[np.bool_], name: str, values: Int64, wanted: Any
) -> None:
    """Raise `CheckFailedError` that names the first neuron with a wrong number."""
    for neuron in np.flatnonzero(~right)[:1].tolist():
        raise _wrong(
            folder, f"the {name} of {_name(folder, neuron)} is {values[neuron]}, and the model's "
            f"is {wanted[neuron]:.6g} at its scale",
        )  # fmt: skip


def _wrong(folder: SpikingFolder, text: str) -> CheckFailedError:
    return CheckFailedError(f"{folder.path / INTEGERS}: {text}; compile the model again")


def _require_count(folder: SpikingFolder, name: str, found: int) -> None:
    stored = getattr(folder.manifest.counts, name)
    if stored != found:
        raise CheckFailedError(
            f"{folder.path / MANIFEST}: counts {stored:,} as {name}, and there are {found:,}; "
            "compile the model again"
        )


def _name(folder: SpikingFolder, neuron: int) -> str:
    """Return the population of a neuron or input, and its place there."""
    for each, first in zip(folder.model.populations, folder.model.first, strict=True):
        if first <= neuron < first + each.size:
            return f"{each.name}[{neuron - first}]"
    return str(neuron)
