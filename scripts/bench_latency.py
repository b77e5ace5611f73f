"""Analytical latency against the flit-level simulator: random traffic and mapped networks.

    python scripts/bench_latency.py [--matrices N] [--cycles C] [DIR ...]

Prints the error of the mean latency when the busiest link or port is busy for 10, 20, 40 and 60 %
of the cycles: mean absolute error, worst error, and mean share of the waiting time that the
estimate finds. Random traffic runs on meshes of 3x3 to 16x10, with few or many targets per core,
near or anywhere, and lognormal rates. DIR are output folders of `mapper run` with their networks.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from chipsim.chip.model import Chip
from chipsim.noc.demand import Demand
from chipsim.noc.load import measure_load
from chipsim.noc.mesh import Mesh
from chipsim.traffic.latency import RouterTraffic, latency
from chipsim.traffic.links import loads_of, route_flows, turns_of
from mapper.evaluation.offered_load import offered_load
from mapper.results.output import network_of, read_report
from storage.store.network import NetworkFile

BUSY = (0.1, 0.2, 0.4, 0.6)
UNIT = 1e-9


def random_traffic(
    rng: np.random.Generator, count: int
) -> Iterator[tuple[Chip, RouterTraffic, Demand]]:
    """Yield chips, their traffic as link loads, and the same traffic as demand of the simulator."""
    for _ in range(count):
        chip = Chip("random", int(rng.choice([3, 4, 5, 8, 10, 16])), int(rng.choice([3, 5, 8, 10])))
        x, y = chip.coordinates()
        spread = float(rng.choice([0.0, 0.5, 1.0, 1.5]))
        near = bool(rng.random() < 0.3)
        degree = int(rng.choice([3, 6, 10, 20, chip.cores]))
        weight = np.zeros((chip.cores, chip.cores))
        for core in range(chip.cores):
            inside = (abs(x - x[core]) <= 2) & (abs(y - y[core]) <= 2) if near else x >= 0
            others = np.setdiff1d(np.flatnonzero(inside), core)
            chosen = rng.choice(others, min(degree, others.size), replace=False)
            weight[core, chosen] = rng.lognormal(0, 1, chosen.size) * rng.lognormal(0, spread)
        source, target = np.nonzero(weight)
        whole = np.maximum(1, weight[source, target] / UNIT).astype(np.int64)
        flows = source.astype(np.int32), target.astype(np.int32), whole
        routes, _ = route_flows(chip, *flows)
        entered = np.bincount(source, whole, chip.cores).astype(np.int64)
        sent = RouterTraffic(loads_of(routes), turns_of(routes), entered)
        yield chip, sent, Demand.from_flows(Mesh.of(chip), *flows, UNIT)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--matrices", type=int, default=100)
    parser.add_argument("--cycles", type=int, default=20_000)
    parser.add_argument("folders", type=Path, nargs="*")
    options = parser.parse_args()
    found: dict[float, list[tuple[float, float]]] = {busy: [] for busy in BUSY}
    for chip, sent, demand in random_traffic(np.random.default_rng(0), options.matrices):
        busiest = latency(chip, sent, UNIT).load_max
        for busy in BUSY:
            scale = busy / busiest * (1 - 1e-9)
            expected = latency(chip, sent, UNIT * scale)
            run = measure_load(Mesh.of(chip), demand.scaled(scale), cycles=options.cycles)
            found[busy].append(errors(expected.mean, expected.unloaded, run.latency_mean))
    print(f"{options.matrices} random matrices")
    for busy, pairs in found.items():
        each, share = np.array(pairs).T
        print(
            f"  {busy:.0%}: error {np.abs(each).mean():.2%}, at worst {np.abs(each).max():.2%}, "
            f"waiting found {np.median(share):.0%}"
        )
    for folder in options.folders:
        report = read_report(folder)
        with NetworkFile(network_of(folder, None, report)) as network:
            load = offered_load(folder, report, network)
        print(folder)
        for busy in BUSY:
            scale = busy / load.latency(1.0).load_max * (1 - 1e-9)
            expected = load.latency(scale)
            run = measure_load(load.mesh, load.scaled(scale), cycles=options.cycles)
            error, share = errors(expected.mean, expected.unloaded, run.latency_mean)
            print(f"  {busy:.0%}: {run.latency_mean:.3f} cycles, error {error:+.2%}, {share:.0%}")


def errors(expected: float | None, unloaded: float, mean: float | None) -> tuple[float, float]:
    """Return the relative error of the latency and the estimated share of the waiting time."""
    assert expected is not None and mean is not None
    return expected / mean - 1, (expected - unloaded) / (mean - unloaded)


if __name__ == "__main__":
    main()
