"""Spiking cores with one wrong constant or condition: random networks find every one."""

from __future__ import annotations

import sys

import pytest

from tests.hw.core_runs import check_core
from tests.hw.faulty import Fault, each_fault, symptom
from tests.hw.networks import TINY

NETWORKS = 60
"""Number of networks in which a fault must show."""
BENCH = "tests.hw.core_bench"


def fault(module: str, old: str, new: str) -> Fault:
    return Fault(module, old, new, package="hw.core")


FAULTS = [
    # Sums
    fault("accumulator", "self.slot + 1 + synapse.delay", "self.slot + 1"),
    fault("accumulator", "self.slot + 1 + synapse.delay", "self.slot + 2 + synapse.delay"),
    fault("accumulator", "neuron.eq(self.base + synapse.neuron)", "neuron.eq(synapse.neuron)"),
    fault("accumulator", "again.eq(valid[2] & (holding", "again.eq(0 & (holding"),
    fault("accumulator", "third_again.eq(valid[3] &", "third_again.eq(0 &"),
    fault("accumulator", "Mux(second_again, last, before_last)", "last"),
    fault("accumulator", "holding.address == adding.address",
          "holding.address[:2] == adding.address[:2]"),
    fault("accumulator", "swept_total - swept_mark", "swept_total"),
    fault("accumulator", "marking.eq(waits & self.hold)", "marking.eq(0)"),
    fault("accumulator", "marked.eq(asked)", "marked.eq(address)"),
    fault("accumulator", "writes.eq(valid[2] | loads)", "writes.eq(valid[2])"),
    fault("accumulator", "write.data.eq(Mux(loads, 0, swept_total))", "write.data.eq(swept_total)"),
    # Neurons
    fault("neuron", "((product < 0) & product[:bits].any())", "(product < 0)"),
    fault("neuron", "((product < 0) & product[:bits].any())", "product[:bits].any()"),
    fault("neuron", "state[3].current * decay.current_decay",
          "state[3].current * decay.potential_decay"),
    fault("neuron", "total[3] << decay.shift", "total[2] << decay.shift"),
    fault("neuron", "charge + own[4].current_bias", "charge + own[3].current_bias"),
    fault("neuron", "+ own[4].potential_bias", "+ own[5].potential_bias"),
    fault("neuron", "biased + current,", "kept_potential + current,"),
    fault("neuron", "saturated(kept_current + drive, shape.state)", "kept_current + drive"),
    fault("neuron", "saturated(biased + current, shape.state)", "biased + current"),
    fault("neuron", "Mux(fires, capped, charged)", "Mux(fires, rest, charged)"),
    fault("neuron", "(rest >= 0) & ~waiting", "(rest > 0) & ~waiting"),
    fault("neuron", "& ~waiting & ~shared.silent", "& ~shared.silent"),
    fault("neuron", "& ~shared.silent", ""),
    fault("neuron", "waiting | (fires & ~shared.subtract)", "fires & ~shared.subtract"),
    fault("neuron", "(fires & ~shared.subtract)", "fires"),
    fault("neuron", "waits - waiting)", "waits)"),
    fault("neuron", "self.after.current.eq(current_too)", "self.after.current.eq(current)"),
    fault("neuron", "self.number.eq(own[1].profile)", "self.number.eq(own[2].profile)"),
    # Sweep and lists
    fault("sweep", "self.neuron + 1 == self.used", "self.neuron + 2 == self.used"),
    fault("sweep", "stages[-1] & update.fires", "stages[-2] & update.fires"),
    fault("sweep", "LATENCY = STAGES + 1", "LATENCY = STAGES"),
    fault("lists", "with m.If(begin):", "with m.If(known):"),
    fault("lists", "running.eq(remain != 1)", "running.eq(remain > 2)"),
    # Core
    fault("core", "slot.eq(slot + 1)", "slot.eq(slot + 2)"),
    fault("core", "accumulator.base.eq(receiver.base)", "accumulator.base.eq(0)"),
]  # fmt: skip
SOUND = fault("core", "SPIKES = 2\n", "SPIKES = 2\n\n")


def found_by(fault: Fault) -> str | None:
    """Return the first symptom of a fault; None without one."""
    return symptom(fault, BENCH, TINY, range(NETWORKS), check_core)


@pytest.mark.slow_hw
@pytest.mark.jit
@each_fault(FAULTS)
def test_faults_are_found(fault: Fault) -> None:
    assert found_by(fault) is not None, f"no network shows {fault.new!r}"


@pytest.mark.slow_hw
@pytest.mark.jit
def test_a_sound_core_is_not_at_fault() -> None:
    """An import without a fault, in the same way: differences do not come from the import."""
    before = set(sys.modules)
    assert found_by(SOUND) is None
    assert set(sys.modules) >= before
