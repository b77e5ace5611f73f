"""The page in a browser: layers, values, selected cores, widths, themes, paper."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from chipsim.chip.model import Chip
from mapper.reporting.make import view_folder, write_page
from mapper.reporting.view import View, scales, steps
from tests.mapper.helpers import random_network
from tests.mapper.reporting.conftest import Open
from tests.mapper.reporting.made import idle_folder, random_folder, write_folder

pytestmark = [pytest.mark.browser, pytest.mark.jit]  # pages do not depend on the JIT
CHIP = Chip("c", 6, 4, neurons=16, axons_in=50, unavailable=(3, 9))
DESTINATIONS = ".panel [aria-label='Where its traffic goes'] tbody tr"


def never(report: dict[str, Any], chip: Chip) -> Any:
    raise AssertionError("must not measure")


def page_at(*folders: Path) -> tuple[Path, list[View]]:
    """Write the page of folders; return its path and views."""
    views = [view_folder(folder, never) for folder in folders]
    path = folders[0].with_suffix(".html")
    write_page(path, views)
    return path, views


@pytest.fixture
def made(folder: Path) -> tuple[Path, View]:
    path, (view,) = page_at(random_folder(folder / "out", CHIP))
    return path, view


def point_at(page: Any, view: View, core: int, board: int = 0, click: bool = False) -> None:
    box = page.locator(".board").nth(board).bounding_box()
    row, column = divmod(core, view.columns)
    x = box["x"] + (column + 0.5) / view.columns * box["width"]
    y = box["y"] + (row + 0.5) / view.rows * box["height"]
    (page.mouse.click if click else page.mouse.move)(x, y)


def rows_of(page: Any, selector: str) -> dict[str, str]:
    """Return terms and values of a list."""
    found: dict[str, str] = page.evaluate(
        "s => Object.fromEntries([...document.querySelectorAll(s + ' dt')]"
        ".map(dt => [dt.textContent, dt.nextElementSibling.textContent]))",
        selector,
    )
    return found


def drawn(page: Any) -> list[int]:
    """Return the number of cores of each colour on the map."""
    counts: list[int] = page.evaluate(
        "[...document.querySelectorAll('.base .cells path')]"
        ".map(p => p.getAttribute('d').split('z').length - 1)"
    )
    return counts


def fits(page: Any) -> bool:
    """Whether no element makes the page wider than its window."""
    fit: bool = page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    return fit


@pytest.mark.heavy
@pytest.mark.sample(0.5)
def test_layers(made: tuple[Path, View], open_page: Open) -> None:
    path, view = made
    page = open_page(path)
    still = page.evaluate("document.querySelector('.base').innerHTML")
    used = view.state == 1
    for name in ("outgoing", "incoming", "router", "fill"):
        page.check(f"input[value={name}]", force=True)
        top = scales([view])[name]
        shown = used if name != "router" else view.layers[name] > 0
        colours = steps(view.layers[name], top, 32)[shown]
        assert drawn(page) == np.bincount(colours.ravel(), minlength=32).tolist(), name
        ticks = page.locator("[data-legend=cells] .ticks span").all_text_contents()
        assert ticks[0].rstrip("%") == "0"
        assert ticks[2] == ("100%" if name == "fill" else ticks[2])
        if name in ("outgoing", "incoming"):
            assert ticks[2] == f"{int(top):,}"
    # back at the first layer, the script must draw the initial picture
    assert page.evaluate("document.querySelector('.base').innerHTML") == still
    page.check("input[value=none]", force=True)
    paths = page.locator(".base .links path")
    assert {p.get_attribute("d") for p in paths.all()} == {""}
    assert not page.locator("[data-legend=links]").is_visible()
    page.check("input[value=multicast]", force=True)
    top = view.report["metrics"]["multicast"]["link_load_max"]
    assert page.locator("[data-legend=links] .ticks span").last.text_content() == f"{top:,}"


@pytest.mark.heavy
def test_the_switch_works_with_keys(made: tuple[Path, View], open_page: Open) -> None:
    page = open_page(made[0])
    page.focus("input[value=fill]")
    page.keyboard.press("ArrowRight")
    assert page.locator("input[value=outgoing]").is_checked()
    assert page.locator("[data-legend=cells] figcaption").text_content() == "Outgoing traffic"


@pytest.mark.heavy
def test_hover_and_select(made: tuple[Path, View], open_page: Open) -> None:
    path, view = made
    page = open_page(path)
    tip = page.locator("#tip")
    assert not tip.is_visible()
    core = int(view.layers["outgoing"].argmax())
    page.locator(".board").scroll_into_view_if_needed()
    point_at(page, view, core)
    assert tip.is_visible()
    row, column = divmod(core, view.columns)
    assert tip.locator("b").text_content() == f"Core {core} (x {column}, y {row})"
    values = rows_of(page, "#tip")
    assert values["outgoing traffic"] == f"{view.layers['outgoing'][row, column]:,}"
    assert values["incoming traffic"] == f"{view.layers['incoming'][row, column]:,}"
    assert values["neurons"] == f"{view.usage['neurons'][row, column]} of 16"
    assert values["axons in"] == f"{view.usage['axons_in'][row, column]} of 50"
    for d, name in enumerate(("east", "west", "south", "north")):
        load = int(view.links["unicast"][d, row, column])
        assert values.get(f"link {name}") == (f"{load:,}" if load else None)
    point_at(page, view, 3)
    assert "unavailable" in rows_of(page, "#tip")

    point_at(page, view, core, click=True)
    assert view.destination is not None
    assert view.share is not None
    lines = page.locator(DESTINATIONS).all_text_contents()
    total = view.layers["outgoing"][row, column]
    strongest = zip(view.destination[core][:16], view.share[core][:16], strict=True)
    assert lines == [
        f"{to}{to % 6}, {to // 6}{share:,}{100 * share / total:.1f} %"
        for to, share in strongest
        if share
    ]
    coloured = sum(drawn(page))
    assert coloured == (view.share[core] > 0).sum()
    page.get_by_role("button", name="Show all").click()
    assert sum(drawn(page)) == (view.state == 1).sum()
    assert "Largest senders" in str(page.locator(".panel").text_content())


@pytest.mark.heavy
def test_keys_on_the_map(made: tuple[Path, View], open_page: Open) -> None:
    path, view = made
    page = open_page(path)
    page.focus(".board")
    for key in ("ArrowRight", "ArrowRight", "ArrowDown", "ArrowDown", "ArrowLeft"):
        page.keyboard.press(key)
    assert page.locator("#tip b").text_content() == "Core 12 (x 0, y 2)"
    for _ in range(9):
        page.keyboard.press("ArrowLeft")
    assert page.locator("#tip b").text_content() == "Core 12 (x 0, y 2)"
    core = int(np.flatnonzero(view.state.ravel() == 1)[0])
    page.keyboard.press("Escape")
    assert not page.locator("#tip").is_visible()
    for key in ["ArrowDown"] + ["ArrowRight"] * core:  # the first key only shows the cursor
        page.keyboard.press(key)
    page.keyboard.press("Enter")
    assert str(page.locator(".panel h3").text_content()).startswith(f"Core {core} (")
    page.keyboard.press("Escape")
    assert page.locator(".panel .back").count() == 0


@pytest.mark.heavy
def test_nothing_is_wider_than_the_window(folder: Path, open_page: Open) -> None:
    chip = Chip("a chip of a rather long name", 8, 8, neurons=16, axons_in=40, synapses=300)
    folders = [random_folder(folder / f"{'name' * 9}{i}", chip, i, neurons=400) for i in (1, 2)]
    for path, _ in (page_at(folders[0]), page_at(*folders)):
        page = open_page(path)
        for width in (390, 1440):
            page.set_viewport_size({"width": width, "height": 900})
            for opened in ("false", "true"):
                page.evaluate(f"document.querySelectorAll('details').forEach(d => d.open={opened})")
                assert fits(page), (width, opened)
            board = page.locator(".board").first.bounding_box()
            assert board["width"] > 250
            assert abs(board["width"] - board["height"]) < 2


@pytest.mark.heavy
def test_labels_of_charts_do_not_overlap(folder: Path, open_page: Open) -> None:
    """On a long chip distances are merged into ranges with long names."""
    path, _ = page_at(random_folder(folder / "out", Chip("long", 150, 1), neurons=400))
    for width in (390, 1440):
        page = open_page(path, width)
        faults = page.evaluate(
            "[...document.querySelectorAll('.chart')].flatMap(chart => {"
            " const edge = chart.getBoundingClientRect();"
            " const boxes = [...chart.querySelectorAll('text')].map(t => [t.textContent,"
            "  t.getBoundingClientRect()]);"
            " return boxes.flatMap(([name, a], i) => boxes.slice(i + 1).filter(([, b]) =>"
            "  a.left < b.right && b.left < a.right"
            "  && a.top < b.bottom - 4 && b.top < a.bottom - 4)"  # boxes are higher than letters
            "  .map(([other]) => name + '|' + other).concat("
            "  a.left < edge.left - 0.5 || a.right > edge.right + 0.5 ? [name] : [])); })"
        )
        assert faults == [], width


@pytest.mark.heavy
def test_two_pages_share_their_colours(folder: Path, open_page: Open) -> None:
    other = Chip("d", 3, 5, neurons=16)
    path, views = page_at(random_folder(folder / "a", CHIP), random_folder(folder / "b", other, 4))
    page = open_page(path)
    page.check("input[value=outgoing]", force=True)
    top = max(view.layers["outgoing"].max() for view in views)
    assert page.locator("[data-legend=cells] .ticks span").last.text_content() == f"{top:,}"
    for index, view in enumerate(views):
        colours = steps(view.layers["outgoing"], float(top), 32)[view.state == 1]
        shown = page.evaluate(
            "i => [...document.querySelectorAll('.map')[i].querySelectorAll('.cells path')]"
            ".map(p => p.getAttribute('d').split('z').length - 1)",
            index,
        )
        assert shown == np.bincount(colours, minlength=32).tolist()
    core = int(views[1].layers["outgoing"].argmax())
    page.locator(".board").nth(1).scroll_into_view_if_needed()
    point_at(page, views[1], core, board=1, click=True)
    assert str(page.locator(".panel h3").last.text_content()).startswith(f"Core {core} (")
    assert page.locator(".panel").first.locator(".back").count() == 0


@pytest.mark.heavy
def test_hostile_names(folder: Path, open_page: Open) -> None:
    hostile = "<img src=x onerror=document.title='pwned'></script><script>alert(1)</script>"
    network = random_network(folder / "net.bin", 20, 60)
    out = write_folder(
        folder / "out", network, Chip(hostile, 3, 2), np.arange(20, dtype=np.int32) % 6,
        command=["mapper", "run", hostile],
    )  # fmt: skip
    path = out.with_suffix(".html")
    write_page(path, [view_folder(out, never, hostile)])
    page = open_page(path)
    page.on("dialog", lambda dialog: pytest.fail("a dialog opened"))
    assert hostile in page.title()
    assert page.locator("img").count() == 0
    assert hostile in page.locator("h1").text_content()


@pytest.mark.heavy
@pytest.mark.parametrize(
    ("make", "chip"),
    [
        (random_folder, Chip("one", 1, 1)),
        (random_folder, Chip("line", 1, 9)),
        (random_folder, Chip("row", 40, 1)),
        (idle_folder, CHIP),
    ],
)
def test_odd_chips_and_no_traffic(make: Any, chip: Chip, folder: Path, open_page: Open) -> None:
    path, (view,) = page_at(make(folder / "out", chip))
    page = open_page(path, 390)
    assert fits(page)
    for name in ("outgoing", "router"):
        page.check(f"input[value={name}]", force=True)
    page.locator(".board").scroll_into_view_if_needed()
    point_at(page, view, int(np.flatnonzero(view.state.ravel() == 1)[0]), click=True)
    assert page.locator(".panel .back").count() == 1


@pytest.mark.heavy
def test_a_large_chip_is_drawn_on_a_canvas(folder: Path, open_page: Open) -> None:
    chip = Chip("large", 65, 65, unavailable=(0,))
    path, (view,) = page_at(random_folder(folder / "out", chip, neurons=80))
    page = open_page(path)

    def inked() -> int:
        count: int = page.evaluate(
            "() => { const c = document.querySelector('canvas'); return c.getContext('2d')"
            ".getImageData(0, 0, c.width, c.height).data.filter((v, i) => i % 4 == 3 && v).length }"
        )
        return count

    assert inked() > 0
    before = page.evaluate("document.querySelector('canvas').toDataURL()")
    page.check("input[value=incoming]", force=True)
    page.check("input[value=none]", force=True)
    assert page.evaluate("document.querySelector('canvas').toDataURL()") != before
    core = int(view.layers["outgoing"].argmax())
    page.locator(".board").scroll_into_view_if_needed()
    point_at(page, view, core, click=True)
    point_at(page, view, core)
    assert str(page.locator("#tip b").text_content()).startswith(f"Core {core} (")
    assert page.locator(DESTINATIONS).count() == min(15, (view.share[core] > 0).sum())  # type: ignore[index]


@pytest.mark.heavy
def test_without_scripts_the_first_layer_is_shown(folder: Path, open_page: Open) -> None:
    for size in (8, 65):
        chip = Chip("c", size, size)
        path, _ = page_at(random_folder(folder / f"out{size}", chip))
        page = open_page(path, java_script_enabled=False)
        assert not page.locator(".toolbar").is_visible()
        picture = page.locator(".still img" if size == 65 else "svg.base")
        assert picture.is_visible()
        assert page.locator(".board").bounding_box()["height"] > 300


A4 = 794 - 2 * 49  # pixels between the margins


@pytest.mark.heavy
def test_paper_has_no_controls_and_clips_nothing(folder: Path, open_page: Open) -> None:
    folders = [random_folder(folder / name, CHIP, seed) for seed, name in enumerate("ab")]
    for path, views in (page_at(folders[0]), page_at(*folders)):
        page = open_page(path, color_scheme="dark")
        point_at(page, views[0], 0, click=True)
        page.emulate_media(media="print")
        page.set_viewport_size({"width": A4, "height": 1123})
        assert fits(page)
        seen = page.evaluate(
            "[...document.querySelectorAll('button:not(.jump), input, .toolbar, .hint.needs-js,"
            " #tip, #says, details:not([open], .why)')].filter(e => e.checkVisibility()).length"
        )
        assert seen == 0
        cut_off = page.evaluate(
            "[...document.querySelectorAll('.scroll, pre, section')]"
            ".filter(e => e.scrollWidth > e.clientWidth + 1).map(e => e.outerHTML)"
        )
        assert cut_off == []
        whole = page.evaluate(
            "['#chip', '#limits', '.pair', '#reproduce', 'tr', '.card'].map(s =>"
            " getComputedStyle(document.querySelector(s)).breakInside)"
        )
        assert set(whole) == {"avoid"}
        aside = page.evaluate(
            "[...document.querySelectorAll('main > .pair > *')]"
            ".map(e => Math.round(e.getBoundingClientRect().top))"
        )
        assert aside[0] == aside[1]  # a screen of this width has one column


@pytest.mark.heavy
def test_paper_of_a_canvas_is_light(folder: Path, open_page: Open) -> None:
    path, _ = page_at(random_folder(folder / "out", Chip("large", 65, 65), neurons=80))
    drawn_as = "document.querySelector('canvas').toDataURL()"
    light = open_page(path, color_scheme="light").evaluate(drawn_as)
    page = open_page(path, color_scheme="dark")
    assert page.evaluate(drawn_as) != light
    page.emulate_media(media="print")
    # drawn in the next frame
    page.evaluate("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
    assert page.evaluate(drawn_as) == light


@pytest.mark.heavy
def test_themes_and_paper(made: tuple[Path, View], open_page: Open) -> None:
    def colours(page: Any) -> tuple[str, str]:
        return (
            page.evaluate("getComputedStyle(document.body).backgroundColor"),
            page.evaluate("getComputedStyle(document.querySelector('.base .c31')).fill"),
        )

    light = colours(open_page(made[0], color_scheme="light"))
    page = open_page(made[0], color_scheme="dark")
    dark = colours(page)
    assert light[0] != dark[0]
    assert light[1] != dark[1]
    page.emulate_media(media="print")
    printed = colours(page)
    assert printed == ("rgb(255, 255, 255)", light[1])
    assert not page.locator(".toolbar").is_visible()


@pytest.mark.heavy
def test_a_full_chip_opens_quickly(folder: Path, open_page: Open) -> None:
    chip = Chip("full", 64, 64)
    rng = np.random.default_rng(0)
    network = random_network(folder / "net.bin", 4096, 60_000)
    out = write_folder(folder / "out", network, chip, rng.permutation(4096).astype(np.int32))
    path, _ = page_at(out)
    assert path.stat().st_size < 3e6
    page = open_page(path)
    seconds = []
    for _ in range(3):  # the best of three, because other tests load the processor
        page.reload()
        seconds.append(page.evaluate("performance.getEntriesByType('navigation')[0].loadEventEnd"))
    assert 0 < min(seconds) < 2000
