"""`mapper compile` with the cache: the same bytes and texts, in a part of the time."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mapper.compiler import job
from mapper.compiler.multicore import search
from mapper.errors import BEYOND_LIMITS
from tests.mapper.cli.residual_net import save_residual_net
from tests.mapper.conftest import Result, Run, tree

pytestmark = pytest.mark.jit  # tests/chipsim/npu has the references of these kernels

Compile = Callable[..., Result]


@pytest.fixture
def compile_(folder: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> Compile:
    """Return a function that compiles a model into a folder, with a cache."""
    monkeypatch.setenv("MAPPER_CACHE_DIR", str(folder / "cache"))
    monkeypatch.setenv("MAPPER_CACHE_SIZE", "256MiB")
    random = np.random.default_rng(5)
    save_residual_net(Path("small.onnx"), random, side=12, channels=8, classes=4)
    x = random.normal(0, 1, (20, 2, 12, 12)).astype(np.float32)
    np.savez("samples.npz", x=x, y=random.integers(0, 4, 20))

    def compile_(output: str, *options: str) -> Result:
        words = ("--chip", "2x2", "--calibrate", "samples.npz", "--effort", "fast", "-o", output)
        return run("compile", "small.onnx", *words, *options)

    return compile_


def contents(folder: str) -> tuple[dict[str, bytes], dict[str, Any]]:
    """Return the files of a compiled folder, and its report without command and times."""
    files = {name: data for name, data in tree(Path(folder)).items() if "report" not in str(name)}
    report = json.loads(Path(folder, "report.json").read_text())
    return files, report | {"command": [], "seconds": {}}


def refuse(*_: object, **__: object) -> None:
    raise AssertionError("it was in the cache")


@pytest.mark.heavy
def test_the_same_folder_with_and_without(
    compile_: Compile, monkeypatch: pytest.MonkeyPatch
) -> None:
    without, first = compile_("without", "--no-cache"), compile_("first")
    with monkeypatch.context() as patch:
        patch.setattr(job, "compile_model", refuse)
        again = compile_("again")
    assert [one.code for one in (without, first, again)] == [0, 0, 0], again.err
    assert contents("first") == contents("without")
    assert contents("again") == contents("without")
    assert again.out == first.out.replace("first", "again")
    assert again.err.replace("again", "first") == first.err
    report = json.loads(Path("again/report.json").read_text())
    assert report["command"][-1] == "again"
    assert "instructions" not in report["seconds"]
    with monkeypatch.context() as patch:
        patch.setattr(job, "compile_model", refuse)
        for other in (("--no-cache",), ("--bits", "8"), ("--samples", "9"), ("--explain",)):
            with pytest.raises(AssertionError, match="in the cache"):
                compile_("other", *other)


@pytest.mark.heavy
@pytest.mark.sample(0.5)
def test_another_placement_uses_the_same_cut(
    compile_: Compile, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert compile_("first").code == 0
    for placement in ("row-major", "serpentine"):
        assert compile_("without", "--baseline", placement, "--no-cache", "--force").code == 0
        with monkeypatch.context() as patch:
            patch.setattr(search._Search, "best", refuse)
            assert compile_("again", "--baseline", placement, "--force").code == 0
        assert contents("again") == contents("without")


@pytest.mark.heavy
def test_a_kept_result_that_misses_limits(
    compile_: Compile, monkeypatch: pytest.MonkeyPatch
) -> None:
    beyond = ("--min-signal", "200")
    assert compile_("kept", *beyond, "--keep-going").code == BEYOND_LIMITS
    refused = compile_("refused", *beyond, "--no-cache")
    monkeypatch.setattr(job, "compile_model", refuse)
    assert compile_("kept", *beyond, "--keep-going", "--force").code == BEYOND_LIMITS
    again = compile_("again", *beyond)
    assert (again.code, again.err.replace("again", "refused")) == (refused.code, refused.err)
    assert not Path("again").exists()


@pytest.mark.heavy
@pytest.mark.sample(0.5)
def test_results_of_a_limited_time_are_not_kept(
    compile_: Compile, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert compile_("out", "--time-limit", "1000").code == 0
    monkeypatch.setattr(job, "compile_model", refuse)
    with pytest.raises(AssertionError, match="in the cache"):
        compile_("out", "--time-limit", "1000", "--force")


@pytest.mark.heavy
def test_commands_of_cache_and_catalogue(compile_: Compile, run: Run) -> None:
    compile_("first")
    found = run("cache", "info", "--json").json()
    counts = {kind: one["results"] for kind, one in found["kinds"].items()}
    assert (counts["compiled"], counts["cuts"]) == (1, 1)
    assert counts.keys() <= {"compiled", "costs", "cuts", "ranges", "trials"}
    assert found["folder"] == str(Path("cache").resolve())
    assert 0 < found["bytes"] <= found["most_bytes"]
    assert "compiled" in run("cache").out
    assert run("cache", "clear").code == 0
    assert run("cache", "info", "--json").json()["kinds"] == {}
    compile_("second")
    runs = run("runs", "--network", "small*", "--kind", "compile", "--json").json()["runs"]
    assert [Path(one["folder"]).name for one in runs] == ["first", "second"]
    assert runs[0]["figures"]["cycles"] > 0
    Path("second").rename("moved")
    assert "(gone)" in run("runs", "--best", "cycles").out
    assert run("runs", "--network", "other", "--json").json()["runs"] == []
    assert "give one of cycles" in run("runs", "--best", "beauty").err
    page = run("report", "--runs", runs[0]["id"], "--json").json()["path"]
    assert Path(page) == Path("first/report.html").resolve()
    assert run("report", "first", "--runs", runs[0]["id"]).code == 2
    assert run("report").code == 2
    assert "no run has it" in run("report", "--runs", "xyz").err
