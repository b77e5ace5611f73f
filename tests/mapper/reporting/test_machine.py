"""Borders of chips on the page: their places, and the traffic that leaves each chip."""

from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import given, settings

from chipsim.chip.machine import Block, Machine
from chipsim.chip.model import Chip
from chipsim.traffic.arrays import measure
from chipsim.traffic.machines import crossings
from mapper.reporting.machine import end_lines, ends
from mapper.reporting.page import render
from mapper.reporting.view import make_view
from mapper.results.loads import Loads
from tests.chipsim.measured import score
from tests.chipsim.strategies import Case, cases


@pytest.mark.heavy
@pytest.mark.sample(0.5)
@settings(max_examples=100)
@given(cases(always=True))
def test_traffic_leaving_chips_equals_the_crossings(case: Case) -> None:
    links = measure(case.chip, case.cores(), case.blocks(), **case.options()).unicast_links
    found, expected = ends(case.chip, links), crossings(case.chip, links)
    assert sum(end.load for end in found) == expected.get("crossings_chips", 0)
    busiest = max((end.busiest for end in found), default=0.0)
    assert busiest == pytest.approx(expected.get("crossing_load_max", 0.0))
    assert [end.load for end in found] == sorted((end.load for end in found), reverse=True)


def test_ends_of_a_line_of_chips() -> None:
    chip = Chip("c", 6, 2, machine=Machine(6, 2, chip=Block(2, 2, 9.0, 0.5)))
    links = np.zeros((4, 2, 6), np.int64)
    links[0, 0, 1], links[0, 1, 1], links[1, 0, 2], links[0, 0, 0] = 3, 4, 5, 100
    assert ends(chip, links) == [("0, 0 east", 7.0, 8.0), ("1, 0 west", 5.0, 10.0)]
    assert end_lines(chip, 1) == {"chip": "M20 0v20M40 0v20"}
    assert end_lines(chip, 2) == {"chip": "M10 0v10M20 0v10"}
    assert end_lines(Chip("flat", 6, 2), 1) == {}
    assert ends(Chip("flat", 6, 2), links) == []


def test_broken_links_are_bars_across_their_gaps() -> None:
    chip = Chip("c", 4, 3, broken_links=((1, 2), (4, 8)), broken_routers=(11,))
    assert end_lines(chip, 1) == {"broken": "M20 2.5v5M30 22.5v5M2.5 20h5M32.5 20h5"}
    tiled = Chip("c", 4, 4, machine=Machine(4, 4, tile=Block(2, 2, 0.0)), broken_links=((1, 2),))
    assert end_lines(tiled, 1) == {"broken": "M20 2.5v5", "tile": "M20 0v40M0 20h40"}
    assert end_lines(tiled, 2)["broken"] == "M10 1.25v5"


@pytest.mark.heavy
@pytest.mark.sample(0.5)
def test_the_page_draws_the_borders() -> None:
    parts = Block(2, 1, 0.0), Block(4, 2, 9.0, 0.5), Block(4, 4, 30.0)
    machine = Machine(8, 4, "x", (1.0, 1.0), *parts)
    chip = Chip("c", 8, 4, machine=machine, broken_links=((1, 9),))
    case = Case(chip, [0, 31, 7], [(0, 1, 5), (1, 2, 4)], [1] * 3, None, False, [])
    metrics = score(chip, case.cores(), case.blocks(), **case.options())
    report = {
        "chip": chip.to_json(), "metrics": metrics, "levels": [], "stages": [],
        "settings": {"preset": "fast", "objective": "hops", "seed": 0},
        "network": {"path": "x.bin", "neurons": 3, "synapses": 2},
        "tool": {"name": "mapper", "version": "1"},
        "resources": {"seconds": 1.0, "peak_rss_bytes": 1},
    }  # fmt: skip
    loads = Loads.of(measure(chip, case.cores(), case.blocks(), **case.options()))
    page = render([make_view("one", report, loads)]).decode()
    group = re.search(r'<g class="ends">(.*?)</g>', page)
    assert group is not None
    assert re.findall(r'class="(\w+)"', group[1]) == ["broken", "tile", "chip", "board"]
    assert "Lines are boundaries of tiles and chips and boards" in page
    assert "Short bars across a gap are broken links." in page
    assert "1 link" in page
    assert "1 links" not in page
    assert "Traffic that leaves chips" in page
    assert "Machine costs and boundary crossings" in page
