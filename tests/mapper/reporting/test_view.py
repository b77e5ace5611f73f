"""Values prepared for drawing: tiles, scales, colours."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mapper.reporting.view
from chipsim.chip.model import Chip
from chipsim.chip.time import ChipTime
from mapper.reporting.colours import LINK_STEPS, RAMPS, STEPS, ramp, rgb
from mapper.reporting.view import (
    EMPTY,
    UNAVAILABLE,
    USED,
    View,
    make_view,
    page_data,
    scales,
    steps,
)
from mapper.results.loads import Loads
from tests.mapper.helpers import random_network
from tests.mapper.reporting.made import measured

CHIP = Chip("c", 5, 3, neurons=8, unavailable=(0, 1, 5, 6, 14))


@pytest.fixture
def made(folder: Path) -> tuple[Loads, dict[str, Any]]:
    network = random_network(folder / "net.bin", 40, 300)
    core = np.random.default_rng(1).choice([2, 3, 7, 8, 10, 12, 13], 40).astype(np.int32)
    traffic, report = measured(network, CHIP, core)
    return Loads.of(traffic), report


def test_cores_without_tiles(made: tuple[Loads, dict[str, Any]]) -> None:
    loads, report = made
    view = make_view("a", report, loads)
    assert (view.rows, view.columns, view.tile) == (3, 5, 1)
    assert view.state.ravel().tolist() == [
        UNAVAILABLE, UNAVAILABLE, USED, USED, EMPTY,
        UNAVAILABLE, UNAVAILABLE, USED, USED, EMPTY,
        USED, EMPTY, USED, USED, UNAVAILABLE,
    ]  # fmt: skip
    metrics = report["metrics"]
    assert view.layers["fill"].max() == metrics["core_fill_max"]
    assert view.layers["outgoing"].sum() == metrics["cut_weight"]
    assert view.layers["incoming"].sum() == metrics["cut_weight"]
    assert view.layers["router"].max() == metrics["router_load_max"]
    assert view.loads["unicast"].size == CHIP.links
    assert view.loads["unicast"][0] == metrics["link_load_max"]
    assert view.loads["multicast"].sum() == metrics["multicast"]["hops_total"]
    assert view.distances @ np.arange(7) == metrics["hops_total"]
    assert view.share is not None
    assert view.share.sum() == metrics["cut_weight"]  # a small chip keeps all destinations


def test_tiles_show_the_maximum(
    made: tuple[Loads, dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    loads, report = made
    plain = make_view("a", report, loads)
    monkeypatch.setattr(mapper.reporting.view, "CELLS", 6)
    view = make_view("a", report, loads)
    assert (view.rows, view.columns, view.tile) == (2, 3, 2)
    assert view.state.tolist() == [[UNAVAILABLE, USED, EMPTY], [USED, USED, UNAVAILABLE]]
    for name, layer in view.layers.items():
        whole = plain.layers[name]
        for row in range(2):
            for column in range(3):
                tile = whole[2 * row : 2 * row + 2, 2 * column : 2 * column + 2]
                assert layer[row, column] == tile.max()
    assert view.links["unicast"].max() == report["metrics"]["link_load_max"]
    assert view.destination is None
    assert "destination" not in page_data([view])["mappings"][0]


def test_one_scale_for_two_mappings(made: tuple[Loads, dict[str, Any]]) -> None:
    loads, report = made
    view = make_view("a", report, loads)
    louder = make_view("b", report, loads)
    louder.layers["outgoing"] = louder.layers["outgoing"] * 3
    both = scales([view, louder])
    assert both == scales([louder, view])
    assert both["outgoing"] == 3 * scales([view])["outgoing"]
    assert both["incoming"] == scales([view])["incoming"]
    assert page_data([view, louder])["scales"]["outgoing"] == both["outgoing"]


def test_steps() -> None:
    values = np.array([0.0, 0.24, 0.25, 0.5, 0.99, 1.0])
    assert steps(values, 1.0, 4).tolist() == [0, 0, 1, 2, 3, 3]
    assert steps(values * 0, 0.0, 4).tolist() == [0] * 6


@pytest.mark.parametrize(("family", "theme"), RAMPS)
def test_ramps_are_ordered_by_lightness(family: str, theme: str) -> None:
    colours = ramp(family, theme)
    assert len(set(colours)) == len(colours) == (STEPS if family == "c" else LINK_STEPS)
    light = [_luminance(colour) for colour in colours]
    assert light == sorted(light, reverse=theme == "light")
    assert max(light) - min(light) > 0.25
    # high values must stand out from the page: graphics contrast of WCAG 2.1
    page = _luminance("#ffffff" if theme == "light" else "#171b23")
    low, high = sorted((light[-1], page))
    assert (high + 0.05) / (low + 0.05) > 3


def _luminance(colour: str) -> float:
    linear = [
        v / 12.92 if v <= 0.04045 else ((v + 0.055) / 1.055) ** 2.4
        for v in (byte / 255 for byte in rgb(colour))
    ]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def timed(folder: Path, chip: Chip) -> View:
    network = random_network(folder / "net.bin", 40, 300)
    core = np.random.default_rng(1).choice(15, 40).astype(np.int32)
    traffic, report = measured(network, chip, core)
    return make_view("a", report, Loads.of(traffic))


def test_cycles_of_cores_and_links_are_on_one_scale(folder: Path) -> None:
    time = ChipTime(event=3.0)
    view = timed(folder, Chip("c", 5, 3, neurons=16, delivery="core", time=time))
    bounds = view.report["metrics"]["tick_bounds"]
    cores, links = view.layers["cycles"], view.links["cycles"]
    assert cores.max() == max(bounds["packets_out"], bounds["events"])
    assert links.max() == bounds["links"]
    assert np.array_equal(links > 0, view.links["core-cast"] > 0)
    scale = scales([view])
    assert scale["cycles"] == scale["links cycles"] == max(cores.max(), links.max())
    mapping = page_data([view])["mappings"][0]
    assert max(mapping["layers"]["cycles"]) == pytest.approx(cores.max(), rel=1e-3)


def test_chips_without_times_show_no_cycles(folder: Path) -> None:
    mapping = page_data([timed(folder, Chip("c", 5, 3, neurons=16))])["mappings"][0]
    assert "cycles" not in mapping["layers"]
    assert "cycles" not in mapping["links"]
