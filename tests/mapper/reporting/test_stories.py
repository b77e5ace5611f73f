"""Stories in a browser: populations, cores and links, search, zoom, csv files, comparisons."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mapper.reporting.members
from chipsim.chip.model import Chip
from chipsim.traffic.links import DIRECTIONS
from mapper.reporting.view import View
from tests.mapper.reporting.conftest import Open
from tests.mapper.reporting.made import layered_folder, random_folder
from tests.mapper.reporting.test_browser import drawn, fits, page_at, point_at, rows_of

pytestmark = [pytest.mark.browser, pytest.mark.jit, pytest.mark.heavy]
CHIP = Chip("c", 6, 5, neurons=16, unavailable=(3, 9))
NAMES = ["input", "conv1", "conv2, wide", "=out"]


@pytest.fixture
def layered(folder: Path) -> tuple[Path, View]:
    path, (view,) = page_at(layered_folder(folder / "out", CHIP, NAMES, mixed=True))
    return path, view


def table_of(page: Any, caption: str) -> list[list[str]]:
    """Return the rows of a table in the panel."""
    found: list[list[str]] = page.evaluate(
        'c => [...document.querySelectorAll(`.panel [aria-label="${c}"] tbody tr`)]'
        ".map(row => [...row.cells].map(cell => cell.textContent))",
        caption,
    )
    return found


def people(view: View) -> Any:
    assert view.populations is not None
    return view.populations


def painted(page: Any, board: int = 0) -> dict[str, int]:
    """Return the number of rectangles of each colour of populations."""
    found: dict[str, int] = page.evaluate(
        "i => Object.fromEntries([...document.querySelectorAll('.map')[i]"
        ".querySelectorAll('.cells path')].map(p => [p.getAttribute('class'),"
        " p.getAttribute('d').split('z').length - 1]).filter(([name, n]) => n))",
        board,
    )
    return found


def gap(page: Any, view: View, d: int, core: int) -> tuple[float, float]:
    """Return the place of a link on the screen."""
    box = page.locator(".board").bounding_box()
    row, column = divmod(core, view.columns)
    dx, dy = ((0.5, 0.16), (-0.5, -0.16), (-0.16, 0.5), (0.16, -0.5))[d]
    left, top, wide, high = view.window
    return (
        box["x"] + (column - left + 0.5 + dx * 0.96) / wide * box["width"],
        box["y"] + (row - top + 0.5 + dy * 0.96) / high * box["height"],
    )


def test_the_map_comes_first_coloured_by_layer(layered: tuple[Path, View], open_page: Open) -> None:
    path, view = layered
    for width in (390, 1440):
        page = open_page(path, width)
        assert page.locator("input[value=population]").is_checked()
        box = page.locator(".board").bounding_box()
        assert box["y"] + box["height"] <= 900
        assert page.locator(".figure").count() == 4
        assert not page.locator(".figure details p").first.is_visible()
        page.click(".figure summary")
        assert page.locator(".figure details p").first.is_visible()
        assert fits(page)
    colours = painted(page)
    assert set(colours) == {"p0", "p1", "p2", "p3"}
    still = page.evaluate("document.querySelector('.base').innerHTML")
    page.check("input[value=fill]", force=True)
    assert sum(drawn(page)) == (view.state == 1).sum()
    page.check("input[value=population]", force=True)
    assert page.evaluate("document.querySelector('.base').innerHTML") == still
    assert not page.locator("[data-legend=cells]").is_visible()


def test_a_layer_in_one_click(layered: tuple[Path, View], open_page: Open) -> None:
    path, view = layered
    page, traffic = open_page(path), people(view).traffic
    page.click("button:text-is('conv2, wide')")
    assert page.locator(".panel h3").first.text_content() == "conv2, wide"
    rows = rows_of(page, ".panel")
    assert rows["neurons"] == str(traffic.neurons[2])
    assert rows["out to other cores"] == f"{traffic.sent[2]:,}"
    assert rows["in from other cores"] == f"{traffic.received[2]:,}"
    cores = np.unique(traffic.slices.core[traffic.slices.population == 2]).size
    assert painted(page) == {"p2": cores}
    sent = {
        NAMES[q]: f"{amount:,}"
        for p, q, amount in zip(
            traffic.pair_source, traffic.pair_target, traffic.pair_traffic, strict=True
        )
        if p == 2
    }
    assert {row[0]: row[1] for row in table_of(page, "conv2, wide: sends to")} == sent
    loads = np.where(traffic.link_pair >= 0, traffic.link_traffic, 0)
    loads = np.where(traffic.pair_source[traffic.link_pair] == 2, loads, 0).sum(axis=-1)
    (_, top), *_ = table_of(page, "Links that it loads most")
    assert top == f"{loads.max():,}"
    strokes = page.evaluate(
        "sumOf => [...document.querySelectorAll('.links path')].map(p =>"
        " p.getAttribute('d').split('M').length - 1).reduce((a, b) => a + b)", 0,
    )  # fmt: skip
    assert strokes == np.count_nonzero(loads)
    page.click(".panel button:text-is('=out')")  # from story to story
    assert page.locator(".panel h3").first.text_content() == "=out"
    page.click("text=Show all")
    assert set(painted(page)) == {"p0", "p1", "p2", "p3"}
    assert page.evaluate("document.activeElement.className") == "board"


def test_who_is_on_a_core(layered: tuple[Path, View], open_page: Open) -> None:
    path, view = layered
    page, slices = open_page(path), people(view).traffic.slices
    core = int(slices.core[np.argmax(np.bincount(slices.core)[slices.core])])
    page.locator(".board").scroll_into_view_if_needed()
    point_at(page, view, core)
    here = slices.core == core
    rows = rows_of(page, "#tip")
    right = {
        NAMES[p]: str(n) for p, n in zip(slices.population[here], slices.neurons[here], strict=True)
    }
    assert right.items() <= rows.items()
    point_at(page, view, core, click=True)
    found = table_of(page, "Populations on the core")
    assert {row[0]: row[1] for row in found} == right
    loads = {
        name: f"{view.links['unicast'][d].flat[core]:,}"
        for d, name in enumerate(DIRECTIONS)
        if view.links["unicast"][d].flat[core]
    }
    assert dict(table_of(page, "Its links")) == loads
    page.click(f".panel [data-jump^='link:0:'] >> text={next(iter(loads))}")
    assert "Link from" in page.locator(".panel h3").first.text_content()


@pytest.mark.parametrize("d", range(4))
def test_what_loads_a_link(d: int, layered: tuple[Path, View], open_page: Open) -> None:
    path, view = layered
    page, traffic = open_page(path), people(view).traffic
    core = int(view.links["unicast"][d].argmax())
    load = int(view.links["unicast"][d].flat[core])
    page.locator(".board").scroll_into_view_if_needed()
    x, y = gap(page, view, d, core)
    page.mouse.move(x, y)
    assert f"to the {DIRECTIONS[d]}" in page.locator("#tip b").text_content()
    page.mouse.click(x, y)
    row, column = divmod(core, view.columns)
    where = f"Link from x {column}, y {row} to the {DIRECTIONS[d]}"
    assert page.locator(".panel h3").first.text_content() == where
    rows = rows_of(page, ".panel")
    assert rows["load, unicast"] == f"{load:,}"
    found = table_of(page, "Populations on the link")
    pairs = traffic.link_pair[d, row, column]
    right = {
        f"{NAMES[traffic.pair_source[p]]} \u2192 {NAMES[traffic.pair_target[p]]}": f"{w:,}"
        for p, w in zip(pairs, traffic.link_traffic[d, row, column], strict=True)
        if p >= 0
    }
    if rest := load - traffic.link_traffic[d, row, column].sum():
        right["other pairs"] = f"{rest:,}"
    assert {row[0]: row[1] for row in found} == right
    assert page.locator(".wire.show").count() == 1
    page.click("text=Show all")
    assert page.locator(".wire.show").count() == 0


def test_the_worst_link_from_the_list(layered: tuple[Path, View], open_page: Open) -> None:
    path, view = layered
    page = open_page(path)
    page.focus("[data-jump^='link:']")
    page.keyboard.press("Enter")
    rows = rows_of(page, ".panel")
    assert rows["load, unicast"] == f"{view.report['metrics']['link_load_max']:,}"
    assert rows["rank"].startswith("the busiest of")
    assert page.evaluate("document.activeElement.tagName") == "H3"


def test_search(layered: tuple[Path, View], open_page: Open) -> None:
    path, view = layered
    page = open_page(path)
    assert view.members is not None
    traffic = people(view).traffic
    of = traffic.of_neurons()

    def search(words: str) -> list[str]:
        page.fill("#search", words)
        found: list[str] = page.locator("#results button").all_text_contents()
        return found

    assert search("conv") == ["conv1", "conv2, wide"]
    assert search("OUT") == ["=out"]
    assert search("none such") == []
    assert page.locator("#told").text_content() == "Nothing found."
    assert search("core 7")[0] == "Core 7 (x 1, y 1)"
    assert search("2, 3")[0] == "Core 20 (x 2, y 3)"
    assert search("core 99") == []
    neuron = int(np.flatnonzero(of == 1)[4])
    called = f"Neuron 4 of conv1 ({neuron})"
    for words in ("conv1 4", "conv1[4]", "conv1:4", "4 of conv1", f"neuron {neuron}", str(neuron)):
        assert called in search(words), words
    assert search(str(len(of))) == []
    search("conv1 4")
    page.keyboard.press("Enter")
    core = int(view.members.core[neuron])
    page.locator("#told", has_text=f"{called} is on core {core}.").wait_for()
    assert page.locator(".panel h3").first.text_content().startswith(f"Core {core} (")
    assert page.locator(".found").text_content() == f"{called} is on core {core}."
    for at in (0, len(of) - 1):
        search(str(at))
        page.keyboard.press("Enter")
        page.locator("#told", has_text=f"({at}) is on core {view.members.core[at]}.").wait_for()
    search("conv1")
    page.click("#results button")
    assert page.locator(".panel h3").first.text_content() == "conv1"


def test_search_without_populations_and_in_large_networks(
    folder: Path, open_page: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, (view,) = page_at(random_folder(folder / "out", CHIP))
    page = open_page(path)
    page.fill("#search", "5")
    page.keyboard.press("Enter")
    assert view.members is not None
    page.locator("#told", has_text=f"Neuron 5 is on core {view.members.core[5]}.").wait_for()
    monkeypatch.setattr(mapper.reporting.members, "SEARCHED", 10)
    path, _ = page_at(layered_folder(folder / "large", CHIP, NAMES))
    page = open_page(path)
    page.fill("#search", "5")
    page.keyboard.press("Enter")
    assert "does not hold" in page.locator("#told").text_content()


def test_zoom_to_the_used_cores(folder: Path, open_page: Open) -> None:
    chip = Chip("large", 30, 20, neurons=16, unavailable=tuple(
        core for core in range(600) if not (7 <= core % 30 < 12 and 4 <= core // 30 < 8)
    ))  # fmt: skip
    path, (view,) = page_at(layered_folder(folder / "out", chip, NAMES))
    left, top, wide, high = view.window
    assert (wide, high) < (9, 9)
    page = open_page(path)
    board = page.locator(".board")
    box = board.bounding_box()
    assert box["width"] > 400
    edges = page.locator(".edge span").all_text_contents()
    assert edges == [f"x {left}", f"{left + wide - 1}", f"y {top}", f"{top + high - 1}"]
    core = int(np.flatnonzero(view.state.ravel() == 1)[0])
    row, column = divmod(core, 30)
    page.mouse.click(
        box["x"] + (column - left + 0.5) / wide * box["width"],
        box["y"] + (row - top + 0.5) / high * box["height"],
    )
    assert page.locator(".panel h3").first.text_content().startswith(f"Core {core} (")
    for _ in range(40):
        page.keyboard.press("ArrowLeft")
    assert f"(x {left}," in page.locator("#tip b").text_content()
    page.check("input[value=whole]", force=True)
    assert page.locator("svg.base").get_attribute("viewBox") == "0 0 300 200"
    assert page.locator(".edge.x span").all_text_contents() == ["x 0", "29"]
    page.check("input[value=used]", force=True)
    assert page.locator("svg.base").get_attribute("viewBox") == " ".join(
        str(10 * value) for value in view.window
    )


def test_every_table_is_saved_as_csv(layered: tuple[Path, View], open_page: Open) -> None:
    path, view = layered
    page = open_page(path, accept_downloads=True)
    page.evaluate("document.querySelectorAll('details').forEach(d => d.open = true)")
    tables = page.locator("table").count()
    assert page.locator("button.csv").count() == tables

    def saved(button: Any) -> tuple[str, list[list[str]]]:
        with page.expect_download() as download:
            button.click()
        found = download.value
        with Path(found.path()).open(newline="") as file:
            return found.suggested_filename, list(csv.reader(file))

    name, rows = saved(page.locator(".panel button.csv").first)
    assert name == "layers.csv"
    traffic = people(view).traffic
    assert rows[0] == ["Layer", "Neurons", "Cores", "Hops"]
    assert [row[0] for row in rows[1:]] == ["input", "conv1", "conv2, wide", "'=out"]
    assert [float(row[3]) for row in rows[1:]] == traffic.hops_mean.tolist()
    metrics = json.loads((path.parent / "out" / "report.json").read_text())["metrics"]
    button = page.get_by_role("button", name="Save as CSV: Unicast", exact=False).first
    _, rows = saved(button)
    total = next(row for row in rows if row[0].startswith("Hops hops_total"))
    assert float(total[1]) == metrics["hops_total"]
    page.click("button:text-is('conv1')")
    name, rows = saved(page.locator(".panel button.csv").first)
    assert name == "conv1-sends-to.csv"
    assert rows[0] == ["Sends to", "All traffic", "Mean hops"]


def test_four_mappings(folder: Path, open_page: Open) -> None:
    chips = (CHIP, CHIP, Chip("d", 5, 6, neurons=16), CHIP)
    folders = [
        layered_folder(folder / f"out{seed}", chip, NAMES, mixed=True)
        for seed, chip in enumerate(chips)
    ]
    path, views = page_at(*folders)
    for width in (390, 1440):
        page = open_page(path, width)
        assert fits(page)
        assert page.locator(".board").count() == 4
    rows = page.evaluate(
        "[...document.querySelectorAll('[aria-label=Comparison] tbody tr')]"
        ".map(row => row.cells[0].textContent)"
    )
    assert rows == [view.label for view in views]
    page.click("button:text-is('conv1') >> nth=0")
    for board, view in enumerate(views):
        slices = people(view).traffic.slices
        cores = np.unique(slices.core[slices.population == 1]).size
        assert painted(page, board) == {"p1": cores}
        assert page.locator(".panel h3").nth(board).text_content() == "conv1"
    page.locator(".back").nth(2).click()
    assert page.locator(".back").count() == 0


def test_many_populations(folder: Path, open_page: Open) -> None:
    names = [f"layer{n}" for n in range(60)]
    path, (view,) = page_at(layered_folder(folder / "out", CHIP, names, neurons=400, mixed=True))
    page = open_page(path)
    assert "px" in painted(page)
    assert people(view).colours == mapper.reporting.members.COLOURED
    page.click("summary:text-is('More')")
    page.click("button:text-is('layer59')")
    assert page.locator(".panel h3").first.text_content() == "layer59"


@pytest.mark.parametrize("side", [33, 65])
def test_large_chips(side: int, folder: Path, open_page: Open) -> None:
    """One colour for each core; a canvas, and its picture without scripts."""
    chip = Chip("large", side, side, neurons=4)
    path, (view,) = page_at(layered_folder(folder / "out", chip, NAMES, neurons=3000, mixed=True))
    page = open_page(path)
    if side == 33:
        assert sum(painted(page).values()) == (view.state == 1).sum()
    before = page.screenshot()
    page.click("button:text-is('conv1')")
    assert page.screenshot() != before
    assert page.locator(".panel h3").first.text_content() == "conv1"
    still = open_page(path, java_script_enabled=False)
    assert still.locator(".still img" if side == 65 else "svg.base").is_visible()


def test_pages_are_bounded(folder: Path) -> None:
    """A chip of 64x64 cores with eight populations on every core."""
    chip = Chip("full", 64, 64, neurons=100)
    names = [f"population {n}" for n in range(8)]
    path, (view,) = page_at(layered_folder(folder / "out", chip, names, neurons=60_000, mixed=True))
    assert people(view).traffic.slices.core.size > 20_000
    assert path.stat().st_size < 4.5e6


def test_themes(layered: tuple[Path, View], open_page: Open) -> None:
    def colour(page: Any) -> str:
        found: str = page.evaluate("getComputedStyle(document.querySelector('.base .p1')).fill")
        return found

    light, dark = (open_page(layered[0], color_scheme=one) for one in ("light", "dark"))
    assert colour(light) != colour(dark)
    shown = colour(light)
    dark.emulate_media(media="print")
    assert colour(dark) == shown
