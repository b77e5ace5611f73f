"""`mapper verify` accepts unchanged results of runs, and finds later changes."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chipsim.chip.energy import ChipEnergy
from chipsim.chip.machine import Block, Machine
from chipsim.chip.model import Chip
from mapper.evaluation.verify_traffic import Flows, LinkLoads
from mapper.results.mapping_file import save_mapping
from tests.mapper.conftest import Run
from tests.mapper.helpers import members_of, random_network, write_network
from tests.mapper.reporting.made import random_folder

# Kernels are tested with references; the code around them does not depend on the JIT.
pytestmark = [pytest.mark.jit, pytest.mark.usefixtures("light_placement")]

Fails = Callable[..., str]


@pytest.fixture
def out(folder: Path, run: Run) -> Path:
    """Output folder of a run next to its network, on a chip with every kind of limit."""
    random_network(folder / "net.bin", 40, 160, sizes=[1, 2] * 20)
    Path("chip.toml").write_text(
        "width = 5\nheight = 4\nneurons = 5\nsynapses = 60\naxons_in = 50\naxons_out = 80\n"
        "memory_bits = 910\nweight_bits = 6\nindex_bits = 4\naxon_bits = 4\nneuron_bits = 2\n"
        'unavailable = [7]\nenergy_unit = "pJ"\n[time]\nhop = 2\n'
        "[energy]\nevent = 2.5\nneuron = 3\npacket_out = 0.5\npacket_in = 0.25\n"
    )
    assert run("run", "net.bin", "--chip", "chip.toml", "-o", "out", "-q").code == 0
    return folder / "out"


def edit(path: Path, change: Callable[[Any], None]) -> None:
    found = json.loads(path.read_text())
    change(found)
    path.write_text(json.dumps(found))


def remap(out: Path, change: Callable[[Any], None], width: int = 5, height: int = 4) -> None:
    with np.load(out / "mapping.npz") as file:
        core = file["core"].copy()
    change(core)
    save_mapping(out / "mapping.npz", core, Chip("c", width, height))


def put(key: Any, value: Any) -> Callable[[Any], None]:
    def change(target: Any) -> None:
        target[key] = value

    return change


def test_a_valid_run(out: Path, run: Run) -> None:
    found = run("verify", out, "--json")
    assert (found.code, found.err) == (0, "")
    result = found.json()
    assert result["valid"]
    metrics = json.loads((out / "report.json").read_text())["metrics"]
    for name in ("cut_weight", "hops_total", "hops_max", "energy", "cores_used"):
        assert result[name] == pytest.approx(metrics[name])
    assert "valid mapping" in run("verify", "out").out  # a short path: long titles are wrapped
    assert "valid network" in run("verify", "net.bin").out


def test_a_moved_network(out: Path, run: Run, fails: Fails) -> None:
    Path("net.bin").rename("elsewhere.bin")
    assert "net.bin" in fails("verify", out)
    assert run("verify", out, "--network", "elsewhere.bin").code == 0


@pytest.mark.heavy
@pytest.mark.sample(0.25)
def test_a_changed_mapping(out: Path, fails: Fails) -> None:
    def swap(core: Any) -> None:
        a, b = 0, int(np.flatnonzero(core != core[0])[3])
        core[[a, b]] = core[[b, a]]

    remap(out, swap)
    fails("verify", out)


@pytest.mark.sample(2)
@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (put(slice(None), 0), "core 0 uses 60 neurons of 5"),
        (put(0, 7), "core 7 is unavailable"),
        (put(0, 20), "outside 0..19"),
        (put(0, -1), "outside 0..19"),
    ],
)
def test_an_impossible_mapping(
    out: Path, fails: Fails, change: Callable[[Any], None], reason: str
) -> None:
    remap(out, change)
    assert reason in fails("verify", out)


def test_mappings_of_other_shapes(out: Path, fails: Fails) -> None:
    remap(out, put(0, 0), width=4, height=5)
    assert "another chip" in fails("verify", out)
    (out / "mapping.npz").write_bytes(b"PK")
    assert "cannot be read" in fails("verify", out)
    (out / "mapping.npz").unlink()
    assert "cannot be read" in fails("verify", out)


@pytest.mark.sample(2)
@pytest.mark.parametrize(
    "name",
    ["cut_weight", "cut_fraction", "hops_total", "hops_mean", "hops_max", "cores_used",
     "core_fill_mean", "core_fill_max", "memory_fill_mean", "memory_fill_max", "energy",
     "latency_mean", "latency_max",
     "link_load_max", "link_load_mean", "link_load_p99", "congestion_mean", "congestion_max",
     "core.packets", "core.hops_total", "core.link_load_max", "core.link_load_mean",
     "core.link_load_p99", "multicast.connectivity", "multicast.hops_total",
     "multicast.link_load_max",
     "multicast.link_load_mean", "multicast.link_load_p99", "multicast.unicast_hops_total",
     "tick_cycles", "tick_bounds.neurons", "tick_bounds.packets_out", "tick_bounds.events",
     "tick_bounds.links", "tick_bounds.queues", "router_load_max", "router_load_mean",
     "core.router_load_max",
     "core.router_load_mean", "multicast.router_load_max", "multicast.router_load_mean",
     "noc_latency.load_max", "noc_latency.unloaded", "energy_parts.network",
     "energy_parts.events", "energy_parts.neurons", "energy_parts.sum"],
)  # fmt: skip
def test_a_changed_metric(out: Path, fails: Fails, name: str) -> None:
    def more(report: Any) -> None:
        group, _, inner = name.rpartition(".")
        metrics = report["metrics"][group] if group else report["metrics"]
        metrics[inner] *= 1.0001

    edit(out / "report.json", more)
    assert name in fails("verify", out)


def without_router_loads(report: Any) -> None:
    del report["metrics"]["noc_latency"]
    for part in (report["metrics"], report["metrics"]["core"], report["metrics"]["multicast"]):
        del part["router_load_max"], part["router_load_mean"]


@pytest.mark.parametrize(
    "older",
    [
        lambda report: report["metrics"]["multicast"].pop("unicast_hops_total"),
        lambda report: (report["metrics"].pop("core"), report["chip"].pop("delivery")),
        without_router_loads,
    ],
    ids=["unicast hops at the same rates", "core-cast", "loads of routers"],
)
def test_reports_of_older_versions(out: Path, run: Run, older: Callable[[Any], None]) -> None:
    edit(out / "report.json", older)
    assert run("verify", out).code == 0


@pytest.mark.heavy
def test_every_metric_is_recomputed(out: Path, run: Run, fails: Fails) -> None:
    metrics = json.loads((out / "report.json").read_text())["metrics"]
    parts = ("core", "energy_parts", "multicast", "noc_latency", "tick_bounds")
    names = {name for name in metrics if name not in parts}
    names |= {f"{part}.{name}" for part in parts for name in metrics[part]}
    assert names <= set(run("verify", out, "--json").json())
    edit(out / "report.json", lambda report: report["metrics"].update(beauty=1))
    assert "'beauty', which is not a metric" in fails("verify", out)


def test_skipped_checks_are_listed(out: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mapper.evaluation.verify_traffic.MOST_WORK", 0)
    assert run("verify", out, "--json").json()["not_recomputed"] == ["congestion_max"]


@pytest.mark.heavy
@given(data=st.data(), width=st.integers(1, 5), height=st.integers(1, 4))
def test_traffic_by_single_spikes(data: st.DataObject, width: int, height: int) -> None:
    """Links, trees and routers compared with routes that are walked core by core."""
    cores = width * height
    core = st.integers(0, cores - 1)
    flows = data.draw(st.lists(st.tuples(core, core, st.integers(0, 9)), max_size=20))
    source, target, weight = np.array([*flows, (0, 0, 0)], np.int64).T
    links, trees, found = LinkLoads(width, height), LinkLoads(width, height), Flows(width, height)
    links.add(source, target, weight)
    found.add(source, target, weight)
    used: dict[tuple[int, int], int] = {}
    routers = np.zeros(cores)
    for a, b, w in flows:
        for link in route(a, b, width):
            used[link] = used.get(link, 0) + w
        for router, chance in visits(a, b, width).items() if a != b else ():
            routers[router] += w * chance
    assert sorted(links.loads()[links.loads() > 0]) == sorted(w for w in used.values() if w)
    np.testing.assert_allclose(found.router_loads(), routers, rtol=1e-12)
    reached = data.draw(st.lists(st.tuples(st.integers(0, 3), core), max_size=20).map(sorted))
    first = np.array(data.draw(st.lists(core, min_size=4, max_size=4)))
    rate = np.array([1, 10, 100, 1000])
    owner, to = np.array([*reached, (0, 0)][: len(reached)], np.int64).reshape(-1, 2).T
    trees.add_trees(first, owner, to, rate)
    branches: dict[tuple[int, int], int] = {}
    for v in range(4):
        tree = {link for o, c in reached if o == v for link in route(int(first[v]), c, width)}
        for link in tree:
            branches[link] = branches.get(link, 0) + int(rate[v])
    assert sorted(trees.loads()[trees.loads() > 0]) == sorted(branches.values())


def route(a: int, b: int, width: int) -> list[tuple[int, int]]:
    """Return the links between two cores, row first."""
    found = []
    while a != b:
        x, to = a % width, b % width
        step = (1 if to > x else -1) if x != to else (width if b > a else -width)
        found.append((a, a + step))
        a += step
    return found


def visits(a: int, b: int, width: int) -> dict[int, float]:
    """Return the probability that a spike visits each core, over all shortest paths."""
    found = {a: 1.0}
    waiting = [(a, 1.0)]
    while waiting:
        at, chance = waiting.pop()
        (y, x), (to_y, to_x) = divmod(at, width), divmod(b, width)
        steps = [1 if to_x > x else -1] * (x != to_x) + [width if to_y > y else -width] * (
            y != to_y
        )
        for step in steps:
            found[at + step] = found.get(at + step, 0.0) + chance / len(steps)
            waiting.append((at + step, chance / len(steps)))
    return found


@pytest.mark.sample(2)
@pytest.mark.parametrize("limit", ["neurons", "synapses", "axons_in", "axons_out"])
def test_limits_of_the_report_are_checked(out: Path, fails: Fails, limit: str) -> None:
    edit(out / "report.json", lambda report: report["chip"].update({limit: 1}))
    assert limit in fails("verify", out)


@pytest.mark.parametrize("delivery", ["synapse", "core", "tree"])
@pytest.mark.parametrize("machine", [None, Machine(6, 4, "x", tile=Block(2, 2, 0.0))])
def test_energies_of_each_delivery(
    run: Run, fails: Fails, folder: Path, delivery: Any, machine: Machine | None
) -> None:
    spent = ChipEnergy(event=2.5, neuron=3.0, packet_out=0.5, packet_in=0.25)
    chip = Chip(
        "c", 6, 4, delivery=delivery, energy_router=1.5, energy_link=(2.0, 3.5), energy_unit="pJ",
        energy=spent, machine=machine,
    )  # fmt: skip
    out = random_folder(folder / "out", chip)
    found = run("verify", out, "--json").json()
    stated = json.loads((out / "report.json").read_text())["metrics"]["energy_parts"]
    assert stated["lacks"] == ""
    assert found["energy_parts.network"] == pytest.approx(stated["network"])
    edit(out / "report.json", lambda r: r["metrics"]["energy_parts"].update(lacks="neurons"))
    assert "energy_parts.lacks" in fails("verify", out)


def test_memory_bits_are_checked(out: Path, fails: Fails) -> None:
    report = json.loads((out / "report.json").read_text())
    most = round(910 * report["metrics"]["memory_fill_max"])
    assert 204 < most <= 910
    edit(out / "report.json", lambda report: report["chip"].update(memory_bits=most - 1))
    assert f"uses {most} memory_bits of {most - 1}" in fails("verify", out)


@pytest.mark.sample(3)
@pytest.mark.parametrize(
    "change",
    [
        put("schema", 2),
        put("chip", {}),
        put("chip", None),
        put("metrics", {}),
        put("metrics", []),
        put("network", {}),
        put("network", {"path": 7}),
        lambda report: report["metrics"].update(hops_total="many"),
        lambda report: report["metrics"].update(hops_total=None),
        lambda report: report["chip"].update(width=-3),
        lambda report: report["chip"].pop("neurons"),
    ],
)
def test_a_damaged_report(out: Path, fails: Fails, change: Callable[[Any], None]) -> None:
    edit(out / "report.json", change)
    assert str(out) in fails("verify", out)


def test_invalid_reports(out: Path, fails: Fails, folder: Path) -> None:
    for text in ("", "[]", "{", "null", '"x"'):
        (out / "report.json").write_text(text)
        assert "report.json" in fails("verify", out)
        assert "report.json" in fails("info", out)
    (out / "report.json").unlink()
    assert "has no report.json" in fails("verify", out)


def test_another_network(out: Path, fails: Fails, folder: Path) -> None:
    random_network(folder / "net.bin", 40, 160, seed=1, sizes=[1, 2] * 20)
    fails("verify", out)
    random_network(folder / "net.bin", 41, 160)
    assert "maps 40 neurons" in fails("verify", out)


def rewrite(path: Path, changes: dict[str, bytes | None]) -> None:
    """Rewrite an archive with some members replaced, added, or (None) removed."""
    with members_of(path) as members:
        found = {name: raw for name, raw in (members | changes).items() if raw is not None}
        members.clear()
        members |= found


def meta_of(path: Path) -> dict[str, Any]:
    with zipfile.ZipFile(path) as archive:
        found: dict[str, Any] = json.loads(archive.read("meta.json"))
    return found


@pytest.mark.parametrize(
    ("block", "reason"),
    [
        (b"\x01\x0c\x01" + b"\x00" * 2, "its two ends"),
        (b"\x01\x0c\x01\x01\x0d\x00\x00", ""),
        (b"\x01\x0c\x05\x00\x00", "beyond vertex 2"),
        (b"\x01\x0c\x00\x00\x00", "to itself"),
        (b"\x02\x0c\x02\x0c\x01\x00\x00", "not in order"),
        (b"\x01\x1c\x01\x00\x00", "are inconsistent"),
        (b"\x01\x0c\x01\x00", "are inconsistent"),
        (b"\x01\x0c\x81", "inside a number"),
        (b"\x01\x0c" + b"\x80" * 10 + b"\x01\x00\x00", "longer than 10"),
    ],
)
def test_broken_records(folder: Path, run: Run, fails: Fails, block: bytes, reason: str) -> None:
    path = write_network(folder / "net.bin", [(0, 1)], 3)
    about = {**meta_of(path), "largest_block_bytes": len(block)}
    rewrite(path, {"blocks/00000000": block, "meta.json": json.dumps(about).encode()})
    if reason:
        assert reason in fails("verify", path)
    else:
        assert run("verify", path).code == 0


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("neurons", 41), ("neurons", 0), ("neurons", -1), ("neurons", "40"), ("neurons", 2**62),
        ("synapses", 1), ("connections", 3), ("total_weight", 5), ("total_size", 59),
        ("synapses_read", 161), ("block_size", 0), ("block_size", 7), ("undirected", True),
        ("undirected", None), ("weight_unit", "1"), ("attributes", []), ("attributes", {}),
        ("default_weight", 2), ("attributes", {"size": {}}), ("attribute_block_size", 0),
        ("weight_unit", 0), ("weight_unit", 1e308), ("weight_unit", True), ("version", True),
        ("version", 1.0), ("version", "1"), ("version", 10**50), ("version", [[1]] * 9999),
        ("format", ["mapper-network"]), ("weights_are_rates", 1), ("provenance", None),
        ("largest_block_bytes", 10**6), ("largest_block_bytes", 9), ("synapses_read", 10**90),
    ],
)  # fmt: skip
def test_false_facts_about_a_network(folder: Path, fails: Fails, name: str, value: Any) -> None:
    path = random_network(folder / "net.bin", 40, 160, sizes=[1, 2] * 20)
    rewrite(path, {"meta.json": json.dumps({**meta_of(path), name: value}).encode()})
    assert str(path) in fails("verify", path)


@pytest.mark.parametrize("value", ["NaN", "Infinity", "-Infinity", "1e999", "9" * 5000, "[" * 9999])
def test_invalid_numbers(folder: Path, fails: Fails, value: str) -> None:
    path = random_network(folder / "net.bin", 40, 160)
    for key in ("weight_unit", "version"):
        about = json.dumps({**meta_of(path), key: "HERE"}).replace('"HERE"', value)
        changed = folder / "changed.bin"
        changed.write_bytes(path.read_bytes())
        rewrite(changed, {"meta.json": about.encode()})
        for command in ("verify", "info"):
            assert "changed.bin: meta.json is not valid JSON (" in fails(command, changed)


def test_missing_and_unexpected_members(folder: Path, fails: Fails) -> None:
    path = random_network(folder / "net.bin", 40, 160, block_size=8)
    rewrite(path, {"stranger": b"?"})
    assert "unexpected member stranger" in fails("verify", path)
    rewrite(path, {"stranger": None, "blocks/00000002": None})
    assert "blocks/00000002" in fails("verify", path)
    for raw in (b"{}", b"[]", b"", b"{"):
        rewrite(path, {"meta.json": raw})
        fails("verify", path)
        fails("info", path)
