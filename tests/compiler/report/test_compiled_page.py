"""The page of a compiled model, and report.json with its schema; R12.2."""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ET
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.compiler.bad_input.good import QUICK, good
from tests.docs.test_schemas import errors
from tests.mapper.conftest import Run

pytestmark = pytest.mark.jit


@pytest.fixture
def out(folder: Path, run: Run) -> Path:
    it = good()
    it.nodes[0].name = "conv <b>&amp;"
    it.save(folder)
    found = run("compile", "good.onnx", *QUICK, "--chip", "1x1", "--calibrate", "samples.npz")
    assert found.code == 0, found.err
    return folder / "out"


def test_the_report_keeps_to_its_schema(out: Path, run: Run) -> None:
    for command in ((), ("simulate", "out", "--input", "samples.npz", "--check", "--cycles")):
        assert not command or run(*command).code == 0
        report = json.loads((out / "report.json").read_text())
        assert errors("compiled-report", report) == []
    del report["layers"][0]["tile"]["rows"]
    assert any("'rows' is a required property" in one for one in errors("compiled-report", report))


def test_what_the_page_shows(out: Path, run: Run) -> None:
    assert run("simulate", "out", "--input", "samples.npz", "--cycles").code == 0
    page = (out / "report.html").read_text()
    for piece in (
        "Tiles and cycles", "Units, waits and bytes", "Timeline of the units of Core (0, 0)",
        "Cycle-true run of core (0, 0)", "Attempts to quantise", "Memories of the core",
        "mapper compile good.onnx --method minmax", "To reproduce", "Accuracy",
    ):  # fmt: skip
        assert piece in page, piece
    assert "<b>&" not in page
    assert "conv &lt;b&gt;&amp;amp;" in page
    assert not re.search(r'(src|href)="', page), "one file that opens anywhere"
    for picture in re.findall(r"<svg.*?</svg>", page):
        ET.fromstring(picture)


def test_tables_that_are_made_later_are_kept(out: Path, run: Run) -> None:
    options = ("--chip", "1x1", "--calibrate", "samples.npz")
    for option, caption in (("--compare", "Other settings"), ("--ablate", "Without each pass")):
        assert caption not in (out / "report.html").read_text()
        found = run("compile", "good.onnx", *QUICK, *options, option)
        assert found.code == 0, found.err
        assert "note: the table is on the page of out, too" in found.err
        assert caption in (out / "report.html").read_text()
    assert errors("compiled-report", json.loads((out / "report.json").read_text())) == []


def test_bars_of_the_timeline_stay_in_the_picture(out: Path) -> None:
    page = (out / "report.html").read_text()
    (picture,) = re.findall(r'<svg class="timeline".*?</svg>', page)
    paths = [one.get("d") or "" for one in ET.fromstring(picture).iter() if one.tag == "path"]
    starts = [float(x) for path in paths for x in re.findall(r"M([\d.]+) ", path)]
    assert starts
    assert min(starts) >= 64
    assert max(starts) <= 960


DAMAGE: list[tuple[Callable[[dict], object], str]] = [  # type: ignore[type-arg]
    (lambda r: r.pop("cycles"), "lacks cycles"),
    (lambda r: r["layers"][0].update(core=3), "layers[0].core is 3, not a list"),
    (lambda r: r["maps"][0].pop("born"), "lacks maps[0].born"),
    (lambda r: r.update(kind="mapped"), "is no report of a compiled model"),
    (lambda r: r.update(busy={"LOAD": -1}), "a value of busy is not a number from 0"),
]


@pytest.mark.parametrize(("change", "says"), DAMAGE)
def test_a_damaged_report_is_named(
    out: Path,
    fails: Callable[..., str],
    change: Callable[[dict], object],
    says: str,  # type: ignore[type-arg]
) -> None:
    report = json.loads((out / "report.json").read_text())
    change(report)
    (out / "report.json").write_text(json.dumps(report))
    assert f"out/report.json: {says}" in fails("report", "out")
