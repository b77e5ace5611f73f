"""Inputs of calibration and verification: samples, separate samples, ranges of an earlier run."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from tests.compiler.bad_input.good import good
from tests.mapper.conftest import Run

pytestmark = pytest.mark.jit
EASY = ("--chip", "2x2", "--min-signal", "-100", "--max-loss", "100")


@pytest.fixture
def model(folder: Path) -> Path:
    """A small model, 40 samples without labels, and 12 separate samples with labels."""
    made = good()
    made.save(folder)
    shape = made.samples["x"].shape[1:]
    random = np.random.default_rng(2)
    np.savez("samples.npz", x=random.normal(0, 1, (40, *shape)).astype(np.float32))
    labels = random.integers(0, 3, 12)
    np.savez("test.npz", x=random.normal(0, 1, (12, *shape)).astype(np.float32), y=labels)
    return folder / "good.onnx"


def report_of(run: Run, *words: str) -> dict[str, object]:
    found: dict[str, object] = run("compile", "good.onnx", *EASY, *words, "--json").json()
    return found


@pytest.mark.heavy
@pytest.mark.sample(0.25)
def test_c01_samples_to_verify_with(model: Path, run: Run) -> None:
    """C01, R5.4: --verify with its labels; otherwise every fourth sample, at least 16."""
    plain = report_of(run, "--calibrate", "samples.npz")
    assert any("verified with 20 samples of those that" in line for line in plain["log"])  # type: ignore[attr-defined]
    other = report_of(run, "--calibrate", "samples.npz", "--verify", "test.npz", "-o", "other")
    assert "verified with 12 samples of --verify" in other["log"]  # type: ignore[operator]
    (ours,), (others,) = plain["attempts"], other["attempts"]  # type: ignore[misc]
    assert ours["accuracy_float"] is None
    assert others["accuracy_float"] is not None
    assert ours["signal_db"] != others["signal_db"]
    assert Path("out/core_0_0.npc").read_bytes() == Path("other/core_0_0.npc").read_bytes()


@pytest.mark.heavy
@pytest.mark.sample(0.25)
@pytest.mark.parametrize("method", ["minmax", "percentile", "mse", "entropy"])
def test_a20_ranges_in_place_of_samples(model: Path, run: Run, method: str) -> None:
    """A20, R5.1: the same programs as with samples, without bias correction."""
    words = ("--method", method, "--disable", "bias-correction")
    report_of(run, "--calibrate", "samples.npz", *words)
    again = report_of(run, "--calibrate", "out/ranges.json", *words, "-o", "again")
    assert again["attempts"] == []
    assert again["signal_db"] is None
    for name in ("core_0_0.npc", "graph.npz", "ranges.json"):
        assert Path("out", name).read_bytes() == Path("again", name).read_bytes(), name
    assert run("simulate", "again", "--input", "test.npz", "--check", "-q").code == 0
    assert run("report", "again").code == 0


@pytest.mark.heavy
@pytest.mark.sample(0.25)
def test_steps_without_samples_give_one_note(model: Path, run: Run) -> None:
    """R5.1: steps that need samples are skipped, with one note."""
    report_of(run, "--calibrate", "samples.npz")

    def notes(*words: str) -> list[str]:
        said = run("compile", "good.onnx", *EASY, "--calibrate", "out/ranges.json", *words,
                   "-o", "again", "--force")  # fmt: skip
        assert said.code == 0
        return [line for line in said.err.splitlines() if "note: out/ranges.json" in line]

    (one,) = notes()
    for what in ("biases are not corrected", "accuracy is not verified", "minmax only"):
        assert what in one
    (one,) = notes("--verify", "test.npz")
    assert "biases are not corrected" in one
    assert "verified" not in one
    assert notes("--verify", "test.npz", "--disable", "bias-correction") == []
    found = report_of(run, "--calibrate", "out/ranges.json", "--verify", "test.npz", "-o", "last")
    (attempt,) = found["attempts"]  # type: ignore[misc]
    assert attempt["accuracy_float"] is not None
    assert len(found["losses"]) > 0  # type: ignore[arg-type]


@pytest.mark.heavy
@pytest.mark.sample(0.25)
def test_tables_without_calibration_samples(
    model: Path, run: Run, fails: Callable[..., str]
) -> None:
    report_of(run, "--calibrate", "samples.npz")
    words = ("compile", "good.onnx", *EASY, "--calibrate", "out/ranges.json")
    assert "contains ranges but no samples to compare with" in fails(*words, "--compare")
    table = run(*words, "--compare", "--verify", "test.npz", "--json").json()["compared"]
    assert len(table) == 14
    rows = run(*words, "--ablate", "--json").json()["ablation"]
    assert rows[0]["signal"] is None


@pytest.mark.heavy
@pytest.mark.sample(0.25)
def test_bad_ranges_and_samples(model: Path, run: Run, fails: Callable[..., str]) -> None:
    """R13.1: one line, with file and field, and no leftover files."""
    report_of(run, "--calibrate", "samples.npz")
    text = Path("out/ranges.json").read_text()
    words = ("compile", "good.onnx", *EASY, "-o", "bad", "--calibrate")
    Path("cut.json").write_text(text[:500])
    assert "cut.json: not a file of ranges" in fails(*words, "cut.json")
    found = json.loads(text)
    name, one = next(iter(found["tensors"].items()))
    found["tensors"][name] = one | {"high": -1}
    Path("wrong.json").write_text(json.dumps(found))
    assert f"wrong.json: tensors: {name!r}: high is -1; give" in fails(*words, "wrong.json")
    made = good()
    made.constants["w"] *= 2
    made.save(Path.cwd())
    np.savez("samples.npz", x=np.load("test.npz")["x"])
    assert "out/ranges.json: model: these are ranges of another model" in fails(
        *words, "out/ranges.json"
    )
    assert "--samples: needs calibration samples" in fails(
        *words, "out/ranges.json", "--samples", "3", code=2
    )
    np.savez("wide.npz", x=np.zeros((3, 1, 2, 2), np.float32))
    assert "wide.npz" in fails(*words, "samples.npz", "--verify", "wide.npz")
    assert "cannot read" in fails(*words, "samples.npz", "--verify", "none.npz")
    assert not Path("bad").exists()
