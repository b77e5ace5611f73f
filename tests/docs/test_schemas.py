"""The schemas in the docs match the code, and files are valid."""

from __future__ import annotations

import importlib
import json
import runpy
import tomllib
import zipfile
from pathlib import Path
from typing import Any

import pytest

from chipsim.chip.file import chip_toml
from chipsim.chip.presets import PRESETS, parse_chip
from tests.docs.blocks import DOCS
from tests.mapper.helpers import random_network
from tests.mapper.reporting.made import random_folder

FAULTS = "width = 4\nheight = 3\nunavailable = [11, [1, 2]]\nsynapses = 7\n"
NPU = 'width = 4\nheight = 3\n[npu]\npreset = "tiny"\nrows = 4\n'
HOST = "width = 4\nheight = 3\n[host]\nports = [3, [0, 2]]\nlatency = 9\nflits = 0.5\n"
CONSTRAINTS = """
[[pin]]
neurons = [0, 5]
core = "1,1"
[[pin]]
range = [1, 3]
core = [0, 1]
[[together]]
population = "L5I"
[[region]]
population = "L4"
rectangle = [0, 0, 3, 1]
exclusive = true
[[region]]
range = [1, 3]
cores = [4, "1,1", [2, 2]]
[[apart]]
populations = ["L4", "L6"]
[[apart]]
ranges = [[0, 4], [5, 9]]
"""


def errors(name: str, value: Any) -> list[str]:
    schema = json.loads((DOCS / "schemas" / f"{name}.schema.json").read_text())
    validator: Any = importlib.import_module("jsonschema").Draft202012Validator
    validator.check_schema(schema)
    return [error.message for error in validator(schema).iter_errors(value)]


def test_schemas_are_current() -> None:
    made = runpy.run_path(str(DOCS.parent / "scripts" / "schemas.py"))["schemas"]()
    found = {path.name: path.read_text() for path in (DOCS / "schemas").iterdir()}
    assert found == made, "run `python scripts/schemas.py`"
    page = (DOCS / "reference" / "schemas.md").read_text()
    assert all(f"`{name}`" in page for name in made)


@pytest.mark.heavy
@pytest.mark.sample(0.25)
def test_files_match_their_schemas(tmp_path: Path) -> None:
    out = random_folder(tmp_path / "out", parse_chip("4x4"))
    report = json.loads((out / "report.json").read_text())
    assert errors("report", report) == []
    with zipfile.ZipFile(random_network(tmp_path / "net.bin", 30, 90, sizes=[1, 2] * 15)) as file:
        assert errors("meta", json.loads(file.read("meta.json"))) == []
    for text in (
        *map(chip_toml, PRESETS.values()),
        FAULTS,
        chip_toml(parse_chip("4x4")),
        NPU,
        HOST,
    ):
        assert errors("chip", tomllib.loads(text)) == []
    assert errors("constraints", tomllib.loads(CONSTRAINTS)) == []


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("report", {"schema": 1}, "'network' is a required property"),
        ("meta", {"neurons": 0}, "0 is less than the minimum of 1"),
        ("chip", {"width": 4, "height": 3, "cores": 1}, "'cores' was unexpected"),
        ("chip", {"width": 4, "height": -3}, "-3 is less than the minimum of 1"),
        ("chip", {"width": 4, "height": 3, "npu": {"preset": "big"}}, "not valid under any"),
        ("chip", {"width": 4, "height": 3, "npu": {"rows": 4}}, "not valid under any"),
        ("chip", {"width": 4, "height": 3, "host": {"flits": 2}}, "not valid under any"),
        ("constraints", {"pin": [{"neurons": [1]}]}, "'core' is a required property"),
        ("constraints", {"apart": [{"groups": [[1]]}]}, "[[1]] is too short"),
    ],
)
def test_schemas_find_faults(name: str, value: Any, said: str) -> None:
    assert any(said in error for error in errors(name, value))
