"""From an output folder to its page."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from chipsim.chip import Chip
from chipsim.presets import from_fields
from mapper.errors import MapperError
from mapper.output import read_report
from mapper.report.loads import TRAFFIC, Loads, differs, load_loads, save_loads
from mapper.report.page import render
from mapper.report.view import View, make_view
from storage.files import write_file

PAGE = "report.html"

Measure = Callable[[dict[str, Any], Chip], Loads]
"""Measures a mapping again, given its report and chip."""


def view_folder(folder: Path, measure: Measure, label: str | None = None) -> View:
    """The view of an output folder; where traffic.npz is missing it is measured and kept.

    Raises `MapperError` if the folder is not of a run, or its files do not belong together.
    """
    report = read_report(folder)
    chip = from_fields(report["chip"], f"{folder}: chip of the report")
    path = folder / TRAFFIC
    if path.exists():
        loads = load_loads(path, chip, report["metrics"])
    else:
        loads = measure(report, chip)
        if difference := differs(loads, report["metrics"]):
            raise MapperError(
                f"{folder}: {difference}: its mapping was exchanged; score it instead"
            )
        save_loads(path, loads)
    name = label or folder.resolve().name
    try:
        return make_view(name, report, loads)
    except (KeyError, TypeError) as error:
        raise MapperError(f"{folder}: report.json lacks {error}; run again") from error


def write_page(path: Path, views: list[View]) -> int:
    """Write the page of one or two views, whole or not at all; returns its size in bytes.

    Raises `MapperError` if a report is damaged, `WriteError` if the file can't be written.
    """
    try:
        page = render(views)
    except (KeyError, TypeError, AttributeError) as error:
        names = " or ".join(view.label for view in views)
        raise MapperError(f"report.json of {names} is damaged: {error!r}; run again") from error
    write_file(path, page)
    return len(page)
