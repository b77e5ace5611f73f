"""The page as text: numbers, markup, and forbidden content."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import shlex
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from chipsim.chip.energy import ChipEnergy
from chipsim.chip.model import Chip
from chipsim.chip.time import ChipTime
from mapper.errors import MapperError
from mapper.reporting.figures import command_line, metric, of_machines
from mapper.reporting.make import write_page
from mapper.reporting.metrics import KEY, METRICS
from mapper.reporting.page import render
from tests.mapper.helpers import random_network
from tests.mapper.reporting.made import (
    Page,
    idle_folder,
    page_of,
    random_folder,
    view_of,
    write_folder,
)

CHIP = Chip(
    "c", 6, 4, neurons=16, axons_in=500, unavailable=(3, 9), time=ChipTime(),
    memory_bits=20_000, weight_bits=8, index_bits=4, axon_bits=6,
    energy_unit="pJ", energy=ChipEnergy(event=23.6, neuron=81.0),
)  # fmt: skip
RARE = ("copies", "list_words", "congestion_share", "congestion_pairs")  # only some chips
COPIES = replace(CHIP, delivery="core", single_target=True)
HOSTILE = "<script>alert(1)</script>&amp;\"'</title>{{ 7 * 7 }}{% x %}"


def names_in(value: dict[str, Any], before: str = "") -> set[str]:
    """Return the names of metrics; nested names are joined with a dot."""
    found = set()
    for name, part in value.items():
        found |= names_in(part, f"{name}.") if isinstance(part, dict) else {before + name}
    return found


def test_every_metric_is_shown_and_equals_the_report(folder: Path) -> None:
    out = random_folder(folder / "out", CHIP)
    report = json.loads((out / "report.json").read_text())
    shown = page_of(out).metrics()
    known = [name for name in METRICS if not of_machines(name) and name not in RARE]
    texts = {"tick_bound", "energy_parts.lacks", "energy_parts.unit"}
    numbers = names_in(report["metrics"]) - texts
    assert {name for name, _ in shown} == numbers == set(known)
    keys = [more for name, (_, more) in KEY.items() if name in known]
    assert len(shown) == len(known) + sum(1 + len(more) for more in keys)
    for name, value in shown:
        assert value == metric(report, name), name


def test_two_mappings_have_their_own_values(folder: Path) -> None:
    folders = [random_folder(folder / f"out{seed}", CHIP, seed) for seed in (1, 2)]
    reports = [json.loads((out / "report.json").read_text()) for out in folders]
    shown = page_of(*folders).metrics()
    for name in filter(lambda one: not of_machines(one) and one not in RARE, METRICS):
        values = {value for n, value in shown if n == name}
        assert values == {metric(report, name) for report in reports}
    text = page_of(*folders).source
    before, after = (report["metrics"]["hops_total"] for report in reports)
    change = f"{100 * (after / before - 1):+.1f} %".replace("-", "\u2212")
    assert f"<td>{change}</td>" in text


def test_copies_of_neurons(folder: Path) -> None:
    out = random_folder(folder / "out", COPIES)
    report = json.loads((out / "report.json").read_text())
    assert report["metrics"]["copies"] > 60
    assert ("copies", report["metrics"]["copies"]) in page_of(out).metrics()


def test_numbers_of_cores_and_links(folder: Path) -> None:
    out = random_folder(folder / "out", CHIP)
    view = view_of(out)
    (mapping,) = page_of(out).data()["mappings"]
    assert mapping["layers"]["outgoing"] == view.layers["outgoing"].ravel().tolist()
    assert mapping["links"]["unicast"] == view.links["unicast"].reshape(4, -1).tolist()
    assert mapping["usage"]["axons_in"] == view.usage["axons_in"].ravel().tolist()
    assert mapping["limits"] == {
        "neurons": 16, "synapses": None, "axons_in": 500, "axons_out": None,
        "memory_bits": 20_000,
    }  # fmt: skip
    sent = np.reshape(mapping["share"], (CHIP.cores, -1)).sum(axis=1)
    assert sent.tolist() == mapping["layers"]["outgoing"]
    assert mapping["state"].count(2) == 2


def test_tables_of_stages_limits_and_distances(folder: Path) -> None:
    out = random_folder(folder / "out", CHIP)
    view, page = view_of(out), page_of(out)
    rows = [element.text for element in page.all("tr")]
    assert "check 0.25 s 3.0 MiB" in rows
    assert "score 1.50 s 5.0 MiB" in rows
    most, mean = view.peaks["axons_in"]
    share = f"{100 * most / 500:.1f} %"
    assert any(r.startswith("axons_in") and r.endswith(f"{mean:.4g}500 {share}") for r in rows)
    synapses, axons = view.usage["synapses"], view.usage["axons_in"]
    most = int((synapses * 12 + axons * 6).max())
    assert any(r.startswith("memory_bits") and f"{most:,}" in r for r in rows)
    assert view.report["metrics"]["memory_fill_max"] == most / 20_000
    traffic = view.distances.tolist()
    for hops in range(view.report["metrics"]["hops_max"] + 1):
        share = f"{100 * traffic[hops] / sum(traffic):.1f} %"
        assert f"{hops}{traffic[hops]:,}{share}" in rows


def stage(name: str, **costs: Any) -> dict[str, Any]:
    return {"name": name, "seconds": 1, "peak_anon_bytes": 0, **costs}


def with_stages(folder: Path, stages: list[Any], levels: list[Any] | None = None) -> Page:
    """Return the page of a small mapping whose report has these stages and levels."""
    network = random_network(folder / "net.bin", 20, 60)
    core = np.zeros(20, np.int32)
    more = {"stages": stages} | ({} if levels is None else {"levels": levels})
    return page_of(write_folder(folder / "out", network, Chip("c", 2, 2), core, **more))


def costs_of(page: Page) -> list[str]:
    """Return the rows of the table of costs."""
    rows = [element.text for element in page.all("tr")]
    start = next(i for i, row in enumerate(rows) if row.startswith("After"))
    end = next(i for i, row in enumerate(rows) if row.startswith("LevelVertices"))
    return rows[start:end]


def test_cut_and_hops_by_stage_and_level(folder: Path) -> None:
    """Levels are listed before their stage, coarsest first, without the finest one."""
    stages = [
        stage("read"), stage("initial partition", cut_weight=900),
        stage("placement", cut_weight=900, hops_total=12345),
        stage("hop refinement", cut_weight=800, hops_total=8000), stage("score"),
    ]  # fmt: skip
    sizes = {"vertices": 3, "connections": 2}
    levels = [{**sizes, "cut_weight": 800, "hops_total": 8000}]
    levels += [{**sizes, "cut_weight": 850 + i, "hops_total": 9000 + i} for i in (1, 2)]
    page = with_stages(folder, stages, levels)
    assert costs_of(page) == [
        "AfterCutHops", "initial partition 900\u2013", "placement 900 12,345",
        "level 2 852 9,002", "level 1 851 9,001", "hop refinement 800 8,000",
    ]  # fmt: skip
    bars = {e.attributes["width"] for e in page.all("rect", **{"class": "bar"})}
    assert {f"{100 * 8000 / 12345:.1f}", f"{100 * 800 / 900:.1f}"} <= bars


def test_levels_of_a_partition_by_cut(folder: Path) -> None:
    stages = [stage("uncoarsen and refine", cut_weight=5), stage("placement", hops_total=7)]
    levels = [{"vertices": 1, "connections": 1, "cut_weight": cut} for cut in (5, 6, None)]
    found = costs_of(with_stages(folder, stages, levels))[1:]
    assert found == ["level 1 6\u2013", "uncoarsen and refine 5\u2013", "placement\u2013 7"]


def test_estimates_are_marked(folder: Path) -> None:
    stages = [
        stage("split blocks", cut_weight=123456, estimated=True),
        stage("placement", cut_weight=100, hops_total=0.25),
    ]
    page = with_stages(folder, stages)
    assert costs_of(page)[1:] == ["split blocks \u2248 123,500\u2013", "placement 100 0.25"]
    assert "is an estimate" in page.source
    assert {e.attributes["value"] for e in page.all("data")} >= {"123456"}


def test_nets_have_bars_if_they_are_the_objective(folder: Path) -> None:
    nets = {"connectivity": 40, "hops_total": 70}
    stages = [stage("tree refinement", cut_weight=10, hops_total=20, multicast=nets)]
    page = with_stages(folder, stages)
    assert costs_of(page) == [
        "AfterCutHopsConnectivityTree hops", "tree refinement1020 40 70",
    ]  # fmt: skip


def test_reports_of_older_versions_have_no_costs(folder: Path) -> None:
    page = with_stages(folder, [stage("check"), stage("score")])
    assert "version that wrote the report did not measure it" in page.source
    assert "StageTimePeak memory" in [element.text for element in page.all("tr")]


@pytest.mark.parametrize(
    ("facts", "title"),
    [
        ({"path": "/a/net.bin"}, "net.bin"),
        ({"path": "/a/out/network.bin", "imported_from": "/b/wing.graph"}, "wing.graph"),
        ({"path": None}, "network"),  # created in Python
    ],
)
def test_the_title_names_the_network(facts: dict[str, Any], title: str, folder: Path) -> None:
    view = view_of(random_folder(folder / "out", CHIP))
    view.report["network"] |= facts
    assert Page(render([view]).decode()).one("title").text == f"{title} on c | mapper"


def test_the_same_inputs_give_the_same_bytes(folder: Path) -> None:
    out = random_folder(folder / "out", CHIP)
    assert render([view_of(out)]) == render([view_of(out)])


def test_the_still_picture_has_every_core_and_link(folder: Path) -> None:
    out = random_folder(folder / "out", CHIP)
    view = view_of(out)
    source = render([view]).decode().split('class="overlay"')[0].split('<svg class="base"')[1]
    assert source.count("h7v7h-7z") == CHIP.usable_count
    assert len(re.findall(r"M[\d.]+ [\d.]+l4 4", source)) == len(CHIP.unavailable)
    strokes = len(re.findall(r"[hv]-?3(?![\d.])", source))
    assert strokes == (view.links["unicast"] > 0).sum()


def test_nothing_is_loaded_from_elsewhere(folder: Path) -> None:
    page = page_of(random_folder(folder / "out", CHIP))
    for element in page.elements:
        for name in ("src", "href", "srcset", "action", "data", "poster"):
            value = element.attributes.get(name)
            assert value is None or value.startswith("data:"), element
    assert "@import" not in page.source
    assert "url(" not in page.source
    policy = str(page.all("meta")[1].attributes["content"])
    assert "default-src 'none'" in policy
    script = page.all("script")[-1].text
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert f"'sha256-{digest}'" in policy


def test_accessible_markup(folder: Path) -> None:
    page = page_of(random_folder(folder / "out", CHIP), random_folder(folder / "two", CHIP))
    assert page.one("html").attributes["lang"] == "en"
    assert page.one("title").text == "out and two | mapper"
    assert len(page.all("h1")) == 1
    ids = [e.attributes["id"] for e in page.elements if "id" in e.attributes]
    assert len(set(ids)) == len(ids)
    for section in page.all("section"):
        assert section.attributes["aria-labelledby"] in ids
    for svg in page.all("svg"):
        hidden = svg.attributes.get("aria-hidden") == "true"
        assert hidden or (svg.attributes["role"] == "img" and svg.attributes["aria-label"])
    for table in page.all("table"):
        assert table.text
    assert all(cell.attributes["scope"] in ("row", "col") for cell in page.all("th"))
    chosen = [e for e in page.all("input") if "checked" in e.attributes]
    assert [e.attributes["value"] for e in chosen] == ["fill", "unicast"]


def test_hostile_names_stay_text(folder: Path) -> None:
    network = random_network(folder / "net.bin", 20, 60)
    chip = Chip(HOSTILE, 3, 2)
    core = np.arange(20, dtype=np.int32) % 6
    out = write_folder(folder / "out", network, chip, core)
    report = json.loads((out / "report.json").read_text())
    report["network"]["path"] = f"/tmp/{HOSTILE}".replace("</", "<\\/")
    report["settings"] |= {HOSTILE: HOSTILE, "preset": HOSTILE, "seed": HOSTILE}
    report["stages"][0]["name"] = HOSTILE
    report["command"] = ["mapper", "run", HOSTILE]
    link = {"x": 0, "y": 0, "direction": HOSTILE, "flits_per_cycle": 0.5, "expected": 0.5}
    report["simulation"] = {"latency": {"mean": HOSTILE}, "packets": HOSTILE, "links": [link]}
    view = replace(
        view_of(out, HOSTILE), report=report
    )  # such a label could not be read from a file
    for views in ([view], [view, view]):
        page = Page(render(views).decode())
        lines = page.all("code", **{"class": "command"})
        assert [shlex.split(line.text)[-1] for line in lines] == [HOSTILE] * len(views)
        assert len(page.all("script")) == 2
        assert HOSTILE in page.one("h1").text
        assert HOSTILE in page.one("title").text
        assert page.data()["mappings"][0]["label"] == HOSTILE
        assert "<script>alert" not in page.source
        heads = [head.text for head in page.all("th", scope="row")]
        assert {HOSTILE, f"0, 0 {HOSTILE}"} <= set(heads)
        assert page.one("p", **{"class": "eyebrow"}).text.endswith(("report", "mappings"))
        assert page.all("aside")[0].attributes["aria-label"] == f"Numbers of {HOSTILE}"
    assert page.source.count("</title>") == 1


def test_line_breaks_of_names_are_kept(folder: Path) -> None:
    """Line breaks of templates are removed, line breaks of inserted values are kept."""
    view = view_of(random_folder(folder / "out", CHIP), "two\n    lines")
    page = Page(render([view, view]).decode())
    assert page.one("h1").text == "two\n    lines and two\n    lines"


def test_a_template_with_an_undefined_name_fails() -> None:
    from jinja2 import UndefinedError

    from mapper.reporting.page import templates

    with pytest.raises(UndefinedError, match="'digest' is undefined"):
        templates().get_template("page.html.j2").render(mappings=[])


@pytest.mark.heavy
@pytest.mark.sample(0.5)
def test_only_pages_load_templates() -> None:
    code = "import sys, mapper.cli.main, mapper.reporting.make; sys.exit('jinja2' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_without_traffic(folder: Path) -> None:
    page = page_of(idle_folder(folder / "out", CHIP))
    assert "No traffic leaves any core." in page.source
    assert "The network has no traffic." in page.one("section", id="distances").text
    assert "No traffic crosses a link." in page.one("section", id="loads").text
    assert not page.all("svg", **{"class": "chart"})
    assert all(name != "hops_mean" or value == 0 for name, value in page.metrics())
    assert "nan" not in re.sub(r"<script>.*", "", page.source, flags=re.S).lower()


@pytest.mark.parametrize(("width", "height"), [(1, 1), (1, 7), (9, 1)])
def test_lines_of_cores(width: int, height: int, folder: Path) -> None:
    page = page_of(random_folder(folder / "out", Chip("line", width, height)))
    assert page.one("svg", **{"class": "base"}).attributes["viewbox"] == (
        f"0 0 {10 * width} {10 * height}"
    )


@pytest.mark.heavy
def test_a_large_chip_is_a_canvas_over_a_picture(folder: Path) -> None:
    import struct
    import zlib

    out = random_folder(folder / "out", Chip("large", 65, 64), neurons=20)
    view, page = view_of(out), page_of(out)
    assert len(page.all("canvas")) == 1
    data = base64.b64decode(str(page.one("img").attributes["src"]).partition(",")[2])
    assert struct.unpack(">II", data[16:24]) == (65, 64)
    at = data.index(b"IDAT")
    (length,) = struct.unpack(">I", data[at - 4 : at])
    lines = np.frombuffer(zlib.decompress(data[at + 4 : at + 4 + length]), np.uint8)
    pixels = lines.reshape(64, 66)[:, 1:]
    assert ((pixels > 1) == (view.layers["fill"] > 0)).all()
    square = page_of(random_folder(folder / "square", Chip("square", 64, 64), neurons=20))
    assert not square.all("canvas")


def test_command_lines() -> None:
    typed = {"command": ["mapper", "run", "a net.bin", "--chip", "4x4"]}
    assert command_line(typed) == "mapper run 'a net.bin' --chip 4x4"
    from mapper.settings import preset

    settings = preset("fast", seed=3, threads=2, memory_bytes=1 << 28, starts=5).to_json()
    older = {"network": {"path": "net.bin"}, "chip": CHIP.to_json(), "settings": settings}
    words = command_line(older).split()
    assert words[:5] == ["mapper", "run", "net.bin", "--chip", "c"]
    given = dict(zip(words[5::2], words[6::2], strict=True))
    assert given == {
        "--neurons-per-core": "16", "--axons-per-core": "500", "--preset": "fast",
        "--seed": "3", "--threads": "2", "--memory": str(1 << 28), "--set": "starts=5",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("part", "said"),
    [
        ("stages", r"stages\[0\] is 3, not an object"),
        ("levels", r"levels\[0\] is 3, not an object"),
        ("network", "lacks network.neurons"),
        ("metrics", "lacks metrics.hops_total"),
    ],
)
def test_a_damaged_report_gives_one_line(part: str, said: str, folder: Path) -> None:
    out = random_folder(folder / "out", CHIP)
    report = json.loads((out / "report.json").read_text())
    report[part] = [3] if isinstance(report[part], list) else {"path": "x"}
    (out / "report.json").write_text(json.dumps(report))
    with pytest.raises(MapperError, match=rf"report.json: {said}; run again$"):
        write_page(out / "report.html", [view_of(out)])
    assert not list(out.glob("report.html*"))
