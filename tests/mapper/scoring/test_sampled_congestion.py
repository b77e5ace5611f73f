"""Sampled congestion in score, page and verify."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from chipsim.traffic import congestion_sample
from mapper.evaluation import verify_traffic
from tests.mapper.conftest import Run

# Kernels are tested with references.
pytestmark = [pytest.mark.jit, pytest.mark.usefixtures("light_placement")]

CHIP = ("--chip", "24x24", "--neurons-per-core", "4")
LARGE = ("--chip", "96x96", "--neurons-per-core", "4")
NETWORKS = {
    "cortex": ("--side", "192", "--fanout", "24", "--sigma", "2", "--long-range", "0.2"),
    "layered": ("--layers", "96x96x2,64x96x2,48x64x2", "--kernel", "9"),
}


class Scored(NamedTuple):
    network: str
    words: tuple[str, ...]


@pytest.fixture
def small_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(congestion_sample, "NEARBY_STEPS", 4)
    monkeypatch.setattr(congestion_sample, "ROUTERS_PER_CORE", 80)


@pytest.fixture(params=sorted(NETWORKS))
def scored(request: pytest.FixtureRequest, folder: Path, run: Run) -> Scored:
    """Score a network mapped in order of its neurons."""
    found = run(
        "generate",
        request.param,
        "net.bin",
        *NETWORKS[request.param],
        "--seed",
        "1",
        "-q",
        "--json",
    )
    neurons = found.json()["neurons"]
    core = np.arange(neurons)
    if request.param == "cortex":
        y, x = np.divmod(core, 192)
        core = y // 2 * 96 + x // 2
    else:
        core = core * 9216 // neurons
    np.savetxt("cores.csv", core, fmt="%d")
    return Scored(request.param, ("score", "net.bin", "cores.csv", *LARGE))


@pytest.mark.heavy
@pytest.mark.sample(0.5)
def test_scores_are_near(
    scored: Scored, run: Run, small_limits: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as whole:
        whole.setattr(congestion_sample, "ROUTERS_PER_CORE", 1 << 16)
        exact = run(*scored.words, "--json").json()["metrics"]
    assert not {"congestion", "congestion_pairs", "congestion_share"} & set(exact)
    # boxes of layers are narrow
    limit = 2000 if scored.network == "cortex" else 300
    monkeypatch.setattr(congestion_sample, "ROUTERS_PER_CORE", limit)
    found = run(*scored.words, "--json").json()["metrics"]
    assert found.pop("congestion") == "sampled"
    pairs, share = found.pop("congestion_pairs"), found.pop("congestion_share")
    assert pairs > 0 and 0.1 < share < 0.99
    assert found.pop("congestion_max") == pytest.approx(exact.pop("congestion_max"), rel=0.05)
    assert found.pop("congestion_mean") == pytest.approx(exact.pop("congestion_mean"), rel=1e-12)
    assert found == exact
    text = run(*scored.words, "--details").out
    assert "core pairs sampled" in text
    assert f"{share:.1%}" in text
    once = run(*scored.words, "--json").json()["metrics"]
    for words in (("--threads", "1"), ("--threads", "3"), ("--memory", "512MiB")):
        assert run(*scored.words, "--json", *words).json()["metrics"] == once


@pytest.mark.heavy
@pytest.mark.sample(0.25)
@pytest.mark.usefixtures("small_limits")
def test_workers_score_the_same(scored: Scored, run: Run) -> None:
    pytest.importorskip("distributed")
    alone, worked = run(*scored.words, "--json"), run(*scored.words, "--json", "--workers", "2")
    assert worked.code == 0, worked.err
    assert worked.json()["metrics"] == alone.json()["metrics"]
    assert worked.json()["metrics"]["congestion"] == "sampled"


@pytest.fixture
def result(folder: Path, run: Run, small_limits: None) -> Path:
    options = ("--side", "48", "--fanout", "24", "--long-range", "0.3", "--seed", "1")
    assert run("generate", "cortex", "net.bin", *options, "-q").code == 0
    found = run("run", "net.bin", *CHIP, "--preset", "fast", "-o", "out", "-q")
    assert found.code == 0, found.err
    return folder / "out"


@pytest.mark.heavy
@pytest.mark.sample(0.25)
def test_the_report_and_the_page_mark_samples(result: Path, run: Run) -> None:
    metrics = json.loads((result / "report.json").read_text())["metrics"]
    assert metrics["congestion"] == "sampled"
    page = (result / "report.html").read_text()
    assert "Router congestion, sample" in page
    assert run("report", result, "-q").code == 0
    (result / "traffic.npz").unlink()  # it is measured again
    assert run("report", result, "-q").code == 0
    assert "Router congestion, sample" in (result / "report.html").read_text()
    assert "core pairs sampled" in run("info", result).out


@pytest.mark.heavy
@pytest.mark.sample(0.5)
def test_verify_uses_a_sample(result: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verify_traffic, "MOST_WORK", -1)  # disables the check of all traffic
    found = run("verify", result, "--json").json()
    metrics = json.loads((result / "report.json").read_text())["metrics"]
    assert found["not_recomputed"] == ["congestion_max", "congestion_pairs"]
    assert found["congestion"] == "sampled"
    assert found["congestion_share"] == pytest.approx(metrics["congestion_share"])
    assert found["congestion_mean"] == pytest.approx(metrics["congestion_mean"])


@pytest.mark.heavy
@pytest.mark.sample(1)
@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda m: m.update(congestion_mean=m["congestion_mean"] * 1.001), "congestion_mean is"),
        (lambda m: m.update(congestion_share=m["congestion_share"] * 0.9), "congestion_share is"),
        (lambda m: m.update(congestion_pairs=m["congestion_pairs"] + 1), "congestion_share is"),
        (lambda m: m.update(congestion_share=1.5), "has no valid sample of core pairs"),
        (lambda m: m.update(congestion_pairs=0), "has no valid sample of core pairs"),
        (lambda m: m.pop("congestion"), "has no valid sample of core pairs"),
        (lambda m: m.pop("congestion_share"), "has no valid sample of core pairs"),
    ],
)
def test_verify_finds_wrong_samples(
    result: Path, run: Run, change: Callable[[dict[str, Any]], None], reason: str
) -> None:
    report = json.loads((result / "report.json").read_text())
    change(report["metrics"])
    (result / "report.json").write_text(json.dumps(report))
    found = run("verify", result)
    assert found.code == 1
    assert reason in found.err
