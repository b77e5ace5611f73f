"""Cycles per tick: the metric and the simulator against the Amaranth chip.

    python scripts/bench_time.py [--ticks 24] [--networks chain hubs] [--kernel] [--objectives]
                                 [--json FILE]
    python scripts/bench_time.py --kinds [--networks lattice] [--objectives] [--rates 0.03 1]
                                 [--delivery core] [--json FILE]

Ten spiking networks (`bench_time_networks.py`), each mapped in five ways onto 4x4 or 5x3 cores with
one packet per destination core. Rates are counted in the simulated ticks after the warm-up.
For each mapping the table shows cycles per tick of the Amaranth chip, `tick_cycles`, and
`mapper simulate` with random spikes at the same rates; with the chip's own spikes the simulator
must match the chip tick by tick. --kernel simulates these spikes instead of running the Amaranth
chip, which takes seconds instead of half an hour. --objectives maps in two ways instead: for hops
and for time, with up to 128 neurons per core; `time` should take 1.4 times fewer cycles in the
geometric mean, and never more than 3 % more.

--kinds compares `tick_cycles` with `mapper simulate` on ten graphs of other kinds, on 5x4 cores, at
mean rates of 0.03 (exponentially distributed) and 1 spike per neuron and tick. At 1 all neurons
spike in every tick.

Targets: correlation of `tick_cycles` with the chip at least 0.97, ratio within 1.25 on average;
`simulate` within 10 % on average, its longest tick within 25 %.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from bench_common import say
from bench_time_networks import KINDS, NETWORKS
from numpy.typing import NDArray
from rich.console import Console

from chipsim.chip.model import Chip
from chipsim.chip.time import ChipTime
from chipsim.noc.mesh import Mesh
from chipsim.ticks.routes import core_routes
from chipsim.ticks.run import TickSimulator
from chipsim.traffic.metrics import summarise
from hw.chip import ChipDesign as Hardware
from hw.chip import chip_shape
from hw.core.arithmetic import simulate
from hw.core.network import SpikingNetwork
from hw.core.shape import CoreShape
from hw.run import ChipSimulator
from hw.tables import make_tables
from mapper import map_network
from mapper.evaluation.ticks import mapped_routes, random_ticks
from mapper.results.tables import columns
from mapper.scoring.measure import measure_network
from storage.store.network import RATE, NetworkFile
from storage.store.writer import NetworkWriter

SIZES = ((4, 4), (5, 3))
CORE = CoreShape(neurons=128, axons=1024, routes=2048, synapses=8192)
WARMUP = 6  # ticks that are not counted
DRAWN = 400  # ticks with random spikes
UNIT = 1e-4  # spikes per tick that a stored rate of 1 stands for, with --kinds
Cores = NDArray[np.int32]


class Row(NamedTuple):
    """A mapping; cycles per tick."""

    network: str
    way: str
    cores: int
    chip: float
    longest: float
    metric: float
    bound: str
    simulated: float
    simulated_longest: float
    equal: bool


def ways(path: Path, chip: Chip, neurons: int) -> Iterator[tuple[str, Cores]]:
    """Yield five mappings: three by mapper with increasing free capacity, two that ignore the
    network.
    """
    even = -(-neurons // chip.cores)
    for name, preset, room in (
        ("spread", "default", 1.1), ("half full", "fast", 1.5), ("packed", "default", 2.2),
    ):  # fmt: skip
        most = min(int(np.ceil(room * even)), CORE.neurons)
        yield name, map_network(path, chip, preset=preset, neurons_per_core=most, threads=1).core
    order = (np.arange(neurons) * chip.cores // neurons).astype(np.int32)
    yield "in order", order
    yield "at random", np.random.default_rng(1).permutation(order)


def objectives(path: Path, chip: Chip) -> Iterator[tuple[str, Cores]]:
    """Yield a mapping for hops and one for time."""
    for name in ("hops", "time"):
        yield name, map_network(path, chip, objective=name, threads=1).core


class KindRow(NamedTuple):
    """A mapping of one of `KINDS`; cycles per tick."""

    network: str
    way: str
    rate: float
    metric: float
    bound: str
    simulated: float


def save(path: Path, network: SpikingNetwork, rate: NDArray[np.int64]) -> None:
    """Write the network to a file with its rates."""
    with NetworkWriter(path, network.neurons) as writer:
        writer.add(network.source, network.target, rate[network.source])
        writer.set_attribute(RATE, rate)
        writer.finish()


def bench(name: str, ticks: int, kernel: bool, by_objective: bool) -> list[Row]:
    """Measure all mappings of a network."""
    size = SIZES[list(NETWORKS).index(name) % len(SIZES)]
    network, shape = NETWORKS[name](), chip_shape(*size, CORE)
    spikes, _ = simulate(network, shape, ticks)
    counted = ticks - WARMUP
    time = ChipTime(tick=1 / counted)
    chip = Chip(name, *size, neurons=CORE.neurons, delivery="core", time=time)
    hardware = None if kernel else ChipSimulator(Hardware(*size, CORE))
    mesh = Mesh(*size)
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "net.bin"
        save(path, network, spikes[WARMUP:].sum(axis=0))
        found = objectives(path, chip) if by_objective else ways(path, chip, network.neurons)
        for way, core in found:
            with NetworkFile(path) as file:
                traffic = measure_network(file, chip, core)
                mapped = mapped_routes(file, core, mesh, False)
            metrics = summarise(chip, traffic)
            lists = [np.flatnonzero(fired[mapped.neurons]) for fired in spikes]
            ends = np.cumsum([0, *map(len, lists)])
            none = np.zeros(0, np.int64), np.zeros(ticks + 1, np.int64)
            told = TickSimulator(mesh, time, _with_all(mesh, network, core, mapped)).run(
                np.concatenate(lists), ends, *none
            )
            cycles = told.cycles
            if hardware is not None:
                run = hardware.run(make_tables(network, core, *size, shape), ticks)
                assert np.array_equal(run.spikes, spikes), f"{name}, {way}: other spikes"
                cycles = run.cycles
            drawn = np.concatenate(
                [run.cycles for run, _ in random_ticks(mapped, chip, mesh, DRAWN, seed=0)]
            )
            real = cycles[WARMUP:]
            # mean of the longest tick over windows with as many ticks as the chip ran
            longest = float(drawn[: DRAWN // counted * counted].reshape(-1, counted).max(1).mean())
            rows.append(
                Row(name, way, metrics["cores_used"], float(real.mean()), float(real.max()),
                    metrics["tick_cycles"], metrics["tick_bound"], float(drawn.mean()), longest,
                    np.array_equal(told.cycles, cycles))
            )  # fmt: skip
            say(f"{name}, {way}: {rows[-1].chip:.1f}, {rows[-1].metric:.1f}")
    return rows


def _with_all(mesh: Mesh, network: SpikingNetwork, core: Cores, mapped: Any) -> Any:
    """Return the routes with all synapses: a file merges the synapses of a pair."""
    cores = mapped.routes.first.size - 1
    pairs, events = np.unique(
        mapped.slot[network.source] * cores + core[network.target], return_counts=True
    )
    return core_routes(mesh, core[mapped.neurons].astype(np.int64), mapped.routes.first,
                       *np.divmod(pairs, cores), events)  # fmt: skip


def bench_kind(name: str, options: argparse.Namespace) -> list[KindRow]:
    """Measure all mappings of one of `KINDS` at all rates."""
    size, network = (5, 4), KINDS[name]()
    chip = Chip(
        name, *size, neurons=CORE.neurons, delivery=options.delivery, time=ChipTime(tick=UNIT)
    )
    mesh = Mesh(*size)
    rows = []
    for mean in options.rates:
        drawn = np.random.default_rng(len(name)).exponential(mean, network.neurons)
        rate = np.full(network.neurons, 1.0) if mean == 1 else drawn
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "net.bin"
            save(path, network, np.rint(rate / UNIT).astype(np.int64))
            made = objectives if options.objectives else partial(ways, neurons=network.neurons)
            for way, core in made(path, chip):
                with NetworkFile(path) as file:
                    metrics = summarise(chip, measure_network(file, chip, core))
                    mapped = mapped_routes(file, core, mesh, options.delivery == "tree")
                ticks = [run.cycles for run, _ in random_ticks(mapped, chip, mesh, DRAWN, seed=0)]
                rows.append(
                    KindRow(name, way, mean, metrics["tick_cycles"], metrics["tick_bound"],
                            float(np.concatenate(ticks).mean()))
                )  # fmt: skip
    say(name)
    return rows


def show_kinds(options: argparse.Namespace) -> int:
    """Print how `tick_cycles` compares with `mapper simulate` on `KINDS`."""
    jobs = options.networks or list(KINDS)
    with ProcessPoolExecutor(options.processes) as pool:
        found = pool.map(bench_kind, jobs, [options] * len(jobs))
        rows = [row for part in found for row in part]
    console = Console(width=120)
    heads = ("network, way", "rate", "tick_cycles", "bound", "simulate", "simulate / tick_cycles")
    console.print(columns("cycles per tick", heads, [
        (f"{r.network}, {r.way}", r.rate, round(r.metric, 1), r.bound, round(r.simulated, 1),
         round(r.simulated / r.metric, 3)) for r in rows
    ]))  # fmt: skip
    found_all: dict[str, Any] = {}
    for mean in options.rates:
        some = [row for row in rows if row.rate == mean]
        metric, simulated = (
            np.array([getattr(row, key) for row in some]) for key in ("metric", "simulated")
        )
        ratio = simulated / metric
        found_all |= {
            f"rate {mean}: correlation": float(np.corrcoef(metric, simulated)[0, 1]),
            f"rate {mean}: simulate / tick_cycles, mean": float(ratio.mean()),
            f"rate {mean}: least and most": f"{ratio.min():.2f}, {ratio.max():.2f}",
            f"rate {mean}: within 10 %": f"{(np.abs(1 / ratio - 1) <= 0.1).sum()} of {len(some)}",
        }
        if options.objectives:
            gained = gains({(row.network, row.way): row.simulated for row in some})
            found_all |= {f"rate {mean}: {key}": value for key, value in gained.items()}
    console.print(columns("over all mappings", ("", "value"), list(found_all.items())))
    if options.json:
        options.json.write_text(json.dumps({"rows": rows, "summary": found_all}, indent=1))
    return 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--ticks", type=int, default=24)
    parser.add_argument("--networks", nargs="*", choices=[*NETWORKS, *KINDS], metavar="NAME")
    parser.add_argument("--kinds", action="store_true")
    parser.add_argument("--rates", nargs="+", type=float, default=[0.03, 1.0])
    parser.add_argument("--delivery", choices=["core", "tree"], default="core")
    parser.add_argument("--kernel", action="store_true")
    parser.add_argument("--objectives", action="store_true")
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    if options.kinds:
        return show_kinds(options)
    jobs = options.networks or list(NETWORKS)
    with ProcessPoolExecutor(options.processes) as pool:
        same = ([one] * len(jobs) for one in (options.ticks, options.kernel, options.objectives))
        found = pool.map(bench, jobs, *same)
        rows = [row for part in found for row in part]
    console = Console(width=120)
    heads = ("network, way", "cores", "chip", "chip, longest", "tick_cycles", "bound", "simulate",
             "simulate, longest")  # fmt: skip
    console.print(columns("cycles per tick", heads, [
        (f"{r.network}, {r.way}", r.cores, round(r.chip, 1), r.longest, round(r.metric, 1), r.bound,
         round(r.simulated, 1), round(r.simulated_longest, 1)) for r in rows
    ]))  # fmt: skip
    found_all = summary(rows)
    if options.objectives:
        found_all |= gains({(row.network, row.way): row.chip for row in rows})
    console.print(columns("over all mappings", ("", "value"), list(found_all.items())))
    if options.json:
        options.json.write_text(json.dumps({"rows": rows, "summary": found_all}, indent=1))
    return 0 if found_all["mappings whose simulated ticks differ"] == 0 else 1


def summary(rows: list[Row]) -> dict[str, Any]:
    """Compare the metric and the simulator with the chip."""
    chip, metric = (np.array([getattr(row, name) for row in rows]) for name in ("chip", "metric"))
    drawn = np.array([row.simulated for row in rows]) / chip
    longest = np.array([row.simulated_longest / row.longest for row in rows])
    by_network: dict[str, list[int]] = {}
    for index, row in enumerate(rows):
        by_network.setdefault(row.network, []).append(index)
    ratio = metric / chip
    within = [np.corrcoef(chip[some], metric[some])[0, 1] for some in by_network.values()]
    return {
        "mappings": len(rows),
        "tick_cycles: correlation": float(np.corrcoef(chip, metric)[0, 1]),
        "tick_cycles: correlation within a network, least": float(min(within)),
        "tick_cycles: ratio, mean": float(ratio.mean()),
        "tick_cycles: ratio, least and most": f"{ratio.min():.2f}, {ratio.max():.2f}",
        "simulate: ratio, mean": float(drawn.mean()),
        "simulate: ratio, least and most": f"{drawn.min():.2f}, {drawn.max():.2f}",
        "simulate: longest tick, ratio, mean": float(longest.mean()),
        "simulate: longest tick, least and most": f"{longest.min():.2f}, {longest.max():.2f}",
        "mappings whose simulated ticks differ": sum(not row.equal for row in rows),
    }


def gains(cycles: dict[tuple[str, str], float]) -> dict[str, Any]:
    """Return the speed-up of ticks by the objective `time`; cycles : by network and objective"""
    names = {name for name, _ in cycles}
    ratio = np.array([cycles[name, "hops"] / cycles[name, "time"] for name in names])
    return {
        "time against hops: times faster, geometric mean": float(np.exp(np.log(ratio).mean())),
        "time against hops: least and most": f"{ratio.min():.2f}, {ratio.max():.2f}",
    }


if __name__ == "__main__":
    sys.exit(main())
