"""Mappings for a machine of chips, against mappings for a flat mesh and Scotch's mappings.

    python scripts/bench_machines.py --data DIR                 # the table of the README
    python scripts/bench_machines.py --cases wing --fill 0.4 0.95 --seeds 1 2 3

The machine is 2x2 chips of 8x8 cores; a hop between chips costs as much as several hops within a
chip (--cost). All mappings are scored on the machine. Scotch gets the machine as a decomposition
with all distances (`deco` in its manual), restricted to the cores that the mapping for the machine
uses and bisected along the chips; without pyscotch it is skipped. The fill is the share of the
machine's capacity that the network needs; it sets the neurons per core.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from bench_common import mapper, need, run, say, worker
from numpy.typing import NDArray

from chipsim.chip.presets import parse_chip
from storage.store.network import NetworkFile

SIDE, CHIPS = 8, 2
CORTEX = ["--side", "316", "--fanout", "50", "--sigma", "6", "--long-range", "0.1", "--shuffle"]
GENERATED = {
    "cortex": ["cortex", *CORTEX],
    "microcircuit": ["microcircuit", "--scale", "0.1"],
}
GRAPHS = {"wing": "graphs/wing.graph"}


@dataclass(frozen=True, slots=True)
class Bench:
    """Settings shared by all rows; folder : folder of networks, chips and mappings"""

    options: argparse.Namespace
    folder: Path

    def network(self, case: str) -> Path:
        path = self.folder / f"{case}.bin"
        if not path.exists():
            if case in GENERATED:
                kind, *words = GENERATED[case]
                need(mapper("generate", kind, str(path), *words, "--seed", "1", "-q"))
            else:
                need(mapper("import", str(self.options.data / GRAPHS[case]), str(path), "-q"))
        return path

    def chip(self, name: str, capacity: int, crossing: bool) -> Path:
        side = SIDE * CHIPS
        text = f"width = {side}\nheight = {side}\nneurons = {capacity}\n"
        if crossing:
            text += f"[chip]\nwidth = {SIDE}\nheight = {SIDE}\ncost = {self.options.cost}\n"
        path = self.folder / f"{name}.toml"
        path.write_text(text)
        return path

    def mapped(self, network: Path, chip: Path, seed: int) -> tuple[Path, float]:
        """Return the mapping for a chip and its seconds."""
        out = self.folder / f"{network.stem}-{chip.stem}"
        words = ["--preset", self.options.preset, "--seed", str(seed), "-q", "--force"]
        words += ["--threads", str(self.options.threads)]
        need(mapper("run", str(network), "--chip", str(chip), "-o", str(out), *words))
        report = json.loads((out / "report.json").read_text())
        return out / "mapping.npz", float(report["resources"]["seconds"])

    def cost(self, network: Path, chip: Path, mapping: Path) -> dict[str, Any]:
        words = ["score", str(network), str(mapping), "--chip", str(chip), "--json", "-q"]
        found: dict[str, Any] = json.loads(need(mapper(*words)))["metrics"]["machine"]
        return found

    def by_scotch(self, network: Path, chip: Path, mapping: Path, seed: int) -> Path | None:
        """Return Scotch's mapping onto the cores that a mapping uses, or None if Scotch fails."""
        used = np.unique(np.load(mapping)["core"])
        graph, part = network.with_suffix(".parhip"), self.folder / "part.npy"
        target = self.folder / "machine.tgt"
        target.write_text(decomposition(chip, used))
        if not graph.exists():
            need(worker("write", str(network), str(graph)))
        capacity = parse_chip(str(chip)).neurons
        words = ["partition", "scotch", str(graph), str(part), "--architecture", str(target)]
        words += ["--parts", str(used.size), "--capacity", str(capacity), "--tries", "5"]
        done = run(worker(*words, "--seed", str(seed), "--threads", str(self.options.threads)))
        if done.failed:
            say(f"scotch: {done.failed}")
            return None
        path = self.folder / "scotch.csv"
        np.savetxt(path, used[np.load(part)], "%d")
        return path


def decomposition(chip: Path, cores: NDArray[np.int32]) -> str:
    """Return cores of a machine as a Scotch architecture file, bisected along the longer side."""
    machine = parse_chip(str(chip))
    y, x = np.divmod(cores, machine.width)
    places = machine.axes.places(np.column_stack([x, y]))
    number = np.ones(cores.size, np.int64)

    def halve(inside: NDArray[np.intp], root: int) -> None:
        number[inside] = root
        if inside.size == 1:
            return
        axis = int(np.argmax(np.ptp(places[inside], axis=0)))
        order = inside[np.argsort(places[inside, axis], kind="stable")]
        ends = np.flatnonzero(np.diff(places[order, axis])) + 1
        cut = int(ends[np.abs(2 * ends - order.size).argmin()])
        halve(order[:cut], 2 * root)
        halve(order[cut:], 2 * root + 1)

    halve(np.arange(cores.size), 1)
    apart = np.abs(places[:, None] - places).sum(axis=2)
    lines = ["deco", "0", f"{cores.size} {number.max()}"]
    lines += [f"{label} 1 {number[label]}" for label in range(cores.size)]
    lines += [" ".join(map(str, apart[row, :row])) for row in range(1, cores.size)]
    return "\n".join(lines) + "\n"


def rows(bench: Bench) -> Iterator[list[str]]:
    options = bench.options
    for case in options.cases:
        network = bench.network(case)
        with NetworkFile(network) as net:
            total = int(net.vertex_sizes().sum())
        for fill in options.fill:
            capacity = -(-total // int(fill * (SIDE * CHIPS) ** 2))
            flat = bench.chip("flat", capacity, False)
            machine = bench.chip("machine", capacity, True)
            for seed in options.seeds:
                before, _ = bench.mapped(network, flat, seed)
                after, seconds = bench.mapped(network, machine, seed)
                old, new = (bench.cost(network, machine, one) for one in (before, after))
                row = [case, f"{fill:g}", str(seed), f"{seconds:.0f}"]
                row += [f"{old['cost_total']:,.0f}", f"{new['cost_total']:,.0f}"]
                row += [f"{new['cost_total'] / old['cost_total']:.3f}"]
                row += [f"{new['crossings_chips'] / max(1, old['crossings_chips']):.3f}"]
                found = None
                if find_spec("pyscotch") is not None:
                    found = bench.by_scotch(network, machine, after, seed)
                if found is None:
                    yield [*row, "-", "-"]
                    continue
                peer = bench.cost(network, machine, found)["cost_total"]
                yield [*row, f"{peer:,.0f}", f"{new['cost_total'] / peer:.3f}"]


HEADS = ("case", "fill", "seed", "s", "flat", "machine", "ratio", "crossings", "Scotch", "ratio")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=Path("data"), help="folder of real inputs")
    parser.add_argument("--cases", nargs="+", default=[*GENERATED, *GRAPHS])
    parser.add_argument("--fill", type=float, nargs="+", default=[0.4, 0.95])
    parser.add_argument("--seeds", type=int, nargs="+", default=[1])
    parser.add_argument("--cost", type=float, default=10, help="cost of a hop between chips")
    parser.add_argument("--preset", default="default")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--inputs", type=Path, help="folder of networks, kept")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder = options.inputs or Path(scratch)
        folder.mkdir(parents=True, exist_ok=True)
        print(" | ".join(HEADS))
        for row in rows(Bench(options, folder)):
            print(" | ".join(row))
            sys.stdout.flush()


if __name__ == "__main__":
    main()
