"""Cycles per tick: `--objective time` against METIS and KaMinPar with placement by annealing.

    python scripts/bench_time_peers.py                # all networks
    python scripts/bench_time_peers.py --networks hubs 'cortex 316' --peers kaminpar

Networks: the ten of `bench_time_networks.py` at their simulated rates on 4x4 or 5x3 cores, a sheet
of 99,856 neurons (`cortex 316`), and the cortical microcircuit at scale 0.3; all chips send one
packet per destination core. Each peer partitions the network into the fewest parts that fit on
cores, and evenly into as many parts as cores; `mapper place` places the parts, and `mapper score`
measures `tick_cycles` of all mappings. Columns `fewest` and `all` are the ratios of the best peer
to `--objective time`; `least` is a lower bound: barrier, and neurons and synaptic events of a core
under perfect balance.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from bench_common import mapper, need, run, say, worker
from bench_time import CORE, SIZES, WARMUP, save
from bench_time_networks import NETWORKS

from chipsim.chip.presets import parse_chip
from hw.chip import chip_shape
from hw.core.arithmetic import simulate
from mapper.concurrency.threads import ThreadTeam
from mapper.hypergraph.net_rows import NetReader
from storage.store.network import RATE, NetworkFile
from storage.store.writer import NetworkWriter

TICKS = 24
SLACK = 1.03  # relative to the mean part, with as many parts as cores
CORTEX = ("--side", "316", "--fanout", "50", "--sigma", "6", "--long-range", "0.1", "--shuffle")


@dataclass(frozen=True, slots=True)
class Large:
    """A generated network: arguments of `mapper generate`, mesh, neurons per core, and tick in the
    time
    unit of its rates.
    """

    words: tuple[str, ...]
    size: tuple[int, int]
    neurons: int
    tick: float


LARGE = {
    "cortex 316": Large(("cortex", *CORTEX), (20, 20), 512, 0.01),
    "microcircuit 0.3": Large(("microcircuit", "--scale", "0.3"), (16, 16), 256, 0.001),
}


@dataclass(frozen=True, slots=True)
class Case:
    """A network, its chip, and the folder of intermediate files."""

    folder: Path
    network: Path
    chip: Path
    size: tuple[int, int]
    neurons: int
    options: argparse.Namespace

    @classmethod
    def of(cls, name: str, folder: Path, options: argparse.Namespace) -> Case:
        path, file = folder / f"{name}.bin", folder / f"{name}.toml"
        if name in LARGE:
            large = LARGE[name]
            size, neurons, tick = large.size, large.neurons, large.tick
            kind, *words = large.words
            if not path.exists():
                need(mapper("generate", kind, str(path), *words, "--seed", "1", "-q"))
        else:
            size = SIZES[list(NETWORKS).index(name) % len(SIZES)]
            neurons, tick = CORE.neurons, 1 / (TICKS - WARMUP)
            network = NETWORKS[name]()
            spikes, _ = simulate(network, chip_shape(*size, CORE), TICKS)
            save(path, network, spikes[WARMUP:].sum(axis=0))
        text = f"width = {size[0]}\nheight = {size[1]}\nneurons = {neurons}\n"
        file.write_text(f'{text}delivery = "core"\n[time]\ntick = {tick}\n')
        return cls(folder, path, file, size, neurons, options)

    def score(self, mapping: Path) -> dict[str, Any]:
        words = ("score", str(self.network), str(mapping), "--chip", str(self.chip))
        metrics: dict[str, Any] = json.loads(need(mapper(*words, "--json", "-q")))["metrics"]
        return metrics

    def least(self) -> float:
        """Return the cycles of a tick with equal neurons and synaptic events on all cores."""
        chip = parse_chip(str(self.chip))
        assert chip.time is not None
        time, events = chip.time, 0.0
        with NetworkFile(self.network) as network, ThreadTeam(1) as team:
            for start, _, rates in NetReader(network).stream(team):
                events += float((rates * (np.diff(start) - 1)).sum())
            neurons, meta = network.vertices, network.meta
            unit = meta.attributes[RATE].unit if RATE in meta.attributes else meta.weight_unit
        received = events * unit * time.tick * time.event / chip.usable_count
        updated = neurons * time.neuron / chip.usable_count
        return time.barrier + max(updated, time.spike + received)

    def mapped(self) -> dict[str, Any]:
        """Return the metrics of mapper's mapping."""
        words = ["run", str(self.network), "--chip", str(self.chip), "--objective", "time"]
        words += ["-o", str(self.folder / "run"), "--force", "-q", "--seed", "1"]
        words += ["--preset", self.options.preset, "--threads", str(self.options.threads)]
        need(mapper(*words))
        return self.score(self.folder / "run" / "mapping.npz")

    def by_peer(self, peer: str, parts: int, capacity: int) -> dict[str, Any] | None:
        """Return the metrics of a peer's partition placed by annealing; None if the peer fails."""
        graph = self.network.with_name(f"{self.network.name}.parhip")
        if not graph.exists():
            fired = self.folder / "fired.bin"
            write_fired(self.network, fired)
            need(worker("write", str(fired), str(graph)))
        part, cores = self.folder / "part.npy", self.folder / "cores.npy"
        threads = ("--threads", str(self.options.threads))
        words = ["partition", peer, str(graph), str(part), "--parts", str(parts), *threads]
        done = run(worker(*words, "--capacity", str(capacity), "--tries", "5", "--seed", "1"))
        if not done.failed:
            mesh = "{}x{}".format(*self.size)
            words = ["place", str(graph), str(part), str(cores), "--mesh", mesh, *threads]
            done = run(worker(*words))
        if done.failed:
            say(f"{peer}: {done.failed}")
            return None
        path = self.folder / "peer.csv"
        np.savetxt(path, np.load(cores), "%d")
        return self.score(path)


def write_fired(path: Path, fired: Path) -> None:
    """Write the synapses of neurons that fire: METIS and KaMinPar reject weights of zero."""
    with NetworkFile(path) as network, NetworkWriter(fired, network.vertices) as writer:
        for index in range(network.block_count):
            first, last = network.block_bounds(index)
            indptr, ids, weights = network.read_outgoing(index)
            source = np.repeat(np.arange(first, last), np.diff(indptr))
            some = weights > 0
            writer.add(source[some], ids[some], weights[some])
        writer.finish()


def rows(case: Case, name: str) -> Iterator[list[str]]:
    """Yield a row per mapping; the last one has the ratios."""
    with NetworkFile(case.network) as network:
        neurons = network.vertices
    cores = case.size[0] * case.size[1]
    fewest = -(-neurons // case.neurons)
    even = min(case.neurons, int(np.ceil(neurons / cores * SLACK)))
    best = {fewest: np.inf, cores: np.inf}
    for peer in case.options.peers:
        for parts, capacity in ((cores, even), (fewest, case.neurons)):
            found = case.by_peer(peer, parts, capacity)
            if found is None:
                yield [name, f"{peer}, {parts} parts", *"---"]
                continue
            best[parts] = min(best[parts], found["tick_cycles"])
            yield [name, f"{peer}, {parts} parts", *shown(found)]
    own = case.mapped()
    ratios = [f"{best[parts] / own['tick_cycles']:.2f}" for parts in (fewest, cores)]
    yield [name, "--objective time", *shown(own), *ratios, f"{case.least():,.1f}"]


def shown(metrics: dict[str, Any]) -> list[str]:
    return [
        str(metrics["cores_used"]), f"{metrics['tick_cycles']:,.1f}", str(metrics["tick_bound"])
    ]  # fmt: skip


HEADS = ("network", "mapping", "cores", "tick_cycles", "bound", "fewest", "all", "least")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    names = [*NETWORKS, *LARGE]
    parser.add_argument("--networks", nargs="+", choices=names, default=names)
    parser.add_argument("--peers", nargs="+", default=["metis", "kaminpar"])
    parser.add_argument("--preset", default="default")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--inputs", type=Path, help="folder of networks, kept")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder = options.inputs or Path(scratch)
        folder.mkdir(parents=True, exist_ok=True)
        print(" | ".join(HEADS))
        for name in options.networks:
            for row in rows(Case.of(name, folder, options), name):
                print(" | ".join(row))
                sys.stdout.flush()


if __name__ == "__main__":
    main()
