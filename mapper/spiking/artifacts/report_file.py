"""The schema of report.json of a compiled spiking model: checked when it is read."""

from __future__ import annotations

from dataclasses import fields
from typing import Any, Literal

from msgspec import UNSET, Struct, UnsetType

from hw.core.shape import CoreShape
from hw.errors import HwError
from mapper.spiking.artifacts.manifest_file import (
    CoreEntry,
    CountsEntry,
    LimitsEntry,
    ListsEntry,
    OutputEntry,
    OutputTrial,
    PopulationEntry,
    PopulationTrial,
    Sha256,
    Share,
    Size,
    TrialEntry,
)
from storage.typed import Amount, Whole, convert


class ChipEntry(Struct):
    """The chip, as in its file; other fields are kept."""

    name: str
    width: Size
    height: Size


class OutputResult(Struct):
    """Spikes of an output, and samples by class; labels and accuracy if the samples have labels."""

    name: str
    spikes: list[Whole]
    samples: list[Whole]
    classes: list[Whole]
    accuracy: Share | UnsetType = UNSET
    labels: list[Whole] | UnsetType = UNSET


class ModelAgreement(Struct):
    """Agreement with the model in floating point, of `--check`."""

    populations: list[PopulationTrial]
    outputs: list[OutputTrial]


class CyclesEntry(Struct):
    """Cycles per tick, of `--cycles`."""

    mean: Amount
    p50: Amount
    p99: Amount
    max: Whole
    ended_by_neurons: Whole
    ended_by_spikes: Whole
    packets_per_tick: Amount
    host_packets_per_tick: Amount
    link_flits_per_tick_max: Amount


class EnergyEntry(Struct):
    """Energy of all samples by part; lacks : names of the unknown parts."""

    sum: Amount
    lacks: str
    unit: str
    network: Amount | UnsetType = UNSET
    events: Amount | UnsetType = UNSET
    neurons: Amount | UnsetType = UNSET


class SpikingSimulation(Struct):
    """The last simulation."""

    samples: Size
    ticks: Size
    outputs: list[OutputResult]
    spikes: Whole
    events: Whole
    saturated: dict[str, Whole]
    sha256: Sha256
    elements: Whole | UnsetType = UNSET
    differences: Whole | UnsetType = UNSET
    model: ModelAgreement | UnsetType = UNSET
    cycles: CyclesEntry | UnsetType = UNSET
    energy: EnergyEntry | UnsetType = UNSET
    hardware: dict[str, Whole] | UnsetType = UNSET


class RasterEntry(Struct):
    """Spikes of a population in the first sample: (tick, neuron) of its first neurons."""

    population: str
    neurons: Size
    of: Size
    ticks: Size
    chip: list[tuple[Whole, Whole]]
    model: list[tuple[Whole, Whole]]


class SpikingReport(Struct):
    """report.json of a compiled spiking model; fields as in manifest.json."""

    schema: Literal[1]
    kind: Literal["spiking"]
    model: str
    command: list[str]
    chip: ChipEntry
    shape: dict[str, int]
    tick: Amount
    reset: Literal["zero", "subtract"]
    populations: list[PopulationEntry]
    outputs: list[OutputEntry]
    neurons: Size
    inputs: Size
    counts: CountsEntry
    limits: LimitsEntry
    trials: list[TrialEntry]
    chosen: Whole | None
    limits_missed: str
    notes: list[str]
    cores: list[CoreEntry]
    lists: list[ListsEntry]
    simulation: SpikingSimulation | UnsetType = UNSET
    rasters: list[RasterEntry] | UnsetType = UNSET


def require_report(value: Any) -> None:
    """Raise `ValueError` that names the invalid field if this is not such a report."""
    report = convert(value, SpikingReport)
    if report.chosen is not None and report.chosen >= len(report.trials):
        raise ValueError(f"chosen is {report.chosen}, but there are {len(report.trials)} trials")
    if report.shape.keys() != {each.name for each in fields(CoreShape)}:
        raise ValueError("shape has other fields than a core")
    try:
        CoreShape(**report.shape)
    except HwError as error:
        raise ValueError(f"shape: {error}") from error
    if report.simulation is not UNSET:
        for output in report.simulation.outputs:
            labels = output.spikes if output.labels is UNSET else output.labels
            if not len(output.spikes) == len(output.samples) == len(labels):
                raise ValueError(f"the numbers of classes of {output.name} differ")
