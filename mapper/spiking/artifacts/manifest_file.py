"""The schema of manifest.json of a compiled spiking model: checked when it is read."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

from storage.typed import Amount, Whole

SCHEMA, KIND = 1, "spiking"
Sha256 = Annotated[str, Meta(pattern="^[0-9a-f]{64}$", description="a SHA-256")]
Size = Annotated[int, Meta(ge=1, le=1 << 32)]
Latency = Annotated[int, Meta(ge=-1, le=1 << 16)]
Share = Annotated[float, Meta(ge=0, le=1)]


class ModelFile(Struct):
    """The file that was compiled."""

    name: str
    sha256: Sha256


class PopulationEntry(Struct):
    """A population: neurons first .. first + size - 1, or inputs that follow all neurons.

    latency : ticks by which its spikes are later than in the model
    """

    name: str
    kind: str
    shape: list[Size]
    first: Whole
    latency: Latency


class OutputEntry(Struct):
    """An output of the model, and the number of its population.

    axon : axon of the packets to the host for spikes of the first neuron, the other neurons follow;
        None for an output that is potentials
    """

    name: str
    population: Whole
    axon: Whole | None


class LimitsEntry(Struct):
    """Least agreement on the calibration samples: `AgreementLimits`."""

    same: float
    cosine: Share
    ticks: Size


class CosineEntry(Struct):
    """Cosine of spike trains in bins of `ticks`, over the samples."""

    ticks: Size
    mean: Share
    least: Share


class PopulationTrial(Struct):
    """Agreement of a population with the model in floating point.

    expected, found : spikes of the model, and of the integers
    diverges : first tick that differs in a sample, None if all are equal
    """

    name: str
    expected: Whole
    found: Whole
    cosines: list[CosineEntry]
    diverges: Whole | None


class OutputTrial(Struct):
    """Agreement of an output with the model in floating point.

    same : part of the samples with the same class
    expected, found : accuracy of the model, and of the integers; None without labels
    """

    name: str
    same: Share
    expected: Share | None
    found: Share | None


class TrialEntry(Struct):
    """Agreement of one precision on the calibration samples."""

    weight_bits: Size
    clip: bool
    populations: list[PopulationTrial]
    outputs: list[OutputTrial]


class ScalesEntry(Struct):
    """How reals became integers: `IntegerOptions`."""

    per: Literal["neuron", "population"]
    clip: bool
    headroom: Amount
    input_unit: Amount
    input_spikes: Size


class EncodingEntry(Struct):
    """How real numbers become spikes: `storage.samples.encoding.Encoding`."""

    method: Literal["current", "rate", "latency"]
    ticks: Size
    seed: Whole


class CountsEntry(Struct):
    """Weights and neurons that the integers do not represent exactly: `IntegerCounts`."""

    synapses: Whole
    clipped: Whole
    zeroed: Whole
    lowered: Whole
    leakless: Whole
    unsettled: Whole


class CoreEntry(Struct):
    """Words used in the memories of a core with neurons, and the hash of its tables."""

    core: Whole
    neurons: Size
    axons: Whole
    routes: Whole
    synapses: Whole
    profiles: Size
    sha256: Sha256


class ListsEntry(Struct):
    """Synapse words of the lists from one population to another, on all cores.

    words : in memory; a word that lists of several sources share counts once, for the first
    synapses : that the words stand for
    cores : with such words
    """

    source: str
    target: str
    words: Whole
    synapses: Size
    cores: Size


class Manifest(Struct):
    """A compiled spiking model.

    tick : duration of a tick in the time unit of the model
    chip, shape : fields of `Chip` and of `CoreShape`
    limits : agreement that the search of `trials` required
    trials, chosen : precisions that were tried, and the number of the one in the folder
    limits_missed : limits that it misses, "" if none
    encoding : of samples that hold real numbers, None for samples of spikes
    files : SHA-256 of each other file
    """

    schema: int
    kind: Literal["spiking"]
    tool: str
    model: ModelFile
    tick: Annotated[float, Meta(gt=0, lt=1e308)]
    reset: Literal["zero", "subtract"]
    encoding: EncodingEntry | None
    chip: dict[str, Any]
    shape: dict[str, int]
    populations: list[PopulationEntry]
    outputs: list[OutputEntry]
    neurons: Size
    inputs: Size
    scales: ScalesEntry
    counts: CountsEntry
    limits: LimitsEntry
    trials: list[TrialEntry]
    chosen: Whole | None
    limits_missed: str
    notes: list[str]
    cores: list[CoreEntry]
    lists: list[ListsEntry]
    files: dict[str, Sha256]
