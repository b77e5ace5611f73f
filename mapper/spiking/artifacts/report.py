"""Read and write report.json of a compiled spiking model."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec

from mapper.results.output_folder import REPORT
from mapper.results.sealed_folder import read_model_report
from mapper.spiking.artifacts.manifest_file import KIND, Manifest
from mapper.spiking.artifacts.report_file import require_report
from storage.files import write_file

Report = dict[str, Any]
_COPIED = (
    "chip", "shape", "tick", "reset", "populations", "outputs", "neurons", "inputs", "counts",
    "limits", "trials", "chosen", "limits_missed", "notes", "cores", "lists",
)  # fmt: skip


def report_of(manifest: Manifest, command: list[str]) -> Report:
    """Return the report of a compilation; command : words of the command line."""
    whole = msgspec.to_builtins(manifest)
    copied = {name: whole[name] for name in _COPIED}
    return {"schema": 1, "kind": KIND, "model": manifest.model.name, "command": command, **copied}


def write_report(folder: Path, report: Report) -> None:
    """Write report.json."""
    write_file(folder / REPORT, (json.dumps(report, indent=1) + "\n").encode())


def with_simulation(report: Report, found: Report, rasters: list[Report]) -> Report:
    """Return a report with a simulation, in place of an earlier one.

    rasters : spikes of the first sample, from `first_sample`
    """
    return report | {"simulation": found, "rasters": rasters}


def read_report(folder: Path) -> Report:
    """Read report.json; raise `MapperError` if it is damaged."""
    return read_model_report(folder, KIND, "spiking model", require_report)
