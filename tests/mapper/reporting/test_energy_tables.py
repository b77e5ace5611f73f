"""Energy tables on the terminal and the page: their units, and unknown parts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from chipsim.chip.energy import ChipEnergy
from chipsim.chip.model import Chip
from mapper.results.activity import are_spikes, traffic_in
from mapper.results.tables import quality
from tests.mapper.reporting.made import page_of, random_folder

FULL = {"energy_unit": "pJ", "energy": ChipEnergy(event=2.0, neuron=3.0)}
CASES: dict[str, tuple[dict[str, Any], str]] = {
    "all are known": (FULL, ""),
    "of TrueNorth hops alone": ({"energy_unit": "pJ"}, "events, neurons"),
    "in two units": ({"energy": ChipEnergy(event=2.0)}, "network, neurons"),
}


def cells(table: Any) -> list[list[str]]:
    return [list(column) for column in zip(*table.cells, strict=True)]


@pytest.mark.parametrize("name", CASES)
def test_unknown_parts_are_reported(name: str, folder: Path) -> None:
    more, lacks = CASES[name]
    out = random_folder(folder / "out", Chip("c", 4, 4, **more))
    report = json.loads((out / "report.json").read_text())
    found = report["metrics"]["energy_parts"]
    assert found["lacks"] == lacks
    known = [part for part in ("network", "events", "neurons") if part in found]
    assert found["sum"] == pytest.approx(sum(found[part] for part in known))
    for source, title in ((None, "energy x weight"), ("uniform", "energy per unit of time, pJ")):
        traffic = None if source is None else {"source": source}
        tables = [
            table for table in quality(report["metrics"], traffic) if "energy" in str(table.title)
        ]
        (table,) = (table for table in tables if str(table.title).startswith(title))
        names, values = cells(table)
        assert values.count("unknown") == 3 - len(known)
        assert names[-1] == (f"sum, without {lacks}" if lacks else "sum")
    assert not are_spikes(traffic_in(report))
    text = page_of(out).source
    assert "Energy x weight, parts" in text
    assert (f"unknown, not in the sum: {lacks}" in text) == bool(lacks)


def test_chips_without_energies_have_no_table(folder: Path) -> None:
    out = random_folder(folder / "out", Chip("c", 4, 4))
    report = json.loads((out / "report.json").read_text())
    assert "energy_parts" not in report["metrics"]
    assert not [t for t in quality(report["metrics"], None) if str(t.title).startswith("energy")]
