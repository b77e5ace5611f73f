"""Line buffers in the report and on the page."""

from __future__ import annotations

import re
from copy import deepcopy
from typing import Any

import pytest

from mapper.compiler.artifacts.manifest import Target
from mapper.compiler.artifacts.report import report_of
from mapper.compiler.pipeline import compile_model
from mapper.reporting.compiled.page import render_compiled
from mapper.reporting.compiled.rings import rings
from tests.compiler.multicore.test_lines import in_lines
from tests.compiler.multicore.test_programs import CHIP, HOW
from tests.compiler.networks import Builder
from tests.compiler.programs import SHAPE, source_of
from tests.docs.test_schemas import errors

pytestmark = [pytest.mark.jit, pytest.mark.heavy, pytest.mark.sample(1)]


@pytest.fixture(scope="module")
def report() -> dict[str, Any]:
    """Compile a chain of layers and a concatenation, with line buffers."""
    build = Builder(8, 100, 16, 3)
    data = build.relu(build.conv(build.relu(build.conv(build.input, 16)), 16))
    build.end(build.conv(build.concat(build.conv(data, 16), build.conv(data, 32)), 16))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("mapper.compiler.pipeline.spread", lambda *a: in_lines(3, *a))
        source, samples = source_of(deepcopy(build))
        made = compile_model(source, SHAPE, samples, HOW, chip=CHIP)
    return report_of(made, "model.onnx", Target(CHIP, SHAPE, HOW), ["mapper", "compile"])


def test_each_line_buffer_is_listed_once(report: dict[str, Any]) -> None:
    rows = report["rings"]
    assert len(rows) > 4
    assert errors("compiled-report", report) == []
    regions = {(*one["core"], one["first"]) for one in report["maps"]}
    assert len(rows) <= len(regions)
    assert len({(*one["core"], one["map"], *one["rows"]) for one in rows}) == len(rows)


def test_tiles_read_columns_that_are_kept(report: dict[str, Any]) -> None:
    """Tiles together read each column of a map, except its edge, in the order of the columns."""
    for one in report["rings"]:
        assert 0 < one["least"] <= one["kept"] <= one["columns"]
        assert one["vectors"] == one["kept"] * one["tall"]
        read = sorted(one["reads"])
        assert read
        for begin, end, first, stop in read:
            assert 0 <= begin <= end
            assert 0 <= first < stop <= one["columns"]
            assert stop - first <= one["kept"]
        stops = [stop for *_, stop in read]
        assert max(stops) >= one["columns"] - 1


def test_the_page_shows_them(report: dict[str, Any]) -> None:
    found = rings(report)
    assert found is not None
    kept = sum(one["vectors"] for one in report["rings"])
    assert f"keep {kept:,} vectors" in found.note
    assert len(found.table.rows) == len(found.pictures) == len(report["rings"])
    picture = found.pictures[0]
    assert picture.reads.count("M") == len(report["rings"][0]["reads"])
    numbers = [float(one) for one in re.findall(r"M([\d.]+) ", picture.reads + picture.kept)]
    assert min(numbers) >= 0
    assert max(numbers) <= picture.width
    page = render_compiled(report).decode()
    assert "Line buffers" in page
    assert picture.title in page
    without = {name: value for name, value in report.items() if name != "rings"}
    assert "Line buffers" not in render_compiled(without).decode()
