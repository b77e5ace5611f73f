"""Compile a spiking model into a folder, for the command and for Python."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from chipsim.chip.model import Chip
from mapper.cache.catalogue import Catalogue
from mapper.inputs.listener import Listener
from mapper.monitoring.resources import all_cores
from mapper.reporting.make import PAGE
from mapper.reporting.spiking.page import render_spiking
from mapper.spiking.artifacts.folder import ModelSource, SpikingFolder, write_folder
from mapper.spiking.artifacts.manifest_file import Manifest
from mapper.spiking.artifacts.report import Report, report_of, write_report
from mapper.spiking.pipeline import SampleSource, SpikingOptions, compile_for_chip
from storage.files import write_file

if TYPE_CHECKING:
    import nir

ASSUMED = (
    "sizes of potentials are assumed; add samples with --calibrate to measure them and to choose "
    "the weight bits"
)


def compile_into(
    folder: Path,
    model: nir.NIRGraph | Path,
    chip: Chip,
    samples: SampleSource | None,
    options: SpikingOptions,
    command: Sequence[str],
    listener: Listener,
) -> SpikingFolder:
    """Compile a model, and write the integers, the report and its page to an empty folder.

    samples : of the calibration, None without one
    command : words for report.json

    Raises the errors of `compile_for_chip`.
    """
    if samples is not None:
        listener.compile(["spiking/compile"], all_cores())
    mapped = compile_for_chip(model, chip, samples, options, listener)
    written = write_folder(folder, ModelSource.of(model), mapped, chip, options)
    write_page(folder, report_of(written.manifest, list(command)))
    return written


def write_page(folder: Path, report: Report) -> None:
    """Write report.json and its page."""
    write_report(folder, report)
    write_file(folder / PAGE, render_spiking(report))


def notes_of(found: SpikingFolder) -> list[str]:
    """Return a line for each number that was rounded, omitted or assumed."""
    return [ASSUMED] * (found.manifest.chosen is None) + found.manifest.notes


def add_to_catalogue(
    model: Path, folder: Path, manifest: Manifest, settings: Mapping[str, Any], seconds: float
) -> None:
    """Add a compiled model to the catalogue. model : path of its file; settings : given options"""
    figures = {"neurons": manifest.neurons, "cores": len(manifest.cores)}
    Catalogue.of_user().add(
        "compile", model, folder, manifest.chip["name"], settings, figures, seconds
    )
