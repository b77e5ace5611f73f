"""Simulations on the page."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from chipsim.chip.model import Chip
from tests.mapper.helpers import random_network
from tests.mapper.reporting.made import Page, page_of, random_folder, write_folder

CHIP = Chip("plain", 6, 4, neurons=16)
SIMULATION: dict[str, Any] = {
    "packets_per": "core", "depth": 4, "cycles": 10000, "warmup": 5000, "load_scale": 1.5,
    "tick_cycles": 2000.0, "offered": 0.125, "delivered": 0.124, "saturated": False,
    "packets": 9876, "undelivered": 0, "link_load_mean": 0.0625,
    "latency": {"mean": 6.5, "p50": 5, "p99": 31, "max": 47},
    "links": [{"x": 2, "y": 1, "direction": "east", "flits_per_cycle": 0.75, "expected": 0.8}],
    "saturation": {"load_scale": 1.9, "tick_cycles": 1578.9},
}  # fmt: skip


def simulated(folder: Path, **changes: Any) -> Page:
    network = random_network(folder / "net.bin", 20, 60)
    core = np.zeros(20, np.int32)
    found = {**SIMULATION, **changes}
    return page_of(write_folder(folder / "out", network, Chip("c", 2, 2), core, simulation=found))


def test_a_simulation(folder: Path) -> None:
    page = simulated(folder)
    rows = [element.text for element in page.all("tr")]
    for row in ("Latency in cycles, mean6.5", "50th percentile5", "99th percentile31", "max47",
                "Offered, flits per core per cycle0.125", "2, 1 east 75.0 %80.0 %",
                "Saturation: largest sustained load scale1.9",
                "Minimum mesh cycles per unit of time1,579"):  # fmt: skip
        assert row in rows
    said = page.one("section", id="simulation").text
    assert "10,000 cycles after a warm-up of 5,000, one packet per neuron and other core" in said
    assert "above saturation" not in said
    assert not page_of(random_folder(folder / "plain", CHIP)).all("section", id="simulation")


def test_simulated_ticks(folder: Path) -> None:
    """With the expected cycles of the metrics; ticks of spikes alone have no cycles."""
    network, core = random_network(folder / "net.bin", 20, 60), np.zeros(20, np.int32)
    found: dict[str, Any] = {
        "model": {"sources": "spikes at random"}, "ticks": 40, "spikes": 100,
        "cycles": {"mean": 61.5, "p50": 60.0, "p99": 80.0, "max": 83},
        "ended_by_neurons": 3, "ended_by_spikes": 37, "packets_per_tick": 9.25,
        "packets_per_tick_max": 4.5, "events_per_tick": 21.0, "events_per_tick_max": 8.0,
        "link_flits_per_tick_max": 2.5,
    }  # fmt: skip
    page = page_of(write_folder(folder / "out", network, Chip("c", 2, 2), core, ticks=found))
    rows = [element.text for element in page.all("tr")]
    for row in ("cycles per tick, mean61.5", "cycles per tick, max83", "spikes per tick2.5",
                "ticks that end with a spike37"):  # fmt: skip
        assert row in rows
    assert "spikes at random" in page.one("section", id="ticks").text
    assert not any(row.startswith("expected") for row in rows)  # this chip has no [time]
    spikes = {"model": {}, "ticks": 40, "spikes": 100, "given": 7}
    again = write_folder(folder / "again", network, Chip("c", 2, 2), core, ticks=spikes)
    rows = [element.text for element in page_of(again).all("tr")]
    assert "spikes given7" in rows
    assert not any(row.startswith("cycles per tick") for row in rows)
    assert not page_of(random_folder(folder / "plain", CHIP)).all("section", id="ticks")


def test_a_simulation_above_saturation(folder: Path) -> None:
    page = simulated(folder, saturated=True, undelivered=1234, saturation=None, links=[])
    said = page.one("section", id="simulation").text
    assert "above saturation" in said
    assert "Of 9,876 packets 1,234 had not arrived" in said
    assert "Saturationnot measured" in [element.text for element in page.all("tr")]
    assert "No flit crossed a link." in said


def test_a_simulation_without_packets(folder: Path) -> None:
    nothing = dict.fromkeys(SIMULATION["latency"])
    said = simulated(folder, packets=0, latency=nothing, links=[]).one("section", id="simulation")
    assert "No packets were sent." in said.text
