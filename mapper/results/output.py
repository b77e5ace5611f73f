"""The files in the output folder of a run."""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from chipsim.chip.model import Chip
from chipsim.chip.presets import from_fields
from chipsim.errors import ChipError
from mapper.errors import MapperError
from mapper.limits.split_neurons import RelayNeurons
from mapper.monitoring.monitor import Monitor
from mapper.planning.strategy import enough_memory
from mapper.results.loads import TRAFFIC, Loads, save_loads
from mapper.results.mapping import Mapping
from mapper.results.mapping_file import save_mapping_in
from mapper.results.output_folder import IMPORTED
from mapper.results.output_folder import REPORT as REPORT
from mapper.results.population_file import save_populations
from mapper.results.population_table import population_facts
from mapper.results.report_file import MOST_REPORT_BYTES, SCHEMA, Report
from mapper.resume.checkpoint import completed_steps
from mapper.settings import Settings
from mapper.version import version
from storage.address import path_of
from storage.errors import BadInputError, StorageWarning
from storage.files import read_input, real_path, write_file
from storage.formats.losses import WEIGHTS_MISSING, WEIGHTS_NEGATIVE
from storage.jsontext import parse_json
from storage.scratch.scratch import Scratch
from storage.store.network import NetworkFile
from storage.store.traffic import (
    RATE_WEIGHTS,
    ROUNDED,
    SYNAPSE_WEIGHTS,
    WEIGHTS_ROUNDED,
    sum_error,
    traffic_of,
)
from storage.typed import convert

LOG, SCRATCH = "run.log", "scratch"
CONSTRAINTS = "constraints.toml"  # copy of the constraints of the run


@contextmanager
def scratch_in(folder: Path) -> Iterator[Scratch]:
    """Open the scratch of a run; warn if the scratch of an earlier run is damaged."""
    scratch = Scratch(folder)
    if scratch.dropped:
        warnings.warn(f"{folder}: {_describe_loss(scratch)}", StorageWarning, stacklevel=3)
    with scratch:
        yield scratch


def _describe_loss(scratch: Scratch) -> str:
    """Describe the losses in the scratch of an earlier run, and where the run continues."""
    done = completed_steps(scratch.names())
    lost = [step for step in completed_steps(scratch.lost) if step not in done]
    text = f"{scratch.dropped:,} bytes of the earlier run are damaged or incomplete"
    if scratch.lost:
        text += f", with {len(scratch.lost):,} {'record' if len(scratch.lost) == 1 else 'records'}"
    if lost:
        some = f"{len(lost)} steps ({lost[0]} to {lost[-1]})"
        text += f" and the results of {some if len(lost) > 1 else f'step {lost[0]}'}"
    return f"{text}; the run continues {f'after step {done[-1]}' if done else 'from the start'}"


def network_of(folder: Path, moved: Path | None, report: dict[str, Any]) -> Path:
    """Return the network of an output folder: the one given, its original path, or the copy."""
    network = moved or path_of(report["network"]["path"])
    beside = folder / IMPORTED  # the copy remains when the folder is moved
    return beside if not network.exists() and beside.exists() else network


NOTED = ("columns", "columns_ignored", *ROUNDED)
"""Entries of a network's provenance that its report includes."""


def network_facts(network: NetworkFile, path: Path) -> dict[str, Any]:
    """Return the `network` entry of report.json."""
    meta = network.meta
    return {
        "path": str(real_path(path)),
        **dict(zip(("bytes", "checksum"), network.identity, strict=True)),
        "neurons": meta.neurons,
        "synapses": meta.synapses,
        "synapses_read": meta.synapses_read,
        "self_loops": meta.self_loops,
        "repeated": meta.repeated,
        "weights_clamped": meta.weights_clamped,
        "weights_negative": meta.provenance.get(WEIGHTS_NEGATIVE, 0),
        "weights_missing": meta.provenance.get(WEIGHTS_MISSING, 0),
        **{k: v for k, v in meta.provenance.items() if k in NOTED},
        **({"sum_error": sum_error(meta)} if WEIGHTS_ROUNDED in meta.provenance else {}),
        "undirected": meta.undirected,
        "weight_total": real(meta.total_weight, meta.weight_unit),
        "weights_are": SYNAPSE_WEIGHTS if meta.synaptic else RATE_WEIGHTS,
        "traffic": traffic_of(meta),
    }


def real(stored: int, unit: float) -> int | float:
    """Convert a stored sum to its real unit; whole numbers stay whole."""
    return stored if unit == 1.0 else stored * unit


def _in_units(entry: dict[str, Any], unit: float, rate_unit: float) -> dict[str, Any]:
    """Convert the sums of a stage or level from stored to real units."""
    entry = dict(entry)
    for name in ("cut_weight", "hops_total"):
        if entry.get(name) is not None:
            entry[name] = real(entry[name], unit)
    for way in ("core", "multicast"):
        if way in entry:
            entry[way] = {name: real(value, rate_unit) for name, value in entry[way].items()}
    return entry


def make_report(
    network: NetworkFile,
    path: Path,
    chip: Chip,
    settings: Settings,
    mapping: Mapping,
    monitor: Monitor,
    relays: RelayNeurons | None = None,
    command: Sequence[str] = (),
) -> dict[str, Any]:
    """Return report.json as an object (schema 1).

    relays : relays of split neurons, for the entry `split`; None if neurons were not split
    command : words of the command line, for the entry `command`; empty without a command line

    An interrupted run gets the entry `interrupted`: the stage that was running.
    """
    units = network.meta.weight_unit, mapping.traffic.rate_unit
    report = {
        "schema": SCHEMA,
        "tool": {"name": "mapper", "version": version()},
        "network": network_facts(network, path),
        "chip": chip.to_json(),
        "settings": settings.to_json(),
        "metrics": mapping.metrics,
        "levels": [_in_units(level, *units) for level in monitor.levels],
        "stages": [_in_units(stage, *units) for stage in monitor.stages],
        "resources": monitor.resources(),
    }
    if relays is not None:
        report["split"] = relays.facts()
    if monitor.sample is not None:
        thin = monitor.sample.thin
        enough = enough_memory(network, chip, settings) if thin else None
        report["sample"] = monitor.sample.facts(enough)
    if mapping.baselines is not None:
        report["baselines"] = baseline_facts(chip, mapping.metrics, mapping.baselines)
    if mapping.populations is not None:
        loads = Loads.of(mapping.traffic)
        report["populations"] = population_facts(chip, loads, mapping.populations)
    if mapping.interrupted:
        report["interrupted"] = mapping.interrupted
    if command:
        report["command"] = list(command)
    return report


HOPS = {"synapse": "hops_total", "core": "core.hops_total", "tree": "multicast.hops_total"}
"""Name of the hops of the packets that a chip sends, by its delivery."""


def baseline_facts(chip: Chip, metrics: dict[str, Any], ratios: dict[str, float]) -> dict[str, Any]:
    """Return the entry `baselines` of report.json: hops in the unit of the metric."""
    part, _, name = HOPS[chip.delivery].rpartition(".")
    hops = (metrics[part] if part else metrics)[name]
    found = {name: ratios[name] * hops for name in ("in_order", "random", "lower_bound")}
    return {"metric": HOPS[chip.delivery], **found, "sampled": ratios["sampled"]}


def write_results(
    folder: Path,
    report: dict[str, Any],
    mapping: Mapping,
    chip: Chip,
    relays: RelayNeurons | None = None,
) -> None:
    """Write the mapping, traffic.npz, populations.npz and report.json into the folder."""
    save_mapping_in(folder, mapping.core, chip, relays)
    save_loads(folder / TRAFFIC, Loads.of(mapping.traffic))
    save_populations(folder, mapping.populations)
    write_report(folder, report)


def write_report(folder: Path, report: dict[str, Any]) -> None:
    """Write report.json of an output folder."""
    write_file(folder / REPORT, (json.dumps(report, indent=1) + "\n").encode())


def read_report(folder: Path) -> dict[str, Any]:
    """Read report.json of an output folder; raises `MapperError` if it is missing or damaged."""
    path = folder / REPORT
    if not path.exists():
        raise MapperError(f"{folder}: has no {REPORT}; name the output folder of a run")
    try:
        report = parse_json(read_input(path, MOST_REPORT_BYTES))
    except BadInputError as error:
        raise MapperError(str(error)) from error
    except ValueError as error:
        raise MapperError(f"{path}: is not valid JSON ({error}); run again") from error
    schema = report.get("schema") if isinstance(report, dict) else None
    if type(schema) is not int or schema != SCHEMA:
        raise MapperError(f"{path}: schema is not {SCHEMA}; run again")
    try:
        convert(report, Report)
        from_fields(report["chip"])
    except (ValueError, ChipError) as error:
        raise MapperError(f"{path}: {error}; run again") from error
    return dict(report)
