"""A network as the model of its author: weights and neuron dynamics per tick, in real numbers.

Time advances in ticks, as on the hardware (docs/core.md). A neuron with a time constant tau loses
tick / tau of its potential per tick, and one with tau_syn tick / tau_syn of its synaptic current,
which spikes charge and which charges the potential. For neurons without time constants (kinds I and
IF) time is counted in ticks: a spike of weight w charges the neuron by r w. Potentials are relative
to the reset potential, so every reset is to zero. A neuron spikes if its potential is above the
threshold (`strict`), as defined by NIR, or at least at it, as on the hardware with a threshold
given by the user.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from mapper.errors import MapperError, UsageError
from storage.formats.losses import Loss
from storage.store.neurons import SILENT, Neurons, read_neurons
from storage.store.populations import called

if TYPE_CHECKING:
    from storage.store.network import NetworkFile

Floats = NDArray[np.float64]
Int64 = NDArray[np.int64]
CURRENTS = ("CubaLI", "CubaLIF")
MEMORYLESS = ("Threshold", "Input", "Output")
LEAKY = ("LI", "LIF", *CURRENTS)
SUBTRACT, ZERO = "subtract", "zero"
PARAMETERS = ("threshold", "leak", "bias")
"""Parameters that the user can give for all neurons if the network has no neuron model."""


@dataclass(frozen=True, slots=True, eq=False)
class NeuronModel:
    """Neurons and synapses, of shape (neurons,) and (synapses,).

    source, target, weight : a spike of the source charges the target by its weight, one tick later
    current_decay, decay : part of the current and of the potential that is lost per tick, 0 .. 1;
        a current_decay of 1 means that weights charge the potential at once
    current_bias, bias : charge of the current and of the potential per tick
    threshold : infinite if a neuron never spikes
    potential : before the first tick
    strict : whether a neuron spikes only above its threshold
    subtract : whether a spike subtracts the threshold from the potential, or sets it to zero
    inputs : neurons that spike only on external input
    losses : parts of the network's model that are left out
    """

    source: Int64
    target: Int64
    weight: Floats
    current_decay: Floats
    decay: Floats
    current_bias: Floats
    bias: Floats
    threshold: Floats
    potential: Floats
    strict: bool
    subtract: bool
    inputs: NDArray[np.bool_]
    losses: tuple[Loss, ...]

    @property
    def neurons(self) -> int:
        return self.threshold.size


def read_model(network: NetworkFile, options: dict[str, Any]) -> NeuronModel:
    """Return the model of a network with synaptic weights.

    options : tick_length, in the unit of the time constants, and reset, "zero" or "subtract"; or
        threshold, leak and bias of all neurons, replacing the network's
    Raises `UsageError` for unsuitable or missing options.
    """
    given = [name for name in PARAMETERS if name in options]
    neurons = None if given else read_neurons(network)
    subtract = options.get("reset", ZERO) == SUBTRACT
    if neurons is not None:
        return _of_neurons(network, neurons, options.get("tick_length"), subtract)
    if "threshold" not in options:
        what = "--leak and --bias need a threshold" if given else (
            "the network has no neuron model"
        )  # fmt: skip
        raise UsageError(f"{network.path}: {what}; add --threshold")
    if options.get("tick_length") is not None:
        raise UsageError("--tick-length is for the time constants of a network; leave it out")
    n = network.vertices
    source, target, weight = _synapses(network)
    return NeuronModel(
        source, target, weight, np.ones(n),
        np.full(n, 0.0 if options.get("leak") is None else 0.5 ** options["leak"]),
        np.zeros(n),
        np.full(n, float(options.get("bias", 0))),
        np.full(n, float(options["threshold"])),
        np.zeros(n), False, subtract, np.zeros(n, np.bool_), (),
    )  # fmt: skip


def _of_neurons(
    network: NetworkFile, neurons: Neurons, tick: float | None, subtract: bool
) -> NeuronModel:
    values, leaky = neurons.parameters, neurons.of_kind(*LEAKY)
    if leaky.any() and tick is None:
        tau = float(values["tau"][leaky].min())
        raise UsageError(
            f"{network.path}: its neurons have time constants (the shortest is {tau:g}); give the "
            "length of a tick in their unit with --tick-length"
        )
    none, charge = np.zeros(network.vertices), values["r"] * values["w_in"]
    decay, current_decay = none.copy(), none + 1
    currents = neurons.of_kind(*CURRENTS)
    if tick is not None:
        decay[leaky] = _share(network, values["tau"], leaky, tick)
        current_decay[currents] = _share(network, values["tau_syn"], currents, tick)
        charge = charge * np.where(leaky, decay, 1.0) * current_decay
    decay[neurons.of_kind(*MEMORYLESS)] = 1.0
    reset = np.zeros_like(decay) if subtract else values["v_reset"]
    threshold = np.where(neurons.of_kind(*SILENT), np.inf, values["v_threshold"] - reset)
    source, target, weight = _synapses(network)
    return NeuronModel(
        source,
        target,
        weight * charge[target],
        current_decay,
        decay,
        np.where(currents, charge * values["bias"], 0.0),
        np.where(currents, 0.0, charge * values["bias"]) + decay * (values["v_leak"] - reset),
        threshold,
        -reset,
        True,
        subtract,
        neurons.of_kind("Input"),
        tuple(_losses(network)),
    )


def _share(network: NetworkFile, tau: Floats, where: NDArray[np.bool_], tick: float) -> Floats:
    """Return tick / tau of the neurons in `where`; raise `MapperError` if it is not in 0 .. 1."""
    known = tau[where]
    share = np.divide(tick, known, out=np.full(known.size, np.inf), where=known > 0)
    wrong = np.flatnonzero(share > 1)
    if wrong.size:
        name = called(network, int(np.flatnonzero(where)[wrong[0]]))
        raise MapperError(
            f"{network.path}: a tick of {tick:g} is longer than the time constant "
            f"{known[wrong[0]]:g} of {name} ({wrong.size} neurons); give a shorter --tick-length"
        )
    return share


def _losses(network: NetworkFile) -> list[Loss]:
    """Return model features that the import left out."""
    delays = int(network.meta.provenance.get("delays_left_out", 0))
    if not delays:
        return []
    return [Loss("delays", delays, f"no delays: {delays:,} left out by the import")]


def _synapses(network: NetworkFile) -> tuple[Int64, Int64, Floats]:
    parts = [network.read_synapses(index) for index in range(network.block_count)]
    source, target, weight = (np.concatenate(column) for column in zip(*parts, strict=True))
    return source, target, weight
