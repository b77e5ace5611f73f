"""Discretisation of a NIR model in ticks by forward Euler, as frameworks compute it.

Time constants and resistances become decays, and factors of the weights and biases::

    CubaLIF, CubaLI : current_decay = 1 - tick / tau_syn, weights * w_in * tick / tau_syn
    LIF, LI, Cuba.. : potential_decay = 1 - tick / tau, weights * r * tick / tau
    IF, I           : potential_decay = 1, weights * r: their time counts in ticks
    Threshold       : potential_decay = 0; fires if the sum of its inputs is above the threshold
    Output          : potential_decay = 0, never fires; its potential is the sum of its inputs
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from scipy.sparse import csr_array

from mapper.errors import MapperError
from mapper.monitoring.resources import default_memory
from mapper.spiking.model import (
    Floats,
    ModelOutput,
    NeuronDynamics,
    SpikingConnection,
    SpikingModel,
    SpikingPopulation,
)

if TYPE_CHECKING:
    import nir

    from storage.formats.hdf5.nirmodel import NirModel, NirPopulation

ResetMode = Literal["zero", "subtract"]
TIME_CONSTANTS = ("tau", "tau_mem", "tau_syn")
MEMORYLESS_KINDS = ("Threshold", "Output")
ROUNDING = 1e-6  # relative error of times that a file stores as float32


def model_of_graph(
    graph: nir.NIRGraph | Path,
    tick: float | None = None,
    reset: ResetMode = "zero",
    notes: list[str] | None = None,
    memory: int | None = None,
) -> SpikingModel:
    """Read a NIR graph, or a file with one, and discretise it as `discretise` does.

    memory : budget in bytes for each parameter and matrix; None: the default
    """
    from storage.formats.hdf5.nirmodel import read_nir_model

    return discretise(read_nir_model(graph, memory or default_memory()), tick, reset, notes)


def discretise(
    source: NirModel,
    tick: float | None = None,
    reset: ResetMode = "zero",
    notes: list[str] | None = None,
) -> SpikingModel:
    """Return the model in ticks.

    tick : duration of a tick in the time unit of the file, by default the file's `dt`
    reset : to `v_reset`, or by subtraction of the threshold, for all neurons
    notes : gets a line if delays were rounded to whole ticks

    Raises `MapperError` if the tick is unknown, or longer than a time constant of a node.
    """
    step = _tick(source, tick)
    populations, gains = [], []
    for each, bias in zip(source.populations, source.bias, strict=True):
        dynamics, gain = None, np.ones(math.prod(each.shape))
        if each.kind != "Input":
            dynamics, gain = _dynamics(each, bias, step, reset == "subtract")
        populations.append(SpikingPopulation(each.name, each.kind, tuple(each.shape), dynamics))
        gains.append(gain)
    return SpikingModel(
        tuple(populations),
        _connections(source, gains, step, notes),
        tuple(ModelOutput(name, number) for name, number in source.outputs),
        step,
    )


def _tick(source: NirModel, tick: float | None) -> float:
    """Return the duration of a tick; 1 if the model has neither time constants nor delays."""
    if tick is None:
        tick = source.time_step
    if tick is not None:
        if not (tick > 0 and math.isfinite(tick)):
            raise MapperError(f"tick length {tick}: it is not a positive number; give one above 0")
        return float(tick)
    for each in source.populations:
        named = [name for name in TIME_CONSTANTS if name in each.parameters]
        if named:
            raise MapperError(
                f"{each.name}: its {named[0]} is in a unit of time, but the file gives no dt; "
                "give the length of a tick with --tick-length"
            )
    for connection in source.connections:
        if connection.delay:
            raise MapperError(
                f"{_title(source, connection)}: its delay of {connection.delay:g} is in a unit of "
                "time, but the file gives no dt; give the length of a tick with --tick-length"
            )
    return 1.0


def _dynamics(
    each: NirPopulation, bias: Floats | None, tick: float, subtract: bool
) -> tuple[NeuronDynamics, Floats]:
    """Return the dynamics of neurons, and the factor of the weights that lead to each."""
    size = math.prod(each.shape)
    given: dict[str, Floats] = each.parameters
    zeros, gain = np.zeros(size), np.ones(size)
    current_decay, potential_bias = zeros, zeros
    potential_decay = zeros if each.kind in MEMORYLESS_KINDS else gain
    if "r" in given:
        gain = gain * given["r"]
    tau = next((name for name in ("tau_mem", "tau") if name in given), None)
    if tau is not None:
        part = _part_per_tick(each, tau, tick)
        potential_decay, gain = 1 - part, gain * part
        potential_bias = part * given["v_leak"]
    if "tau_syn" in given:
        part = _part_per_tick(each, "tau_syn", tick)
        current_decay, gain = 1 - part, gain * part * given["w_in"]
    threshold = given.get("v_threshold", given.get("threshold"))
    return NeuronDynamics(
        current_decay,
        potential_decay,
        zeros if bias is None else bias * gain,
        potential_bias,
        zeros if threshold is None else np.asarray(threshold, np.float64),
        zeros if subtract else np.asarray(given.get("v_reset", zeros), np.float64),
        np.full(size, subtract),
        np.full(size, threshold is None),
    ), gain


def _part_per_tick(each: NirPopulation, name: str, tick: float) -> Floats:
    """Return tick / time constant, the part of a state that decays in a tick; near 1, it is 1."""
    tau = each.parameters[name]
    wrong = ~(tau > 0)
    if wrong.any():
        raise MapperError(
            f"{each.name}: {name} {tau[wrong][0]:g} is not positive ({wrong.sum()} such neurons); "
            "give time constants above 0"
        )
    part = tick / tau
    wrong = part > 1 + ROUNDING
    if wrong.any():
        raise MapperError(
            f"{each.name}: {name} {tau[wrong].min():g} is shorter than the tick of {tick:g} "
            f"({wrong.sum()} such neurons); use a shorter tick with --tick-length"
        )
    return np.where(part > 1 - ROUNDING, 1.0, part)


def _connections(
    source: NirModel, gains: list[Floats], tick: float, notes: list[str] | None
) -> tuple[SpikingConnection, ...]:
    """Return the connections with scaled weights, one per delay in ticks of a pair."""
    found: dict[tuple[int, int, int], Any] = {}
    rounded = []
    for each in source.connections:
        exact = each.delay / tick
        delay = round(exact)
        if abs(exact - delay) > ROUNDING * max(1.0, exact):
            rounded.append(f"{_title(source, each)} from {exact:g} to {delay}")
        weights = csr_array(each.weight, dtype=np.float64)
        scale = np.repeat(gains[each.target], np.diff(weights.indptr))
        scaled = csr_array(
            (weights.data * scale, weights.indices, weights.indptr), shape=weights.shape
        )
        key = (each.source, each.target, delay)
        found[key] = found[key] + scaled if key in found else scaled
    if rounded and notes is not None:
        notes.append(f"delays rounded to whole ticks: {len(rounded)}, first {rounded[0]}")
    return tuple(
        SpikingConnection(begin, end, weights, delay)
        for (begin, end, delay), weights in found.items()
    )


def _title(source: NirModel, connection: Any) -> str:
    begin, end = (source.populations[n].name for n in (connection.source, connection.target))
    return f"{begin} -> {end}"
