"""`mapper simulate` of machines whose cores share routers: flits, ticks and spikes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from chipsim.chip.presets import from_fields
from chipsim.noc.deliver import deliver
from chipsim.noc.mesh import Mesh
from chipsim.ticks.run import TickSimulator
from mapper.evaluation.offered_load import offered_load
from mapper.evaluation.ticks import mapped_routes
from mapper.results.mapping_file import load_mapping
from mapper.results.output import read_report
from mapper.scoring.measure import measure_network
from storage.store.network import NetworkFile
from tests.mapper.conftest import Run
from tests.mapper.helpers import random_network

pytestmark = pytest.mark.jit  # complete commands

NEURONS = 60
MACHINES = {
    "tiles": ("", "[tile]\nwidth = 2\nheight = 2\n"),
    "torus": ('torus = "xy"\n', ""),
    "torus of tiles": ('torus = "x"\n', "[tile]\nwidth = 2\nheight = 1\n"),
}
CHIP = 'width = 8\nheight = 4\nneurons = 3\n{}delivery = "{}"\n[time]\ntick = 0.25\n{}'


@pytest.fixture(params=[(name, way) for name in MACHINES for way in ("synapse", "core", "tree")])
def out(request: pytest.FixtureRequest, folder: Path, run: Run) -> Path:
    """A mapping onto a machine that sends one packet per synapse, one per core, or a multicast
    tree.
    """
    name, way = request.param
    random_network(folder / "net.bin", NEURONS, 400)
    (folder / "chip.toml").write_text(CHIP.format(MACHINES[name][0], way, MACHINES[name][1]))
    assert run("run", "net.bin", "--chip", "chip.toml", "-o", "out", "-q").code == 0
    return folder / "out"


@pytest.mark.heavy
@pytest.mark.sample(0.25)
def test_flits_on_links_equal_the_scorer(out: Path) -> None:
    """For every delivery, on the same demand."""
    report = read_report(out)
    chip = from_fields(report["chip"])
    with NetworkFile(out.parent / "net.bin") as network:
        core = load_mapping(out / "mapping.npz", NEURONS, chip)
        traffic = measure_network(network, chip, core)
        mesh = Mesh.of(chip)
        if chip.delivery == "synapse":
            pairs = [traffic.pairs.stripe(n) for n in range(traffic.pairs.stripes)]
            source, target, weight = (np.concatenate(part) for part in zip(*pairs, strict=True))
            found = deliver(
                mesh, np.zeros(weight.sum(), np.int64), np.repeat(source, weight),
                np.repeat(target, weight),
            )  # fmt: skip
            assert np.array_equal(found.links, traffic.unicast_links)
            return
        mapped = mapped_routes(network, core, mesh, chip.delivery == "tree")
        offered = offered_load(out, report, network, packets="core", tick_cycles=1e6)
    assert chip.time is not None
    # Number of ticks: highest rate; in tick t all neurons with a rate above t spike.
    rate = mapped.rate[mapped.neurons]
    slots = [np.flatnonzero(rate > tick) for tick in range(int(rate.max()))]
    ends = np.cumsum([0, *map(len, slots)])
    ran = TickSimulator(mesh, chip.time, mapped.routes).run(
        np.concatenate(slots), ends, np.zeros(0, np.int64), np.zeros(len(ends), np.int64)
    )
    activity = traffic.activity
    assert np.array_equal(ran.events, activity.events)
    assert np.array_equal(ran.taken, activity.received + activity.local)
    if chip.delivery == "core":
        assert np.array_equal(ran.sent, activity.sent + activity.local)
        assert np.array_equal(ran.links, traffic.core_links)
        expected = offered.demand.expected(mesh)[0] * 1e6
        np.testing.assert_allclose(expected, traffic.core_links, rtol=1e-9, atol=1e-6)
    else:
        assert np.array_equal(ran.links, traffic.multicast_links)


@pytest.mark.heavy
@pytest.mark.sample(0.25)
def test_ticks_flits_and_reports(out: Path, run: Run) -> None:
    found = run("simulate", out, "--cycles", "6000", "--json").json()
    report: dict[str, Any] = json.loads((out / "report.json").read_text())
    chip = from_fields(report["chip"])
    assert report["simulation"] == found
    assert ("tiles" in found["model"]) == (chip.routers != (chip.width, chip.height))
    assert found["undelivered"] == 0
    assert found["latency"]["expected"] == pytest.approx(found["latency"]["mean"], rel=0.05)
    assert found["saturation"]["load_scale"] > 1
    columns, rows = chip.routers
    for link in found["links"]:
        assert link["x"] < columns and link["y"] < rows
        assert link["flits_per_cycle"] == pytest.approx(link["expected"], rel=0.3)
        wide, tall = chip.width // columns, chip.height // rows
        assert link["core"] == link["y"] * tall * chip.width + link["x"] * wide
    assert run("verify", out).code == 0
    if chip.delivery == "synapse":
        return
    ticks = run("simulate", out, "--ticks", "200", "--json").json()
    # The bounds ignore shared ports, which this load overloads. The estimate of queues was up to
    # 1.18 times the cycles of other chips (docs/reference/metrics.md).
    metrics = report["metrics"]
    bounds = [value for name, value in metrics["tick_bounds"].items() if name != "queues"]
    assert ticks["cycles"]["mean"] > 0.9 * max(bounds)
    assert ticks["cycles"]["mean"] > 0.8 * metrics["tick_cycles"]
