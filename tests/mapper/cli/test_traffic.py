"""The source of traffic in the output of commands, and which numbers share a table."""

from __future__ import annotations

import html
import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console

import mapper
from mapper.errors import MapperError, UsageError
from mapper.reporting.page import render
from mapper.results.tables import quality
from tests.mapper.conftest import Run
from tests.mapper.reporting.made import random_folder, view_of

WEIGHTS = {"source": "weights", "multicast": "largest weight"}
RATES = {"source": "rates", "file": "r.csv", "multicast": "rates"}
NOTE = "note: no firing rates: every neuron fires at rate 1, and weights are stored separately; "
LOADS = {"link_load_max": 3, "link_load_mean": 1.5, "link_load_p99": 2.5}
METRICS: dict[str, Any] = {
    "cut_weight": 8, "cut_fraction": 0.5, "hops_total": 24, "hops_mean": 3.0, "hops_max": 3,
    "energy": 9.5, "latency_mean": 5.5, "latency_max": 6.5, "congestion_mean": 1.0,
    "congestion_max": 2.0, "cores_used": 2, "core_fill_mean": 0.5, "core_fill_max": 0.75, **LOADS,
    "multicast": {"connectivity": 7, "hops_total": 31, "unicast_hops_total": 40, **LOADS},
}  # fmt: skip


def shown(metrics: dict[str, Any], traffic: dict[str, str] | None) -> list[str]:
    """Return every table as text."""
    found = []
    for table in quality(metrics, traffic):
        text = io.StringIO()
        Console(width=80, file=text).print(table)
        found.append(text.getvalue())
    return found


def test_weights_and_rates_have_separate_tables() -> None:
    unicast, multicast, cores = shown(METRICS, WEIGHTS)
    for words, text in (
        ("one packet per synapse", unicast), ("traffic: synapse weights", unicast),
        ("hops x weight", unicast), ("24", unicast),
        ("one packet per neuron, which branches", multicast),
        ("rate: largest weight of the neuron", multicast), ("31", multicast), ("40", multicast),
        ("cores used", cores),
    ):  # fmt: skip
        assert words in text
    assert "spike" not in unicast + multicast + cores
    assert "31" not in unicast


def test_the_same_activity_is_one_table() -> None:
    (text,) = shown(METRICS, RATES)
    for words in ("traffic: firing rates from r.csv", "spike-hops", "unicast   multicast"):
        assert words in text
    equal = json.loads(json.dumps(METRICS))
    equal["multicast"]["unicast_hops_total"] = equal["hops_total"]
    (text,) = shown(equal, WEIGHTS)  # weights that are equal per neuron
    assert "traffic: synapse weights" in text
    assert "spike" not in text


def test_reports_of_older_versions_lack_the_source() -> None:
    old = json.loads(json.dumps(METRICS))
    del old["multicast"]["unicast_hops_total"]
    unicast, multicast, _ = shown(old, None)
    assert "traffic: not recorded" in unicast
    assert "rate: not recorded" in multicast


@pytest.mark.parametrize(
    ("traffic", "word"),
    [(WEIGHTS, "synapse weights"), (RATES, "firing rates from r.csv"), (None, "not recorded")],
)
def test_pages_name_the_traffic(folder: Path, traffic: dict[str, str] | None, word: str) -> None:
    from chipsim.chip.model import Chip

    out = random_folder(folder / "out", Chip("c", 4, 3, neurons=64))
    report = json.loads((out / "report.json").read_text())
    if traffic is not None:
        report["network"]["traffic"] = traffic
    else:
        report["network"].pop("traffic", None)
    (out / "report.json").write_text(json.dumps(report))
    page = render([view_of(out)]).decode()
    assert f"traffic: {word}" in page
    told = page.partition("<script type=")[0].lower()
    if traffic is RATES:
        assert "unit of the chip's constants, pj or relative" in html.unescape(told)
    else:
        assert "spikes" not in told.replace("not numbers of spikes", "")
        assert "pj" not in told.split()


@pytest.fixture
def model(folder: Path) -> Path:
    """A NIR graph of two inputs and three neurons, with one weight of zero."""
    from tests.storage.formats.nir_graphs import chain, given, lif, linear, nir_bytes, node

    root = chain(given(2), linear([[0.5, -2], [0, 4], [1, 3]]), lif((3,)), node("Output"))
    path = folder / "a.nir"
    path.write_bytes(nir_bytes(root))
    return path


def test_import_of_synaptic_weights(model: Path, run: Run) -> None:
    found = run("import", model, "a.bin")
    assert (found.code, "traffic" in found.out) == (0, True)
    assert "every neuron at rate 1" in found.out
    assert NOTE in found.err
    assert "negative" not in found.err
    info = run("info", "a.bin", "--json").json()
    assert info["traffic"] == {"source": "uniform", "multicast": "rates"}
    assert info["total_weight"] * info["weight_unit"] == 5
    assert run("verify", "a.bin").code == 0
    found = run("import", model, "w.bin", "--rates", "weights")
    assert "1 negative weights: absolute value used" in found.err
    assert NOTE not in found.err
    info = run("info", "w.bin", "--json").json()
    assert info["traffic"] == WEIGHTS
    assert info["total_weight"] * info["weight_unit"] == 10.5
    assert "synapse weights" in run("info", "w.bin").out


def test_missing_weights_are_not_invented(model: Path, run: Run) -> None:
    run("import", model, "a.bin")
    chip = ("--chip", "2x2", "--neurons-per-core", "2")
    found = run("check", "a.bin", *chip, "--rates", "weights")
    assert found.code == 1
    assert "a.bin: its traffic is every neuron at rate 1, without traffic by weights" in found.err
    assert run("check", model, *chip, "--rates", "weights").code == 0
    run("import", model, "w.bin", "--rates", "weights")
    assert run("check", "w.bin", *chip, "--rates", "weights").code == 0
    with pytest.raises(MapperError, match="without traffic by weights"):
        mapper.map_network("a.bin", "2x2", rates="weights")
    with pytest.raises(
        UsageError, match='give an array of rates, the path of a file, "uniform" or "weights"'
    ):
        mapper.map_network("w.bin", "2x2", rates="heavy")


def test_a_file_named_like_a_traffic_source(folder: Path, run: Run) -> None:
    Path("a.txt").write_text("0 1 5\n1 0 7\n")
    Path("weights").write_text("0,2\n1,3\n")
    found = run("import", "a.txt", "a.bin", "--rates", "./weights", "--json").json()
    assert found["total_weight"] == 5
    found = run("import", "a.txt", "b.bin", "--rates", "weights", "--json").json()
    assert found["total_weight"] == 12
    found = run("import", "a.txt", "c.bin", "--rates", "uniform", "--json").json()
    assert found["total_weight"] == 2
    assert found["provenance"]["traffic"] == {"source": "uniform"}


@pytest.mark.jit
@pytest.mark.usefixtures("light_placement")
def test_score_and_run_accept_the_same_word(model: Path, run: Run) -> None:
    np.savez("m.npz", core=np.arange(5, dtype=np.int32), width=5, height=1)
    found = {
        word: run("score", model, "m.npz", "--chip", "5x1", "--rates", word, "--json").json()
        for word in ("uniform", "weights")
    }
    assert found["uniform"]["network"]["traffic"]["source"] == "uniform"
    assert found["weights"]["network"]["traffic"] == WEIGHTS
    assert found["uniform"]["metrics"]["cut_weight"] == 5
    assert found["weights"]["metrics"]["cut_weight"] == 10.5
    uniform = found["uniform"]["metrics"]
    assert uniform["multicast"]["unicast_hops_total"] == uniform["hops_total"]
    assert uniform["multicast"]["hops_total"] <= uniform["hops_total"]
    plain = run("score", model, "m.npz", "--chip", "5x1", "--json").json()
    assert plain["metrics"] == uniform
    report = run("run", model, "--chip", "5x1", "--neurons-per-core", "1", "-o", "out", "--json")
    assert report.json()["network"]["traffic"]["source"] == "uniform"
    assert run("verify", "out").code == 0


def test_two_mappings_must_be_of_the_same_network(folder: Path, run: Run) -> None:
    from chipsim.chip.model import Chip

    chip = Chip("c", 4, 3, neurons=64)
    one, same, other = (
        random_folder(folder / name, chip, seed) for name, seed in (("a", 1), ("b", 1), ("c", 2))
    )
    found = run("report", one, same, "-o", "page.html")
    assert (found.code, Path("page.html").exists()) == (0, True)
    Path("page.html").unlink()
    found = run("report", one, other, "-o", "page.html")
    assert (found.code, Path("page.html").exists()) == (1, False)
    assert "a and c: not mappings of the same network and traffic (" in found.err
    reports = [json.loads((out / "report.json").read_text()) for out in (one, same)]
    for out, report, traffic in zip((one, same), reports, (WEIGHTS, RATES), strict=True):
        report["network"]["traffic"] = traffic
        (out / "report.json").write_text(json.dumps(report))
    found = run("report", one, same, "-o", "page.html")
    assert found.code == 1
    assert "(traffic synapse weights and firing rates from r.csv)" in found.err
