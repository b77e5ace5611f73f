"""Make the page of an output folder."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from chipsim.chip.model import Chip
from chipsim.chip.presets import from_fields
from mapper.errors import MapperError
from mapper.reporting.members import PageNeurons
from mapper.reporting.page import render
from mapper.reporting.view import View, make_view
from mapper.results.activity import traffic_in
from mapper.results.loads import TRAFFIC, Loads, differs, load_loads, save_loads
from mapper.results.mapping_file import load_mapping, load_relays, mapping_in
from mapper.results.output import read_report
from mapper.results.population_file import load_populations
from mapper.results.tables import number
from storage.files import write_file
from storage.store.traffic import describe

PAGE = "report.html"

Measure = Callable[[dict[str, Any], Chip], Loads]
"""Function that measures a mapping again, given its report and chip."""


def view_folder(folder: Path, measure: Measure, label: str | None = None) -> View:
    """Return the view of an output folder; if traffic.npz is missing, measure and store it.

    Raises `MapperError` if the folder is not the output of a run, or its files do not match.
    """
    report = read_report(folder)
    chip = from_fields(report["chip"], f"{folder}: chip of the report")
    path = folder / TRAFFIC
    if path.exists():
        loads = load_loads(path, chip, report["metrics"])
    else:
        loads = measure(report, chip)
        if difference := differs(loads, report["metrics"]):
            raise MapperError(f"{folder}: {difference}: the mapping was replaced; score it instead")
        save_loads(path, loads)
    members = _members(folder, report, chip)
    name = label or folder.resolve().name
    try:
        return make_view(name, report, loads, members)
    except (KeyError, TypeError) as error:
        raise MapperError(f"{folder}: report.json lacks {error}; run again") from error


def _members(folder: Path, report: dict[str, Any], chip: Chip) -> PageNeurons | None:
    """Return the neurons of an output folder, None if its mapping is missing."""
    path = mapping_in(folder)
    if not path.exists():
        return None
    neurons, synapses = report["network"]["neurons"], report["network"]["synapses"]
    core = load_mapping(path, neurons, chip)
    relays = load_relays(path, chip, neurons, synapses)
    whole = core if relays is None else np.concatenate([core, relays[1]])
    return PageNeurons(whole, neurons, load_populations(folder, chip))


COMPARED = {
    "neurons": "neurons",
    "synapses": "synapses",
    "undirected": "undirected",
    "weight_total": "total weight",
}
"""Properties that compared mappings must share, by name in `network` of report.json."""


def require_same_network(views: list[View]) -> None:
    """Raise `MapperError` unless all mappings have the same network and the same traffic.

    Networks are compared by their numbers, and by the source of their traffic if both reports
    record it; chips may differ.
    """
    for other in views[1:]:
        _require_same(views[0], other)


def _require_same(first: View, other: View) -> None:
    one, two = first.report["network"], other.report["network"]
    found = [
        f"{said} {number(one.get(name))} and {number(two.get(name))}"
        for name, said in COMPARED.items()
        if one.get(name) != two.get(name)
    ]
    traffic = [traffic_in(view.report) for view in (first, other)]
    if None not in traffic and traffic[0] != traffic[1]:
        found.insert(0, f"traffic {describe(traffic[0])} and {describe(traffic[1])}")
    if found:
        raise MapperError(
            f"{first.label} and {other.label}: not mappings of the same network and traffic "
            f"({'; '.join(found)}); make a separate page for each"
        )


def write_page(path: Path, views: list[View]) -> int:
    """Write the page of one or more views atomically; return its size in bytes.

    Raises `MapperError` if a report is damaged, `WriteError` if the file cannot be written.
    """
    try:
        page = render(views)
    except (KeyError, TypeError, AttributeError) as error:
        names = " or ".join(view.label for view in views)
        raise MapperError(f"report.json of {names} is damaged: {error!r}; run again") from error
    write_file(path, page)
    return len(page)
