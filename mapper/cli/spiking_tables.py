"""Output of commands on compiled spiking models: summaries and tables."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Protocol

from rich.table import Table

from mapper.results.summary import GAP, Row, next_steps, summary
from mapper.results.tables import columns, facts
from mapper.spiking.artifacts.manifest_file import Manifest, TrialEntry
from mapper.spiking.artifacts.simulate import CoresCheck
from mapper.spiking.schedule import in_ticks

MEMORIES = ("neurons", "axons", "routes", "synapses", "profiles")
"""Memories of a core: fields of `CoreEntry` and of `CoreShape`."""
CYCLE_NAMES = {
    "mean": "mean",
    "p50": "median",
    "p99": "99th percentile",
    "max": "maximum",
    "ended_by_neurons": "ticks that end with a neuron update",
    "ended_by_spikes": "ticks that end with a synaptic event",
    "packets_per_tick": "packets per tick",
    "host_packets_per_tick": "packets to the host per tick",
    "link_flits_per_tick_max": "flits per tick on the busiest link",
}
MOST_ROWS = 6  # populations in a summary


class ComparedTrains(Protocol):
    """Agreement of a population with the model."""

    @property
    def name(self) -> str: ...
    @property
    def expected(self) -> int: ...
    @property
    def found(self) -> int: ...
    @property
    def cosines(self) -> Sequence[Any]: ...
    @property
    def diverges(self) -> int | None: ...


def compiled_tables(manifest: Manifest) -> list[Table]:
    """Return all tables of a compiled model."""
    shape, chosen = manifest.shape, _chosen(manifest)
    rows: dict[str, Any] = {
        "neurons": manifest.neurons,
        "inputs": manifest.inputs,
        "synapses": manifest.counts.synapses,
        "tick": manifest.tick,
        "reset": manifest.reset,
        "weight bits": shape["weight_bits"],
        "state bits": shape["state_bits"],
        "delay slots": shape["delay_slots"],
    }
    if manifest.limits_missed:
        rows["misses limits"] = manifest.limits_missed
    chip = manifest.chip
    title = f"{manifest.model.name} on {chip['name']}, {chip['width']}x{chip['height']} cores"
    heads = ("population", "kind", "shape", "first neuron", "latency")
    populations = [
        (each.name, each.kind, "x".join(map(str, each.shape)), each.first, each.latency)
        for each in manifest.populations
    ]
    cores = [
        (str(each.core), *(getattr(each, name) for name in MEMORIES)) for each in manifest.cores
    ]
    tables = [facts(title, rows), columns("populations", heads, populations)]
    if manifest.trials:
        tried = ("weight bits", "clipped", "same class", "least cosine", "in population")
        body = [_trial(one, manifest) for one in manifest.trials]
        tables.append(columns("precisions tried", tried, body))
    if chosen is not None:
        tables.append(agreement_table("agreement with the model", chosen.populations))
    memories = ("core", "neurons", "axons", "routes", "synapse words", "profiles")
    limits = [shape[name] for name in MEMORIES]
    return [*tables, columns("cores", memories, [*cores, ("limit", *limits)])]


def compiled_summary(manifest: Manifest, title: str, folder: Path) -> Table:
    """Return the summary of a compiled model."""
    chosen, cores = _chosen(manifest), manifest.cores
    words = sum(each.synapses for each in cores)
    rows = [
        Row("neurons", manifest.neurons, f"in {_count(_neural(manifest), 'population')}"),
        Row("synapses", manifest.counts.synapses, f"in {words:,} words of shared lists"),
        Row("cores", len(cores), f"of {manifest.chip['width'] * manifest.chip['height']:,}"),
        Row("weight bits", manifest.shape["weight_bits"], _tries(len(manifest.trials))),
    ]
    if chosen is not None:
        same = min((each.same for each in chosen.outputs), default=1.0)
        least, name = _least_cosine(chosen, manifest)
        bins = in_ticks(manifest.limits.ticks)
        rows += [
            GAP,
            Row("same class", f"{same:.1%}", "as the model, on the calibration samples"),
            Row("spike trains", f"{least:.3f}", f"cosine in bins of {bins}, least in {name}"),
        ]
        rows += accuracy_rows(chosen.outputs)
    if manifest.limits_missed:
        rows.append(Row("misses limits", "", manifest.limits_missed))
    name, used, room = _fullest(manifest)
    rows += [GAP, Row("fullest memory", f"{used / room:.0%}", f"{name}: {used:,} of {room:,}")]
    rows += next_steps("", "--details", f"mapper simulate {folder} --input DATA --check")
    return summary(title, rows)


def agreement_table(title: str, rows: Iterable[ComparedTrains]) -> Table:
    """Return a table of the agreement of each population with the model."""
    found = list(rows)
    bins = [each.ticks for each in found[0].cosines] if found else []
    heads = (
        "population", "spikes", "of the model", *(f"cosine, {in_ticks(each)}" for each in bins),
        "first difference",
    )  # fmt: skip
    return columns(
        title, heads,
        [
            (
                each.name, each.found, each.expected,
                *(f"{cosine.mean:.3f}" for cosine in each.cosines),
                "none" if each.diverges is None else f"tick {each.diverges}",
            )
            for each in found
        ],
    )  # fmt: skip


def accuracy_rows(outputs: Iterable[Any]) -> list[Row]:
    """Return the accuracy of each output, next to the accuracy of the model."""
    return [
        Row("accuracy", f"{each.found:.1%}", f"in floating point {each.expected:.1%}")
        for each in outputs
        if each.found is not None and each.expected is not None
    ]


def _chosen(manifest: Manifest) -> TrialEntry | None:
    return None if manifest.chosen is None else manifest.trials[manifest.chosen]


def _least_cosine(trial: TrialEntry, manifest: Manifest) -> tuple[float, str]:
    """Return the least mean cosine of a population, and its name."""
    cosines = _cosines(trial.populations, manifest.limits.ticks)
    return next(iter(cosines), (1.0, "no population"))


def _trial(one: TrialEntry, manifest: Manifest) -> tuple[Any, ...]:
    least, name = _least_cosine(one, manifest)
    same = min((each.same for each in one.outputs), default=1.0)
    return str(one.weight_bits), one.clip, f"{same:.1%}", f"{least:.3f}", name


def _neural(manifest: Manifest) -> int:
    return sum(each.kind != "Input" for each in manifest.populations)


def _tries(count: int) -> str:
    return f"{_count(count, 'precision')} tried" if count else ""


def _count(number: int, name: str) -> str:
    return f"{number} {name}{'s' * (number != 1)}"


def _fullest(manifest: Manifest) -> tuple[str, int, int]:
    """Return name, largest use and size of the memory with the highest use."""
    found = [
        (
            "synapse words" if name == "synapses" else name,
            max(getattr(each, name) for each in manifest.cores),
            manifest.shape[name],
        )
        for name in MEMORIES
    ]
    return max(found, key=lambda each: each[1] / each[2])


def simulated_tables(found: dict[str, Any], check: CoresCheck | None, title: str) -> list[Table]:
    """Return all tables of a simulation; found : its JSON object."""
    rows: dict[str, Any] = {
        "samples": found["samples"],
        "ticks per sample": found["ticks"],
        "spikes": found["spikes"],
        "synaptic events": found["events"],
        "SHA-256 of results": found["sha256"],
    }
    tables = [facts(title, rows)]
    for output in found["outputs"]:
        heads = ("class", "spikes", "samples", *(["labels"] if "labels" in output else []))
        body = zip(
            map(str, range(len(output["spikes"]))), output["spikes"], output["samples"],
            *([output["labels"]] if "labels" in output else []), strict=True,
        )  # fmt: skip
        tables.append(columns(f"classes of {output['name']}", heads, list(body)))
    clipped = [(name, count) for name, count in found["saturated"].items() if count]
    if clipped:
        heads = ("population", "ticks of neurons")
        tables.append(columns("saturated currents and potentials", heads, clipped))
    if check is not None:
        tables.append(agreement_table("agreement with the model", check.populations))
    if "cycles" in found:
        named = {CYCLE_NAMES[name]: value for name, value in found["cycles"].items()}
        tables.append(facts("cycles per tick", named))
    if "energy" in found:
        known = {name: value for name, value in found["energy"].items() if value != ""}
        tables.append(facts("energy of all samples", known))
    if "hardware" in found:
        tables.append(facts("Amaranth simulation, equal to the simulators", found["hardware"]))
    return tables


def simulated_summary(
    found: dict[str, Any], check: CoresCheck | None, title: str, ticks: int
) -> Table:
    """Return the summary of a simulation.

    found : its JSON object; ticks : of the bins in which spike trains are compared
    """
    rows = [Row("samples", found["samples"], f"of {_count(found['ticks'], 'tick')}")]
    rows += [
        Row("accuracy", f"{output['accuracy']:.1%}", f"at {output['name']}")
        for output in found["outputs"]
        if "accuracy" in output and check is None
    ]
    clipped = sum(found["saturated"].values())
    rows += [
        Row("spikes", found["spikes"]),
        Row("synaptic events", found["events"]),
        Row("saturated", clipped, "ticks of neurons with a clipped value"),
    ]
    if check is not None:
        rows += [GAP, Row("spikes compared", check.spikes, _differing(check.differences))]
        rows += [Row("same class", f"{each.same:.1%}", f"as the model, at {each.name}")
                 for each in check.outputs]  # fmt: skip
        rows += accuracy_rows(check.outputs)
        rows += [
            Row("spike trains", f"{mean:.3f}", f"cosine in bins of {in_ticks(ticks)}, {name}")
            for mean, name in _cosines(check.populations, ticks)[:MOST_ROWS]
        ]
    if "cycles" in found:
        cycles = found["cycles"]
        rows += [
            GAP,
            Row("cycles per tick", cycles["mean"], f"on average, at most {cycles['max']:,}"),
        ]
    if "energy" in found:
        energy = found["energy"]
        about = f"{energy['unit']} per sample" + (
            f", without {energy['lacks']}" * bool(energy["lacks"])
        )
        rows.append(Row("energy", energy["sum"] / found["samples"], about))
    if "hardware" in found:
        equal = found["hardware"]
        samples = _count(equal["samples"], "sample")
        rows.append(Row("Amaranth", equal["cycles"], f"cycles of {samples}, all spikes equal"))
        rows.append(Row("", equal["heard"], "spikes of outputs received by the host"))
    rows += [GAP, Row("SHA-256", "", f"{found['sha256'][:16]}... of the results")]
    return summary(title, [*rows, *next_steps("", "--details")])


def _differing(differences: int) -> str:
    return "equal to the integer reference" if not differences else f"{differences:,} differ"


def _cosines(rows: Iterable[ComparedTrains], ticks: int) -> list[tuple[float, str]]:
    """Return the mean cosine of each population in bins of `ticks`, the least first."""
    found = [(cosine.mean, each.name) for each in rows for cosine in each.cosines
             if cosine.ticks == ticks]  # fmt: skip
    return sorted(found)
