"""Processor time of runs: the estimates of `mapper check` against measurements.

    python scripts/bench_estimates.py FOLDER [--networks N ...] [--objectives O ...]
        [--presets P ...] [--set NAME=VALUE ...] [--stages] [--json FILE]

Ten kinds of networks, each on a chip that it fills to about half. Networks missing in FOLDER are
generated. `--stages` prints a line for each stage.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from bench_common import last_object, machine, mapper, need, run, say
from rich.console import Console
from rich.table import Table

from storage.store.network import NetworkFile
from storage.store.writer import NetworkWriter

CORE = 256  # neurons
GENERATED = {
    "sheet": "cortex --side 100 --fanout 50 --sigma 6 --shuffle",
    "large sheet": "cortex --side 316 --fanout 50 --sigma 6 --shuffle",
    "million": "cortex --side 1000 --fanout 25 --shuffle",
    "circuit": "microcircuit --scale 0.1",
    "large circuit": "microcircuit --scale 0.3",
    "layers": "layered --layers 32x32x8,16x16x16,8x8x32,1x1x100",
    "large layers": "layered --layers 64x64x8,32x32x16,32x32x16,16x16x16,1x1x256,1x1x10",
}


def random(path: Path) -> None:
    """Write uniformly random synapses."""
    rng = np.random.default_rng(1)
    _write(path, 20_000, *rng.integers(0, 20_000, (2, 600_000)))


def scale_free(path: Path) -> None:
    """Write targets drawn from a power law: a few neurons have many incoming synapses."""
    rng = np.random.default_rng(2)
    neurons = 50_000
    rank = np.minimum(neurons - 1, neurons * rng.random(1_000_000) ** 3).astype(np.int64)
    _write(path, neurons, rng.integers(0, neurons, rank.size), rng.permutation(neurons)[rank])


def grid(path: Path) -> None:
    """Write a 2D grid, each neuron connected to its four neighbours."""
    side = 200
    at = np.arange(side * side).reshape(side, side)
    pairs = [(at[:, :-1], at[:, 1:]), (at[:-1], at[1:])]
    ends = [np.concatenate([pair[i].ravel() for pair in pairs]) for i in (0, 1)]
    _write(path, at.size, np.concatenate(ends), np.concatenate(ends[::-1]))


WRITTEN: dict[str, Callable[[Path], None]] = {
    "random": random, "scale-free": scale_free, "grid": grid,
}  # fmt: skip


def _write(path: Path, neurons: int, source: Any, target: Any) -> None:
    with NetworkWriter(path, neurons) as writer:
        writer.add(source, target, np.ones(source.size, np.int64))
        writer.finish()


def network(folder: Path, name: str) -> Path:
    path = folder / f"{name.replace(' ', '-')}.bin"
    if not path.exists():
        if name in WRITTEN:
            WRITTEN[name](path)
        else:
            kind, *words = GENERATED[name].split()
            need(mapper("generate", kind, str(path), *words, "--seed", "1", "-q"))
    return path


def chip(folder: Path, path: Path, objective: str) -> Path:
    """Write a chip with twice the required cores and the packets of the objective."""
    with NetworkFile(path) as net:
        side = max(2, round((2 * net.vertices / CORE) ** 0.5))
    delivery = {"core": "core", "time": "core", "multicast": "tree"}.get(objective, "synapse")
    time = "[time]\n" if objective == "time" else ""
    found = folder / f"{path.stem}-{objective}.toml"
    found.write_text(
        f'width = {side}\nheight = {side}\nneurons = {CORE}\ndelivery = "{delivery}"\n{time}'
    )
    return found


def measure(options: argparse.Namespace, name: str, objective: str, preset: str) -> dict[str, Any]:
    """Return estimated and measured processor time of each stage."""
    folder: Path = options.folder
    path = network(folder, name)
    words = [str(path), "--chip", str(chip(folder, path, objective)), "--objective", objective]
    words += ["--preset", preset, *(f"--set={each}" for each in options.set)]
    if options.memory:
        words += ["--memory", options.memory]
    planned = last_object(need(mapper("check", *words, "--json", "-q")))["run"]
    process = run(
        mapper("run", *words, "-o", str(folder / "mapping"), "--force", "--json", "-q"),
        options.limit,
    )
    found: dict[str, Any] = {"network": name, "objective": objective, "preset": preset}
    if process.failed:
        return found | {"failed": process.failed, "estimated": planned["processor_seconds"]}
    report = last_object(process.output)
    return found | {
        "estimated": planned["processor_seconds"],
        "measured": {one["name"]: one["cpu_seconds"] for one in report["stages"]},
        "seconds": report["resources"]["seconds"],
        "memory": report["resources"]["peak_rss_bytes"],
        "planned": planned["memory"],
        "strategy": planned["strategy"],
        "cost": cost(report["metrics"], objective),
    }


def cost(metrics: dict[str, Any], objective: str) -> float:
    """Return the value of the objective: hops, cycles per tick, or cut weight."""
    if objective in ("core", "multicast"):
        return float(metrics[objective]["hops_total"])
    names = {"time": "tick_cycles", "cut": "cut_weight"}
    return float(metrics[names.get(objective, "hops_total")])


def tables(found: list[dict[str, Any]], stages: bool) -> Table:
    heads = (
        "network", "objective", "preset", "stage", "estimated, s", "measured, s", "ratio",
        "cost",
    )  # fmt: skip
    table = Table(*heads, title="processor time of runs")
    for one in found:
        names = (one["network"], one["objective"], one["preset"])
        estimated = one["estimated"] or {}
        if "failed" in one:
            table.add_row(*names, one["failed"], f"{sum(estimated.values()):.1f}", "", "", "")
            continue
        measured = one["measured"]
        rows = [("all", sum(estimated.values()), sum(measured.values()), f"{one['cost']:,.0f}")]
        if stages:
            rows += [(name, estimated.get(name, 0.0), measured[name], "") for name in measured]
        for stage, first, second, last in rows:
            ratio = f"{first / second:.2f}" if second > 0.05 else ""
            table.add_row(*names, stage, f"{first:.1f}", f"{second:.1f}", ratio, last)
    return table


def main() -> int:
    words = (__doc__ or "").split("\n\n")
    parser = argparse.ArgumentParser(description=words[0])
    parser.add_argument("folder", type=Path)
    every = [*GENERATED, *WRITTEN]
    parser.add_argument("--networks", nargs="+", default=every, choices=every)
    parser.add_argument(
        "--objectives", nargs="+", default=["unicast", "core", "multicast", "time", "cut"]
    )
    parser.add_argument("--presets", nargs="+", default=["fast", "default"])
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE")
    parser.add_argument("--memory", metavar="SIZE")
    parser.add_argument("--limit", type=float, default=600.0, help="time limit of a run, seconds")
    parser.add_argument("--stages", action="store_true")
    parser.add_argument("--json", type=Path, metavar="FILE")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    found = []
    for name in options.networks:
        for objective in options.objectives:
            for preset in options.presets:
                say(f"{name}, {objective}, {preset}")
                found.append(measure(options, name, objective, preset))
                if options.json:
                    options.json.write_text(json.dumps({"machine": machine(), "runs": found}))
    Console(width=None if sys.stdout.isatty() else 120).print(tables(found, options.stages))
    return 0


if __name__ == "__main__":
    sys.exit(main())
