"""Search for the narrowest weights whose integers agree with a model on samples."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from hw.core.shape import CoreShape
from mapper.concurrency.threads import ThreadTeam
from mapper.monitoring.callbacks import OnFraction, ignore
from mapper.spiking.agreement import (
    OutputAgreement,
    PopulationAgreement,
    compare_outputs,
    compare_populations,
)
from mapper.spiking.integers import IntegerModel, IntegerOptions, MeasuredActivity, to_integers
from mapper.spiking.model import SpikingModel
from mapper.spiking.reference import ReferenceRun
from mapper.spiking.schedule import Schedule, in_ticks
from mapper.spiking.simulate import CoresMachine
from storage.samples.spikes import SpikeSamples

WEIGHT_BITS = (8, 10, 12, 16)
SUM_BITS_ABOVE_WEIGHTS = 10
"""Additional bits of sums: a thousand of the largest weights fit."""


class AgreementLimits(NamedTuple):
    """Least agreement of integers with the model on samples.

    same : part of the samples with the same class at every output
    cosine : mean cosine of the trains of every population, in bins of `ticks`
    ticks : one of `mapper.spiking.agreement.BINS`; 1 compares the ticks of the spikes
    """

    same: float = 0.99
    cosine: float = 0.95
    ticks: int = 1


class PrecisionTrial(NamedTuple):
    """Agreement of the integers of one precision."""

    weight_bits: int
    clip: bool
    populations: tuple[PopulationAgreement, ...]
    outputs: tuple[OutputAgreement, ...]

    def least_cosine(self, ticks: int) -> tuple[float, str]:
        """Return the least mean cosine in bins of `ticks`, and its population."""
        found = [
            (cosine.mean, each.name)
            for each in self.populations
            for cosine in each.cosines
            if cosine.ticks == ticks
        ]
        return min(found, default=(1.0, "no population"))

    def least_same(self) -> float:
        """Return the least part of the samples with the same class, of all outputs."""
        return min((each.same for each in self.outputs), default=1.0)

    def holds(self, limits: AgreementLimits) -> bool:
        """Return whether both limits are kept."""
        return (
            self.least_same() >= limits.same and self.least_cosine(limits.ticks)[0] >= limits.cosine
        )


class PrecisionSearch(NamedTuple):
    """The first integers that keep the limits, or with `missed` the best, and all trials.

    chosen : number of the trial of `integers`, None without samples
    missed : the limits that `integers` miss, in one line; "" if both hold
    """

    integers: IntegerModel
    trials: tuple[PrecisionTrial, ...]
    chosen: int | None
    missed: str = ""


class CalibratedModel(NamedTuple):
    """A model with its schedule, samples, and its run in real numbers on them."""

    model: SpikingModel
    schedule: Schedule
    samples: SpikeSamples
    run: ReferenceRun
    measured: MeasuredActivity


def search_precision(
    given: CalibratedModel,
    shape: CoreShape,
    options: IntegerOptions,
    limits: AgreementLimits,
    weight_bits: tuple[int, ...] = WEIGHT_BITS,
    progress: OnFraction = ignore,
) -> PrecisionSearch:
    """Try weights from narrow to wide, each also with clipping, until the limits hold.

    progress : called with the fraction of the tried widths

    Without integers that hold them, the best are returned, and `missed` names the population that
    loses most in them.
    """
    neural = [n for n, each in enumerate(given.model.populations) if each.dynamics is not None]
    team = ThreadTeam(1)
    trials: list[PrecisionTrial] = []
    tried: list[IntegerModel] = []
    for number, bits in enumerate(sorted(weight_bits)):
        progress(number / len(weight_bits))
        sums = max(shape.sum_bits, bits + SUM_BITS_ABOVE_WEIGHTS)
        wide = replace(shape, weight_bits=bits, sum_bits=sums)
        for clip in (False, True):
            integers = to_integers(
                given.model, given.schedule, wide, options._replace(clip=clip), given.measured
            )
            if clip and not integers.counts.clipped:
                continue  # the same integers as without
            machine = CoresMachine.unmapped(given.model, integers)
            run = machine.run(given.samples, neural, team)
            tried.append(integers)
            trials.append(
                PrecisionTrial(
                    bits,
                    clip,
                    compare_populations(given.model, given.samples, given.run, run),
                    compare_outputs(given.model, given.samples, given.run, run),
                )
            )
            if trials[-1].holds(limits):
                return PrecisionSearch(integers, tuple(trials), len(trials) - 1)
    agreement = [(each.least_same(), each.least_cosine(limits.ticks)[0]) for each in trials]
    best = agreement.index(max(agreement))
    return PrecisionSearch(tried[best], tuple(trials), best, _missed(trials[best], limits))


def _missed(best: PrecisionTrial, limits: AgreementLimits) -> str:
    """Return the agreement of the best trial next to the limits."""
    cosine, name = best.least_cosine(limits.ticks)
    return (
        f"the best weights have {best.weight_bits} bits, the same class in {best.least_same():.1%} "
        f"of the samples (limit {limits.same:.1%}) and a cosine of {cosine:.3f} in bins of "
        f"{in_ticks(limits.ticks)} (limit {limits.cosine:g}) in {name}, which loses most"
    )
