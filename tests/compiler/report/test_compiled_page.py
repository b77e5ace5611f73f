"""The page of a compiled model, and report.json with its schema; R12.2."""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ET
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mapper.compiler.artifacts import cycles
from mapper.reporting.compiled.judged import judged
from tests.compiler.bad_input.good import QUICK, compile_good, good
from tests.docs.test_schemas import errors
from tests.mapper.conftest import Run

pytestmark = pytest.mark.jit


@pytest.fixture
def out(folder: Path, run: Run) -> Path:
    it = good()
    it.nodes[0].name = "conv <b>&amp;"
    compile_good(folder, run, "--chip", "1x1", it=it)
    return folder / "out"


@pytest.mark.heavy
@pytest.mark.sample(0.5)
def test_the_report_follows_its_schema(out: Path, run: Run) -> None:
    for command in ((), ("simulate", "out", "--input", "samples.npz", "--check", "--cycles")):
        assert not command or run(*command).code == 0
        report = json.loads((out / "report.json").read_text())
        assert errors("compiled-report", report) == []
    del report["layers"][0]["tile"]["rows"]
    assert any("'rows' is a required property" in one for one in errors("compiled-report", report))


def test_contents_of_the_page(out: Path, run: Run) -> None:
    assert run("simulate", "out", "--input", "samples.npz", "--cycles").code == 0
    page = (out / "report.html").read_text()
    for piece in (
        "Tiles and cycles", "Units, stalls and bytes", "Timeline of the units of Core (0, 0)",
        "Cycle-accurate run of core (0, 0)", "Quantisation attempts", "Memories of the core",
        "mapper compile good.onnx --method minmax", "To reproduce", "Accuracy",
        "compared with the model in ONNX Runtime; ", "Comparison with ONNX Runtime",
    ):  # fmt: skip
        assert piece in page, piece
    assert "<b>&" not in page
    assert "conv &lt;b&gt;&amp;amp;" in page
    assert not re.search(r'(src|href)="', page), "one file that opens anywhere"
    for picture in re.findall(r"<svg.*?</svg>", page):
        ET.fromstring(picture)


def row(name: str, **more: Any) -> dict[str, Any]:
    """Return a value compared with the model's: in floating point, without error."""
    one = {"name": name, "nodes": [name], "elements": 9, "differences": None, "ties": 0,
           "signal": None, "wanted": 20.0, "departs": False}  # fmt: skip
    return one | more


def test_the_line_about_onnx_runtime_names_the_worst_layer() -> None:
    rows = [
        row("a"),
        row("b", signal=42.25),
        row("c", signal=31.5, nodes=["c", "relu"]),
        row("d", wanted=None, differences=0, ties=2),
        row("y", nodes=[], signal=33.0),
    ]
    judge = {"frames": 1, "why": "", "left_out": ["m"], "rows": rows}
    found = judged({"judge": judge})
    assert found is not None
    assert found.line == (
        "5 maps and outputs of 1 frame compared with the model in ONNX Runtime; "
        "2 exact, 2 ties; worst: layer c, relu, 31.5 dB; 1 map left out."
    )
    assert found.rows is not None
    shown = [[cell.shown for cell in cells[2:4]] for _, cells in found.rows.rows]
    assert shown[:2] == [["exact", "20.0 dB"], ["42.2 dB", "20.0 dB"]]
    rows[3] |= {"differences": 7, "departs": True}
    found = judged({"judge": judge})
    assert found is not None
    assert "worst: layer d, 7 differences" in found.line


def test_the_page_reports_that_nothing_was_compared() -> None:
    judge = {"frames": 0, "why": "there are no samples", "left_out": [], "rows": []}
    found = judged({"judge": judge})
    assert found is not None
    assert found == ("Not compared with ONNX Runtime: there are no samples.", None)
    assert judged({}) is None
    rows = [row("b", signal=42.0)]
    later = {"judge": judge, "simulation": {"judge": judge | {"why": "", "rows": rows}}}
    found = judged(later)
    assert found is not None
    assert "worst: layer b, 42.0 dB" in found.line


@pytest.mark.heavy
@pytest.mark.sample(0.25)
def test_a_run_on_several_cores(spread: Path, run: Run) -> None:
    """N12.2: a map of cores and links, and a timeline of the first frames."""
    options = ("--cycles", "--frames", "7", "--clock", "400")
    assert "run-of-chip" not in (spread / "report.html").read_text()
    assert run("simulate", "out", *options).code == 0
    report = json.loads((spread / "report.json").read_text())
    assert errors("compiled-report", report) == []
    found = report["simulation"]["cycle_run"]
    page = (spread / "report.html").read_text()
    for piece in (
        "Cycle-accurate run of 7 frames",
        "Initiation interval",
        "Latency",
        "at 400 MHz",
        "Busiest links",
    ):
        assert piece in page, piece
    pictures = [ET.fromstring(one) for one in re.findall(r"<svg.*?</svg>", page)]
    (chip,) = [one for one in pictures if "load of every link" in one.get("aria-label", "")]
    titles = [one.text or "" for one in chip.iter("title")]
    assert len(titles) == len(found["cores"]) + len(found["links"])
    for core in found["cores"]:
        x, y = core["core"]
        share = core["busy"]["GEMM"] / found["cycles"]
        (title,) = [one for one in titles if one.startswith(f"core ({x}, {y}):")]
        assert f"GEMM {share:.0%}" in title
    busiest = max(found["links"], key=lambda one: one["flits"])
    share = busiest["flits"] / found["period"]
    assert any(
        f"({busiest['at'][0]}, {busiest['at'][1]}) to the {busiest['to']}" in one
        and f"{share:.0%}" in one
        for one in titles
    )
    (frames,) = [one for one in pictures if "first frames" in one.get("aria-label", "")]
    assert sum(one.get("class") == "end" for one in frames.iter("path")) == 4


@pytest.mark.heavy
@pytest.mark.sample(0.25)
def test_the_timeline_of_a_run_equals_its_cores(spread: Path, run: Run) -> None:
    """Drawn bars of a core belong to the drawn frames, unit by unit in order of time."""
    found = run("simulate", "out", "--cycles", "--frames", "7", "--json").json()["cycle_run"]
    drawn = found["timeline"]
    assert len(drawn["completed"]) == 4
    assert drawn["completed"][0] == found["latency"]
    assert {tuple(one["core"]) for one in drawn["cores"]} == {
        tuple(one["core"]) for one in found["cores"]
    }
    gap = drawn["cycles"] // 200
    for core in drawn["cores"]:
        for frames in core["units"].values():
            assert len(frames) == 4
            for bars in frames:
                flat = [cycle for bar in bars for cycle in bar]
                assert flat == sorted(flat)
                assert all(flat[at + 1] - flat[at] > gap for at in range(1, len(flat) - 1, 2))
                assert not flat or flat[-1] <= drawn["cycles"]


@pytest.mark.heavy
@pytest.mark.sample(0.25)
def test_bars_of_a_run_are_the_work_of_its_units(
    spread: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With all gaps kept, and all frames drawn."""
    monkeypatch.setattr(cycles, "MOST_BARS", 1 << 30)
    found = run("simulate", "out", "--cycles", "--frames", "4", "--json").json()["cycle_run"]
    busy = {tuple(one["core"]): one["busy"] for one in found["cores"]}
    for core in found["timeline"]["cores"]:
        for unit in ("GEMM", "ALU"):
            bars = [bar for frame in core["units"][unit] for bar in frame]
            assert sum(end - start for start, end in bars) == busy[tuple(core["core"])][unit]


@pytest.mark.heavy
@pytest.mark.sample(0.25)
def test_later_tables_are_kept(out: Path, run: Run) -> None:
    options = ("--chip", "1x1", "--calibrate", "samples.npz")
    for option, caption in (("--compare", "Other settings"), ("--ablate", "Ablation of passes")):
        assert caption not in (out / "report.html").read_text()
        found = run("compile", "good.onnx", *QUICK, *options, option)
        assert found.code == 0, found.err
        assert "note: table added to the report page of out" in found.err
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
    (lambda r: r.update(kind="mapped"), "not a report of a compiled model"),
    (lambda r: r.update(busy={"LOAD": -1}), "a value of busy is not a number from 0"),
]


@pytest.mark.sample(3)
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
