"""A20: ranges.json round-trips, and faults of a file are reported in one line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mapper.compiler.ir.graph import Graph
from mapper.compiler.ir.tensor import Tensor
from mapper.compiler.quantisation.convert import Converter
from mapper.compiler.quantisation.parameters import Precision
from mapper.compiler.quantisation.ranges import BINS, measure_ranges, open_ranges, write_ranges
from mapper.errors import MapperError
from tests.compiler.networks import residual

TENSOR = Tensor("t", (1, 1, 1, 1))
GOOD = {"low": -1.0, "high": 2.0, "counts": [1] * BINS}


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "model.onnx"
    path.write_bytes(b"some model")
    return path


@pytest.fixture
def good(tmp_path: Path, model: Path) -> dict[str, Any]:
    """Return the contents of a file, with the range of one tensor."""
    write_ranges(tmp_path / "ranges.json", {}, model, 7)
    found: dict[str, Any] = json.loads((tmp_path / "ranges.json").read_text())
    return found | {"tensors": {"t": GOOD}}


def test_a20_ranges_are_read_back(tmp_path: Path, model: Path) -> None:
    build = residual()
    feeds = {build.input: build.samples(5)}
    tensors = Converter(build.graph, Precision()).quantised_tensors()
    ranges = measure_ranges(build.graph, feeds, tensors)
    write_ranges(tmp_path / "ranges.json", ranges, model, 5)
    opened = open_ranges(tmp_path / "ranges.json", model)
    found = opened.ranges(build.graph, tensors)
    assert opened.samples == 5
    for tensor, one in ranges.items():
        assert (found[tensor].low, found[tensor].high) == (one.low, one.high)
        assert np.array_equal(found[tensor].counts, one.counts)
    with pytest.raises(MapperError, match=r"tensors: no range of 'other' \(1 of 1 are"):
        opened.ranges(build.graph, [Tensor("other", (1, 1, 1, 1))])


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"schema": 2}, "schema is 2, this mapper reads 1"),
        ({"bins": 3}, "bins is 3, this mapper reads 2048"),
        ({"model": None}, "model is None; give"),
        ({"model": {"name": "other.onnx", "sha256": "0"}}, "model: these are ranges of"),
        ({"samples": 0}, "samples is 0; give a whole number"),
        ({"tensors": []}, r"tensors is \[\]; give"),
        ({"tensors": {}}, "tensors: no range of 't'"),
        ({"tensors": {"t": 3}}, "tensors: 't' is 3; give low, high and counts"),
        *(
            ({"tensors": {"t": GOOD | {field: value}}}, f"tensors: 't': {field} is ")
            for field, value in (
                ("low", 1), ("low", None), ("low", True), ("low", "0"), ("low", -1e39),
                ("high", -1), ("high", 1e39), ("counts", [0] * 7), ("counts", None),
                ("counts", [-1] * BINS), ("counts", [0.5] * BINS), ("counts", [1 << 60] * BINS),
            )
        ),
    ],
)  # fmt: skip
def test_bad_files_name_the_field(
    tmp_path: Path, model: Path, good: dict[str, Any], change: dict[str, Any], says: str
) -> None:
    """R5.1, R13.1"""
    path = tmp_path / "ranges.json"
    path.write_text(json.dumps(good))
    assert open_ranges(path, model).ranges(Graph(), [TENSOR])[TENSOR].high == 2
    path.write_text(json.dumps(good | change))
    with pytest.raises(MapperError, match=says) as error:
        open_ranges(path, model).ranges(Graph(), [TENSOR])
    assert str(error.value).startswith(f"{path}: ")
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("text", "says"),
    [("{", "not a file of ranges"), ("[]", "not a file of ranges"), ('{"schema": NaN}', "NaN")],
)
def test_not_a_file_of_ranges(tmp_path: Path, model: Path, text: str, says: str) -> None:
    path = tmp_path / "ranges.json"
    path.write_text(text)
    with pytest.raises(MapperError, match=says):
        open_ranges(path, model)
    with pytest.raises(MapperError, match="cannot read"):
        open_ranges(tmp_path / "missing.json", model)
