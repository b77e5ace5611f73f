"""`mapper simulate` and the Noxim table: flit-level simulation of a mapping's traffic."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from chipsim.chip.model import Chip
from chipsim.noc.deliver import deliver
from chipsim.noc.load import measure_load
from mapper.evaluation.offered_load import BUSY, Offered, offered_load
from mapper.results.mapping_file import load_mapping, save_mapping
from mapper.results.output import read_report
from mapper.scoring.measure import measure_network
from storage.store.network import NetworkFile
from tests.mapper.conftest import Run
from tests.mapper.helpers import random_network, write_network

# Kernels are tested with references; the code around them does not depend on the JIT.
pytestmark = [pytest.mark.jit, pytest.mark.usefixtures("light_placement")]

Fails = Callable[..., str]
CHIP = ("--chip", "4x3", "--neurons-per-core", "5")
SHORT = ("--cycles", "200")


@pytest.fixture
def out(folder: Path, run: Run) -> Path:
    """Output folder of a run, next to its network."""
    random_network(folder / "net.bin", 40, 200)
    assert run("run", "net.bin", *CHIP, "-o", "out", "-q").code == 0
    return folder / "out"


def load_of(out: Path, **options: Any) -> Offered:
    report = read_report(out)
    with NetworkFile(Path(report["network"]["path"])) as network:
        return offered_load(out, report, network, **options)


def cores_of(out: Path) -> np.ndarray[Any, Any]:
    return load_mapping(out / "mapping.npz", 40, Chip("c", 4, 3))


def edges_of(path: Path) -> list[tuple[int, int, int]]:
    with NetworkFile(path) as network:
        indptr, targets, weights = network.read_outgoing(0)
    source = np.repeat(np.arange(len(indptr) - 1), np.diff(indptr))
    return list(zip(source.tolist(), targets.tolist(), weights.tolist(), strict=True))


@pytest.mark.heavy
def test_the_result_is_printed_and_stored_in_the_report(out: Path, run: Run) -> None:
    before = json.loads((out / "report.json").read_text())
    found = run("simulate", out, *SHORT, "--json")
    assert found.code == 0
    printed = found.json()
    left = printed["flits_per_tick_own_core"]
    assert left > 0
    assert found.err.splitlines() == [
        f"note: {left:,.0f} flits per unit of time stay in their core: not simulated",
        "note: cycles are counted for the mesh alone; a time step of the chip takes at least these "
        "and the cycles of its cores",
        "note: traffic is used as packets per unit of time (synapse weights)",
    ]
    assert printed["model"]["left_out"].startswith("packets within a core")
    assert set(printed["model"]) == {"simulated", "sources", "left_out", "not_modelled"}
    report = json.loads((out / "report.json").read_text())
    assert report.pop("simulation") == printed
    assert report == before
    assert (printed["cycles"], printed["warmup"], printed["depth"]) == (200, 100, 4)
    assert set(printed["latency"]) == {"mean", "p50", "p99", "max", "expected"}
    assert printed["latency"]["expected"] == pytest.approx(printed["latency"]["mean"], rel=0.05)
    assert 1 < printed["latency"]["p50"] <= printed["latency"]["p99"] <= printed["latency"]["max"]
    assert (printed["undelivered"], printed["saturated"]) == (0, False)
    assert 0 < printed["offered"] < 1
    assert printed["busiest_expected"] == pytest.approx(BUSY)
    saturation = printed["saturation"]
    assert 1 < saturation["load_scale"] <= saturation["bound"] == pytest.approx(2)
    ticks = printed["tick_cycles"]
    assert saturation["tick_cycles"] == pytest.approx(ticks / saturation["load_scale"])
    for one, next_one in zip(printed["links"], printed["links"][1:], strict=False):
        assert one["flits_per_cycle"] >= next_one["flits_per_cycle"] > 0
    assert run("verify", out).code == 0
    tables = run("simulate", out, *SHORT, "--details")
    for text in ("99th percentile", "busiest links", "mesh cycles per unit of time, at least",
                 "left out: flits within a core"):  # fmt: skip
        assert text in tables.out
    again = json.loads((out / "report.json").read_text())["simulation"]
    assert again == printed, "the same seed must give the same result"
    other = run("simulate", out, *SHORT, "--seed", "1", "--json").json()
    assert other["latency"] != printed["latency"]


def test_the_page_is_rewritten(out: Path, run: Run) -> None:
    assert "The mesh, simulated" not in (out / "report.html").read_text()
    found = run("simulate", out, *SHORT, "--json").json()
    page = (out / "report.html").read_bytes()
    section = page.decode().partition("The mesh, simulated")[2]
    assert f'"{found["latency"]["p99"]}"' in section
    for said in ("Cores and packets within a core are not simulated", "Flits within a core"):
        assert said in section
    assert run("report", out).code == 0
    assert (out / "report.html").read_bytes() == page
    for name in ("report.html", "traffic.npz"):
        (out / name).unlink()
    assert "measuring traffic, once" in run("simulate", out, *SHORT).err
    assert (out / "report.html").read_bytes() == page


def test_flits_on_links_equal_the_link_loads_of_the_metrics(out: Path) -> None:
    """All spikes of a unit of time as packets: every count equals the metric."""
    offered = load_of(out, tick_cycles=1.0)
    demand = offered.demand
    with NetworkFile(Path("net.bin")) as network:
        traffic = measure_network(network, Chip("c", 4, 3), cores_of(out))
    weight = np.rint(demand.flows()).astype(int)
    source = np.repeat(np.repeat(np.arange(12), np.diff(demand.indptr)), weight)
    target = np.repeat(demand.choice, weight)
    created = np.random.default_rng(0).integers(0, 500, len(source))
    found = deliver(offered.mesh, created, source, target)
    assert found.delivered.min() > 0
    assert found.links.tolist() == traffic.unicast_links.tolist()
    assert len(source) == traffic.totals.cut == offered.rate
    assert offered.own == traffic.totals.weight - traffic.totals.cut
    links, _ = demand.expected(offered.mesh)
    np.testing.assert_allclose(links, traffic.unicast_links, atol=1e-9)


@pytest.mark.sample(3)
@pytest.mark.parametrize("rates", [False, True])
@pytest.mark.parametrize("undirected", [False, True])
def test_packets_per_core_fan_out_there(
    rates: bool, undirected: bool, folder: Path, run: Run
) -> None:
    from storage.store.writer import NetworkWriter

    rng = np.random.default_rng(3)
    source, target = rng.integers(0, 40, (2, 150))
    rate = rng.integers(0, 9, 40)
    with NetworkWriter(folder / "net.bin", 40, undirected=undirected, block_size=16) as writer:
        writer.add(source, target, rng.integers(1, 6, 150))
        if rates:
            writer.set_attribute("rate", rate)
        writer.finish()
    assert run("run", "net.bin", *CHIP, "-o", "out", "-q").code == 0
    offered = load_of(folder / "out", tick_cycles=2.0, packets="core", threads=2)
    core = cores_of(folder / "out")
    reached: dict[tuple[int, int], int] = {}
    with NetworkFile(folder / "net.bin") as network:
        for index in range(network.block_count):
            first = network.block_bounds(index)[0]
            indptr, targets, weights = network.read_outgoing(index)
            for i in range(len(indptr) - 1):
                mine = slice(indptr[i], indptr[i + 1])
                spikes = rate[first + i] if rates else max(weights[mine], default=0)
                for other in {int(core[t]) for t in targets[mine]} - {int(core[first + i])}:
                    pair = int(core[first + i]), other
                    reached[pair] = reached.get(pair, 0) + int(spikes)
    demand = offered.demand
    owner = np.repeat(np.arange(12), np.diff(demand.indptr)).tolist()
    found = dict(zip(zip(owner, demand.choice.tolist(), strict=True), demand.flows(), strict=True))
    assert found == pytest.approx({k: v / 2 for k, v in reached.items() if v})
    traffic = json.loads((folder / "out/report.json").read_text())["metrics"]["multicast"]
    assert offered.rate == traffic["connectivity"]


@pytest.mark.heavy
def test_units_and_scales(out: Path, run: Run) -> None:
    ticks = run("simulate", out, *SHORT, "--no-saturation", "--json").json()["tick_cycles"]
    options = ("--tick-cycles", str(ticks * 2), "--no-saturation", "--json")
    half = run("simulate", out, *SHORT, *options).json()
    assert half["busiest_expected"] == pytest.approx(BUSY / 2)
    assert half["saturation"] is None
    full = run("simulate", out, *SHORT, *options, "--load-scale", "2").json()
    assert full["busiest_expected"] == pytest.approx(BUSY)
    assert full["tick_cycles"] == pytest.approx(ticks)
    other = run("simulate", out, *SHORT, "--packets", "core", "--depth", "2", "--json").json()
    assert (other["packets_per"], other["depth"]) == ("core", 2)
    assert other["tick_cycles"] != ticks


@pytest.mark.heavy
@pytest.mark.sample(1)
@pytest.mark.parametrize("delivery", ["synapse", "core", "tree"])
def test_the_default_packets_follow_the_chip(delivery: str, folder: Path, run: Run) -> None:
    write_network(folder / "net.bin", [(0, 1), (0, 2), (1, 3), (0, 3)], 4, [1, 1, 1, 1])
    Path("chip.toml").write_text(f'width = 2\nheight = 1\nneurons = 2\ndelivery = "{delivery}"\n')
    assert run("run", "net.bin", "--chip", "chip.toml", "-o", "out", "-q").code == 0
    save_mapping(folder / "out/mapping.npz", np.array([0, 0, 1, 1], np.int32), Chip("c", 2, 1))
    found = run("simulate", "out", *SHORT, "--json")
    told = found.json()
    assert told["packets_per"] == ("synapse" if delivery == "synapse" else "core")
    assert told["flits_per_tick"] == (3 if delivery == "synapse" else 2)
    assert ("trees are simulated as" in found.err) == (delivery == "tree")
    assert (
        run("simulate", "out", *SHORT, "--packets", "synapse", "--json").json()["flits_per_tick"]
        == 3
    )
    assert run("export", "out", "a.noxim", "--tick-cycles", "10").code == 0
    pir = float(Path("a.noxim").read_text().split()[-1])
    assert pir == pytest.approx(told["flits_per_tick"] / 10)


def test_a_load_above_saturation_is_noted(folder: Path, run: Run) -> None:
    """Four cores in a row whose spikes all go to the last: its port accepts one flit per cycle."""
    edges = [(0, 3), (1, 3), (2, 3)]
    write_network(folder / "net.bin", edges, 4, [8, 8, 8])
    chip = ("--chip", "4x1", "--neurons-per-core", "1")
    assert run("run", "net.bin", *chip, "-o", "out", "-q").code == 0
    save_mapping(folder / "out/mapping.npz", np.arange(4, dtype=np.int32), Chip("c", 4, 1))
    found = run("simulate", "out", "--cycles", "400", "--tick-cycles", "10")
    assert found.code == 0
    assert "above saturation" in found.err
    assert "packets had not arrived" not in found.err
    report = json.loads((folder / "out/report.json").read_text())["simulation"]
    assert report["saturated"]
    # Core 2 gets every other slot of the link, cores 0 and 1 share the rest: their 480 packets of
    # the first 600 cycles need four cycles each while the load continues.
    assert report["drained"] == pytest.approx(4 * 480 - 600, rel=0.15)
    assert report["busiest_expected"] == pytest.approx(2.4)
    assert report["delivered"] * 4 == pytest.approx(1.0, rel=0.02)
    assert report["saturation"]["load_scale"] == pytest.approx(10 / 24, rel=0.1)
    assert report["links"][0] == {
        "core": 2, "x": 2, "y": 0, "direction": "east",
        "flits_per_cycle": pytest.approx(1.0, rel=0.02), "expected": pytest.approx(2.4),
    }  # fmt: skip


@pytest.mark.heavy
def test_no_traffic_and_a_single_core(folder: Path, run: Run) -> None:
    write_network(folder / "quiet.bin", [], 5)
    assert run("run", "quiet.bin", "--chip", "2x2", "-o", "quiet", "-q").code == 0
    write_network(folder / "net.bin", [(0, 1), (1, 2)], 3)
    assert run("run", "net.bin", "--chip", "1x1", "-o", "one", "-q").code == 0
    left = "note: 2 flits per unit of time stay in their core: not simulated\n"
    for name, said in (("quiet", ""), ("one", left)):
        found = run("simulate", name, *SHORT, "--json")
        assert (found.code, found.err) == (0, said)
        result = found.json()
        assert (result["packets"], result["offered"], result["delivered"]) == (0, 0, 0)
        assert set(result["latency"].values()) == {None}
        assert (result["tick_cycles"], result["links"]) == (None, [])
        assert result["saturation"]["load_scale"] is None
        assert run("simulate", name, *SHORT, "--tick-cycles", "5").code == 0
    assert run("export", "one", "one.noxim", "--json").json()["pairs"] == 0


def test_neurons_that_were_split(folder: Path, run: Run) -> None:
    edges = [(s, 0) for s in range(1, 30)]
    write_network(folder / "net.bin", edges, 30, [3] * 29)
    options = ("--chip", "4x4", "--neurons-per-core", "6", "--synapses-per-core", "8")
    assert run("run", "net.bin", *options, "--split-neurons", "-o", "out", "-q").code == 0
    report = read_report(folder / "out")
    offered = load_of(folder / "out", tick_cycles=1.0)
    assert report["split"]["helpers"] > 0
    assert offered.rate == report["metrics"]["cut_weight"]


@pytest.mark.heavy
def test_bad_input(out: Path, run: Run, fails: Fails) -> None:
    heavy = fails("simulate", out, "--tick-cycles", "1")
    assert "at load scale 1 core " in heavy
    assert "flits per cycle, the limit is 1; give --load-scale " in heavy
    words = heavy.split()
    scale = words[words.index("--load-scale") + 1]
    assert run("simulate", out, *SHORT, "--tick-cycles", "1", "--load-scale", scale).code == 0
    ticks = words[words.index("--tick-cycles") + 1]
    assert run("simulate", out, *SHORT, "--tick-cycles", ticks).code == 0
    assert "give --load-scale" in fails("export", out, "a.noxim", "--load-scale", "1000")
    assert "has no report.json" in fails("simulate", "..")
    save_mapping(out / "mapping.npz", cores_of(out), Chip("c", 6, 2))
    assert "made for a 6x2 chip, not for 4x3" in fails("simulate", out)
    random_network(Path("other.bin"), 41, 100)
    save_mapping(out / "mapping.npz", cores_of_any(out, 40), Chip("c", 4, 3))
    assert "maps 40 neurons, the network has 41" in fails("simulate", out, "--network", "other.bin")
    Path("net.bin").unlink()
    assert "net.bin" in fails("simulate", out)


def cores_of_any(out: Path, neurons: int) -> np.ndarray[Any, Any]:
    with np.load(out / "mapping.npz") as file:
        found = file["core"]
    assert found.shape == (neurons,)
    return found


@pytest.mark.parametrize("option", ["--load-scale", "--tick-cycles"])
@pytest.mark.parametrize("value", ["0", "-1", "nan", "inf", "much"])
def test_bad_factors(option: str, value: str, run: Run) -> None:
    found = run("simulate", "out", f"{option}={value}")
    assert found.code == 2
    assert f"{value!r} is not a number above 0" in found.err


def test_a_failure_leaves_the_report_unchanged(
    out: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = (out / "report.json").read_bytes()

    def full(self: object, data: bytes) -> None:
        from storage.errors import WriteError

        raise WriteError("report.json: cannot write: disk full")

    monkeypatch.setattr("storage.files.PartialFile.write", full)
    found = run("simulate", out, *SHORT)
    assert (found.code, found.err.count("\n")) == (1, 1)
    assert (out / "report.json").read_bytes() == before
    kept = ["mapping.npz", "report.html", "report.json", "run.log", "traffic.npz"]
    assert sorted(path.name for path in out.iterdir()) == kept


def test_noxim(out: Path, run: Run) -> None:
    result = run("export", out, "mapping.noxim", "--tick-cycles", "1000", "--json").json()
    lines = Path("mapping.noxim").read_text().splitlines()
    notes = [line for line in lines if line.startswith("%")]
    assert any("4x3 nodes, id = y * 4 + x" in line for line in notes)
    assert any("1000 cycles per unit of time" in line for line in notes)
    core = cores_of(out)
    expected: dict[tuple[int, int], float] = {}
    for s, t, w in edges_of(Path("net.bin")):
        if core[s] != core[t]:
            pair = int(core[s]), int(core[t])
            expected[pair] = expected.get(pair, 0.0) + w / 1000
    rows = [line.split(" ") for line in lines if not line.startswith("%")]
    assert {(int(s), int(t)): float(p) for s, t, p in rows} == pytest.approx(expected)
    assert result == {
        "path": "mapping.noxim", "pairs": len(rows), "tick_cycles": 1000,
        "bytes": Path("mapping.noxim").stat().st_size,
    }  # fmt: skip
    double = ("--tick-cycles", "1000", "--load-scale", "2")
    assert run("export", out, "two.txt", "--format", "noxim", *double).code == 0
    lines = Path("two.txt").read_text().splitlines()
    first = next(line for line in lines if not line.startswith("%"))
    assert float(first.split()[2]) == pytest.approx(2 * float(rows[0][2]))


def test_invalid_noxim_exports(out: Path, fails: Fails) -> None:
    assert "is not the output folder of a run" in fails("export", "net.bin", "a.noxim", code=2)
    assert "noxim" in fails("export", "out", "a.bin", code=2)
    for option in ("--tick-cycles", "--load-scale", "--network"):
        told = fails("export", "net.bin", "a.csv", option, "3", code=2)
        assert f"{option} is for output folders of a run" in told
    told = fails("export", "net.bin", "a.csv", "--packets", "core", code=2)
    assert "--packets is for" in told


def test_the_load_matches_the_table(out: Path) -> None:
    """Long runs send the requested rate for each pair."""
    offered = load_of(out)
    found = measure_load(offered.mesh, offered.demand, cycles=3000, seed=2)
    rate = offered.demand.rate
    assert (abs(found.sent - 3000 * rate) <= 5 * np.sqrt(3000 * rate) + 1e-9).all()
