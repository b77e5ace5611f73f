"""Integer parameters of a model for cores: scales, fraction bits, starts, and losses.

A neuron's weights are integers at its scale, weight = scale * real weight. Its currents, potentials
and biases have `shift` fraction bits more: as many as its state can hold.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple, Protocol

import numpy as np

from hw.core.network import SpikingNetwork
from hw.core.shape import CoreShape
from mapper.errors import DoesNotFitError, MapperError, UsageError
from mapper.spiking.model import Floats, NeuronDynamics, SpikingModel
from mapper.spiking.scales import (
    Int64Array,
    Per,
    RealSynapses,
    largest_scales,
    rounded_weights,
    scale_groups,
    to_units,
    weight_table,
    weight_units,
)
from mapper.spiking.starts import LateNeurons, start_states

if TYPE_CHECKING:
    from storage.samples.spikes import SpikeSamples

ASSUMED_SPIKES = 16  # of the largest weight at once, where no potential was measured
LONGEST_MEMORY = 256.0  # ticks in which such a potential may gather
SUM_MARGIN = 1e-3  # by which a scale is lowered below the bound of sums, relative


class ModelSchedule(Protocol):
    """When populations and connections act on the chip; see `mapper.spiking.schedule`."""

    @property
    def latency(self) -> tuple[int, ...]:
        """Ticks by which each population is late."""

    @property
    def delays(self) -> tuple[int, ...]:
        """Delay of the synapses of each connection."""


class IntegerOptions(NamedTuple):
    """How reals become integers.

    per : what shares a scale; channels of convolutions share one in any case
    clip : whether to clip the largest weights where this lowers the error of the weights
    headroom : factor on the largest potentials measured
    input_unit : real value of one input spike
    input_spikes : most spikes of an input in a tick
    """

    per: Per = "neuron"
    clip: bool = False
    headroom: float = 1.5
    input_unit: float = 1.0
    input_spikes: int = 1


class MeasuredActivity(NamedTuple):
    """Activity in a run of the model in real numbers.

    peak : largest magnitude of each neuron's current and potential, shape (neurons,)
    activity : spikes per tick of each neuron and input, shape (neurons + inputs,)
    """

    peak: Floats
    activity: Floats


class IntegerCounts(NamedTuple):
    """Synapses and neurons that the integers do not represent exactly, counted.

    synapses : connections with a weight other than 0
    clipped : weights beyond the largest integer
    zeroed : weights rounded to 0
    lowered : neurons with a smaller scale, as their states or sums are narrow
    leakless : neurons whose leak is rounded to none
    unsettled : neurons that start late and not at 0
    """

    synapses: int
    clipped: int
    zeroed: int
    lowered: int
    leakless: int
    unsettled: int


class IntegerModel(NamedTuple):
    """A model in integers.

    network : neurons of the populations in order, followed by the inputs
    shape : core that it fits
    scale : integers per unit of weight, of each neuron, shape (neurons,)
    latency : ticks by which each population is late
    """

    network: SpikingNetwork
    shape: CoreShape
    scale: Floats
    latency: tuple[int, ...]
    options: IntegerOptions
    counts: IntegerCounts

    def require_unit(self, samples: SpikeSamples) -> None:
        """Raise `MapperError` if spikes of samples have another real value than input spikes."""
        unit = self.options.input_unit
        if samples.unit != unit:
            raise MapperError(
                f"samples: a spike of an input is {samples.unit:g} of its weight, and the model "
                f"was converted for {unit:g}; use the same encoding for both"
            )

    @property
    def state_scale(self) -> Floats:
        """Integers per unit of potential and current, of each neuron."""
        return np.ldexp(self.scale, self.network.shift)


def to_integers(
    model: SpikingModel,
    schedule: ModelSchedule,
    shape: CoreShape,
    options: IntegerOptions,
    measured: MeasuredActivity | None = None,
) -> IntegerModel:
    """Return the model in the integers of a core.

    measured : None assumes potentials from thresholds and weights; what exceeds them saturates

    Raises `DoesNotFitError` naming the population whose latency or delays a core does not have, and
    `HwError` for other numbers beyond the core.
    """
    _require_ticks(model, schedule, shape)
    dynamics = _joined(model)
    synapses = _real_synapses(model, schedule, options.input_unit)
    scale, shift, lowered = _scales(model, dynamics, synapses, shape, options, measured)
    largest = (1 << (shape.weight_bits - 1)) - 1
    rounded = rounded_weights(synapses, scale)
    weight = np.clip(rounded, -largest, largest)
    kept = weight != 0
    network = SpikingNetwork(
        scale.size,
        synapses.source[kept],
        synapses.target[kept],
        weight[kept],
        delay=synapses.delay[kept],
        shift=shift,
        inputs=sum(model.populations[n].size for n in model.inputs),
        **_parameters(dynamics, np.ldexp(scale, shift), shape),
    )
    network, unsettled = _started(network, dynamics, _latencies(model, schedule), shape)
    network.require_fit(shape)
    real = synapses.weight != 0
    leaks = (dynamics.potential_decay < 1) & (network.potential_decay == shape.unity)
    counts = IntegerCounts(
        int(real.sum()),
        int((np.abs(rounded) > largest).sum()),
        int((real & ~kept).sum()),
        int(lowered.sum()),
        int(leaks.sum()),
        unsettled,
    )
    return IntegerModel(network, shape, scale, tuple(schedule.latency), options, counts)


def _require_ticks(model: SpikingModel, schedule: ModelSchedule, shape: CoreShape) -> None:
    """Raise `DoesNotFitError` for latencies and delays that cores do not have."""
    longest = (1 << shape.refractory_bits) - 1
    for population, late in zip(model.populations, schedule.latency, strict=True):
        if late > longest and population.dynamics is not None:
            raise DoesNotFitError(
                f"{population.name}: it starts {late} ticks late, and cores with "
                f"{shape.refractory_bits} refractory_bits wait {longest}; use more refractory_bits"
            )
    for connection, delay in zip(model.connections, schedule.delays, strict=True):
        if delay > shape.longest_delay:
            names = [model.populations[n].name for n in (connection.source, connection.target)]
            raise DoesNotFitError(
                f"{names[0]} to {names[1]}: its synapses need a delay of {delay} ticks, and cores "
                f"with {shape.delay_slots} delay_slots have {shape.longest_delay}; use more "
                "delay_slots"
            )


def _joined(model: SpikingModel) -> NeuronDynamics:
    """Return the dynamics of all neurons in one."""
    parts = [each.dynamics for each in model.populations if each.dynamics is not None]
    if not parts:
        raise UsageError("model: it has no neurons; give a model with IF, LIF or CubaLIF nodes")
    return NeuronDynamics(*(np.concatenate(column) for column in zip(*parts, strict=True)))


def _latencies(model: SpikingModel, schedule: ModelSchedule) -> Int64Array:
    """Return the latency of each neuron."""
    pairs = zip(model.populations, schedule.latency, strict=True)
    return np.concatenate([np.full(p.size, late) for p, late in pairs if p.dynamics is not None])


def _real_synapses(model: SpikingModel, schedule: ModelSchedule, unit: float) -> RealSynapses:
    """Return the synapses of all connections; synapses of inputs weight one spike."""
    first = model.first
    parts: list[tuple[np.ndarray, ...]] = []
    for connection, delay in zip(model.connections, schedule.delays, strict=True):
        found = connection.weights.tocoo()
        is_input = model.populations[connection.source].dynamics is None
        parts.append(
            (
                found.col.astype(np.int64) + first[connection.source],
                found.row.astype(np.int64) + first[connection.target],
                found.data * unit if is_input else found.data,
                np.full(found.nnz, delay, np.int64),
            )
        )
    if not parts:
        none = np.zeros(0, np.int64)
        return RealSynapses(none, none, np.zeros(0), none)
    return RealSynapses(*(np.concatenate(column) for column in zip(*parts, strict=True)))


def _scales(
    model: SpikingModel,
    dynamics: NeuronDynamics,
    synapses: RealSynapses,
    shape: CoreShape,
    options: IntegerOptions,
    measured: MeasuredActivity | None,
) -> tuple[Floats, Int64Array, np.ndarray]:
    """Return scale and shift of each neuron, and whether its scale is lowered."""
    group = scale_groups(model, synapses, options.per)
    table = weight_table(synapses, group, None if measured is None else measured.activity)
    largest = (1 << (shape.weight_bits - 1)) - 1
    units = weight_units(table, largest)
    wanted = largest_scales(table, largest, options.clip, units)
    peak = measured.peak if measured else _assumed_peaks(dynamics, synapses, options.input_spikes)
    held = np.maximum(_constants(dynamics), peak * options.headroom)
    extent = np.zeros(table.groups)
    np.maximum.at(extent, group, held)
    room = float((1 << (shape.state_bits - 1)) - 2)
    with np.errstate(divide="ignore"):
        bound = np.where(extent > 0, room / extent, np.inf)
    scale = to_units(np.minimum(wanted, bound), units)
    scale = _within_sums(scale, group, synapses, shape, options.input_spikes, units)
    scale[np.isinf(scale)] = 1.0  # nothing to represent
    with np.errstate(divide="ignore"):
        spare = np.floor(np.log2(np.minimum(bound / scale, 2.0**62)))
    shift = np.clip(spare, 0, (1 << shape.shift_bits) - 1).astype(np.int64)
    lowered = np.isfinite(wanted) & (scale < wanted)
    return scale[group], shift[group], lowered[group]


def _constants(dynamics: NeuronDynamics) -> Floats:
    """Return the largest magnitude among the parameters that states must hold."""
    threshold = np.where(dynamics.silent, 0.0, np.abs(dynamics.threshold))
    reset = np.where(dynamics.subtract, 0.0, np.abs(dynamics.reset))
    biases = np.maximum(np.abs(dynamics.current_bias), np.abs(dynamics.potential_bias))
    return np.maximum(np.maximum(threshold, reset), biases)


def _assumed_peaks(dynamics: NeuronDynamics, synapses: RealSynapses, input_spikes: int) -> Floats:
    """Return potentials of neurons that get a few of their largest weights in each tick.

    input_spikes : see `IntegerOptions`; an input adds its weight as often
    """
    size = dynamics.threshold.size
    added = np.abs(synapses.weight) * np.where(synapses.source < size, 1, input_spikes)
    top, total = np.zeros(size), np.zeros(size)
    np.maximum.at(top, synapses.target, added)
    np.add.at(total, synapses.target, added)
    memory = [
        np.minimum(1 / np.maximum(1 - decay, 1 / LONGEST_MEMORY), LONGEST_MEMORY)
        for decay in (dynamics.current_decay, dynamics.potential_decay)
    ]
    drive = np.minimum(total, ASSUMED_SPIKES * top)
    current = (drive + np.abs(dynamics.current_bias)) * memory[0]
    gathered = (current + np.abs(dynamics.potential_bias)) * memory[1]
    fires = np.where(dynamics.silent, 0.0, np.abs(dynamics.threshold)) + current
    return np.where(dynamics.silent, gathered, fires)


def _within_sums(
    scale: Floats,
    group: Int64Array,
    synapses: RealSynapses,
    shape: CoreShape,
    input_spikes: int,
    units: Floats,
) -> Floats:
    """Return scales at which the weights of all sources of a neuron fit in a sum."""
    scale = scale.copy()
    half = (1 << (shape.sum_bits - 1)) - 1
    largest = (1 << (shape.weight_bits - 1)) - 1
    spikes = np.where(synapses.source < group.size, 1, input_spikes)
    while True:
        weight = np.clip(rounded_weights(synapses, scale[group]), -largest, largest) * spikes
        worst = np.zeros(scale.size)
        for part in (np.maximum(weight, 0), np.maximum(-weight, 0)):
            total = np.bincount(synapses.target, part, group.size)
            np.maximum.at(worst, group, total)
        wide = worst > half
        if not wide.any():
            return scale
        lower = scale[wide] * (half / worst[wide]) * (1 - SUM_MARGIN)
        scale[wide] = to_units(lower, units[wide])


def _parameters(dynamics: NeuronDynamics, scale: Floats, shape: CoreShape) -> dict[str, Int64Array]:
    """Return the parameters of neurons at the scale of their states.

    A neuron without a leak that subtracts keeps its potential 1 too low: it then fires exactly
    above its threshold, although cores fire from a value on, and subtracts it exactly.
    """
    most = (1 << (shape.state_bits - 1)) - 1
    unity = shape.unity
    decays = [np.rint(each * unity).astype(np.int64) for each in dynamics[:2]]
    offset = _offset(dynamics, decays[1], unity)
    # Whole thresholds stay whole, although a product in floating point may be off a little.
    threshold = np.floor(np.round(np.where(dynamics.silent, 0.0, dynamics.threshold) * scale, 6))
    threshold = np.minimum(threshold.astype(np.int64) + 1 + offset, most)
    current_bias, potential_bias, reset = (
        np.rint(each * scale).astype(np.int64)
        for each in (dynamics.current_bias, dynamics.potential_bias, dynamics.reset)
    )
    return {
        "current_decay": decays[0],
        "potential_decay": decays[1],
        "threshold": np.where(dynamics.silent, most, threshold),
        "reset": np.where(dynamics.subtract, offset, reset),
        "current_bias": current_bias,
        "potential_bias": potential_bias,
        "subtract": dynamics.subtract.astype(np.int64),
        "silent": dynamics.silent.astype(np.int64),
    }


def _offset(dynamics: NeuronDynamics, decay: Int64Array, unity: int) -> Int64Array:
    """Return the integer potential that stands for 0."""
    return -(dynamics.subtract & ~dynamics.silent & (decay == unity)).astype(np.int64)


def _started(
    network: SpikingNetwork, dynamics: NeuronDynamics, latency: Int64Array, shape: CoreShape
) -> tuple[SpikingNetwork, int]:
    """Return the network with its states before the first tick, and how many are not at rest."""
    assert network.potential_decay is not None
    origin = _offset(dynamics, network.potential_decay, shape.unity)
    late = LateNeurons(
        latency, network.current_decay, network.potential_decay, network.current_bias,
        network.potential_bias, network.threshold, network.reset, origin,
    )  # fmt: skip
    start = start_states(late, shape)
    started = replace(network, current=start.current, potential=start.potential, waits=start.waits)
    return started, int(start.misses.sum())
