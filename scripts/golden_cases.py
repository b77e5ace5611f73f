"""Networks and runs of the golden manifest; see scripts/golden.py."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np


class Run(NamedTuple):
    """A `mapper run` and the commands on its result.

    network : name in `NETWORKS`; options : options of `mapper run`, without the network
    after : commands on the output folder, each with the name of its output
    """

    network: str
    options: str
    after: tuple[str, ...] = ()
    sample: bool = False


# The networks


def _csv(path: Path) -> None:
    """Named neurons, weights, repeated edges, self-loops, two unconnected groups."""
    rng = np.random.default_rng(7)
    lines = ["source,target,weight"]
    for group, count in (("in", 120), ("out", 60)):
        for a, b, w in rng.integers(0, (count, count, 9), (8 * count, 3)):
            lines.append(f"{group}{a},{group}{b},{w + 1}")
    path.write_text("\n".join(lines) + "\n")


def _hubs(path: Path) -> None:
    """A few neurons with hundreds of synapses among many with a handful."""
    rng = np.random.default_rng(11)
    pairs = {(int(a), int(b)) for a, b in rng.integers(0, 400, (2400, 2))}
    pairs |= {(int(a), hub) for hub in (3, 77, 200) for a in rng.integers(0, 400, 250)}
    text = "".join(f"{a} {b}\n" for a, b in sorted(pairs) if a != b)
    path.write_text(text)


def _grid(path: Path) -> None:
    """A 24x24 grid with edge weights and vertex sizes, as METIS."""
    side = 24
    lines = []
    for v in range(side * side):
        x, y = v % side, v // side
        near = [(x - 1, y), (x + 1, y), (x, y - 1), (x, y + 1)]
        inside = [a + side * b for a, b in near if 0 <= a < side and 0 <= b < side]
        ends = " ".join(f"{u + 1} {1 + (u * v) % 5}" for u in inside)
        lines.append(f"{1 + v % 3} {ends}")
    edges = 2 * side * (side - 1)
    path.write_text("\n".join([f"{side * side} {edges} 011", *lines]) + "\n")


def _nets(path: Path) -> None:
    """A hypergraph of 300 vertices and 260 nets of 2 to 9 pins."""
    rng = np.random.default_rng(5)
    lines = ["260 300"]
    for _ in range(260):
        pins = rng.choice(300, int(rng.integers(2, 10)), replace=False) + 1
        lines.append(" ".join(map(str, pins)))
    path.write_text("\n".join(lines) + "\n")


# Texts are arguments of `mapper generate`. --draws 1 keeps the networks of the first manifest.
NETWORKS: dict[str, str | Callable[[Path], None]] = {
    "sheet.bin": "cortex --side 40 --fanout 24 --sigma 3 --draws 1 --seed 1",
    "shuffled.bin": "cortex --side 36 --fanout 30 --sigma 2.5 --shuffle --draws 1 --seed 2",
    "random.bin": "cortex --side 28 --fanout 12 --long-range 1 --draws 1 --seed 3",
    "layers.bin": "layered --layers 20x20x2,10x10x6,5x5x12,1x1x10 --draws 1 --seed 4",
    "dense.bin": "layered --layers 8x8x3,1x1x120,1x1x120,1x1x10 --draws 1 --seed 5",
    "microcircuit.bin": "microcircuit --scale 0.015 --draws 1 --seed 6",
    "named.csv": _csv,
    "hubs.txt": _hubs,
    "grid.graph": _grid,
    "nets.hgr": _nets,
}
GROUPS: dict[str, str | Callable[[Path], None]] = {
    "group-dnn.bin": "group-dnn --size 7 --draws 1 --seed 1",
    "group-cnn.bin": "group-cnn --size 10 --draws 1 --seed 2",
}
CHIPS = {
    "sheet.bin": "--chip 6x6 --neurons-per-core 52",
    "shuffled.bin": "--chip 5x6 --neurons-per-core 46",
    "random.bin": "--chip 5x5 --neurons-per-core 34",
    "layers.bin": "--chip 7x7 --neurons-per-core 40",
    "dense.bin": "--chip 4x4 --neurons-per-core 32",
    "microcircuit.bin": "--chip 4x8 --neurons-per-core 40",
    "named.csv": "--chip 4x4 --neurons-per-core 13",
    "hubs.txt": "--chip 6x6 --neurons-per-core 13",
    "grid.graph": "--chip 8x8 --neurons-per-core 20",
    "nets.hgr": "--chip 5x5 --neurons-per-core 14",
}
PRESETS = ("fast", "default", "strong", "classic")
OBJECTIVES = ("unicast", "cut", "multicast", "core")


# The runs

EXPORTS = tuple(
    f"export {{result}} {{to}}{ending}"
    for ending in (".csv", ".json", ".npz", ".graph", ".yaml --threshold 2 --magnitudes",
                   ".tables.json --threshold 100 --magnitudes", ".noxim")
)  # fmt: skip
CONVERSIONS = (".csv", ".graph", ".mtx", ".hgr", ".graphml", ".bgf", ".npz")
HARDWARE = ("--chip 2x2 --neurons 8 --synapses 32 --routes 16", "--chip 3x2 --mesh-only")


def runs() -> dict[str, Run]:
    """Return all runs by name: network and the special option."""
    found = {}
    for network, chip in CHIPS.items():
        for preset in PRESETS:
            for objective in OBJECTIVES[: 1 if preset == "classic" else len(OBJECTIVES)]:
                name = f"{network}/{preset}/{objective}"
                options = f"{chip} --preset {preset} --objective {objective} --seed 1"
                found[name] = Run(network, options, sample=name in SAMPLE)
    for network in ("sheet.bin", "microcircuit.bin", "hubs.txt"):
        chip = CHIPS[network]
        found |= {
            f"{network}/threads 1": Run(network, f"{chip} --threads 1 --seed 1"),
            f"{network}/threads 3": Run(network, f"{chip} --threads 3 --seed 1"),
            f"{network}/seed 2": Run(network, f"{chip} --seed 2"),
            f"{network}/streamed": Run(
                network, f"{chip} --set level-budget=0 --seed 1", sample=True
            ),
            f"{network}/streamed strong": Run(
                network, f"{chip} --set level-budget=0 --preset strong --seed 1"
            ),
            f"{network}/streamed multicast": Run(
                network,
                f"{chip} --objective multicast --set level-budget=0 --set net-budget=0 --seed 1",
            ),
            f"{network}/connections core": Run(
                network, f"{chip} --objective core --set net_pins=0 --seed 1"
            ),
            f"{network}/few entries": Run(
                network,
                f"{chip} --set level-budget=0 --set degree=8 --set coarse-degree=8 --seed 1",
            ),
            f"{network}/small blocks": Run(
                network, f"{chip} --set level-budget=0 --set block-vertices=128 --seed 1"
            ),
        }
    found |= {
        "sheet.bin/memory 256": Run("sheet.bin", f"{CHIPS['sheet.bin']} --memory 256MiB"),
        "hubs.txt/limits": Run(
            "hubs.txt", "--chip 7x7 --neurons-per-core 14 --synapses-per-core 420 "
            "--axons-per-core 260 --seed 1", EXPORTS[:2],
        ),
        "hubs.txt/limits multicast": Run(
            "hubs.txt", "--chip 7x7 --neurons-per-core 14 --synapses-per-core 420 "
            "--objective multicast --seed 1",
        ),
        "hubs.txt/axons out": Run(
            "hubs.txt", "--chip 7x7 --neurons-per-core 14 --axons-out-per-core 120 --seed 1",
        ),
        "hubs.txt/split": Run(
            "hubs.txt", "--chip 8x8 --neurons-per-core 14 --synapses-per-core 120 "
            "--split-neurons --seed 1", EXPORTS[:3],
        ),
        "hubs.txt/split fast": Run(
            "hubs.txt", "--chip 8x8 --neurons-per-core 14 --synapses-per-core 120 "
            "--split-neurons --preset fast --seed 1", sample=True,
        ),
        "sheet.bin/pinned": Run(
            "sheet.bin", f"{CHIPS['sheet.bin']} --constraints pins.toml --seed 1",
        ),
        "grid.graph/pinned classic": Run(
            "grid.graph",
            f"{CHIPS['grid.graph']} --constraints pins.toml --preset classic",
            sample=True,
        ),
        "sheet.bin/broken cores": Run(
            "sheet.bin", "--chip chip.toml --seed 1", (*EXPORTS[:2], EXPORTS[6]),
        ),
        "layers.bin/rates": Run("layers.bin", f"{CHIPS['layers.bin']} --rates uniform --seed 1"),
        "microcircuit.bin/exports": Run("microcircuit.bin", f"{CHIPS['microcircuit.bin']} "
            "--preset fast --seed 3", (*EXPORTS[:5], EXPORTS[6],
            "simulate {result} --json --cycles 400 --load-scale 1e-5 --seed 1",
            "score {network} {result}/mapping.npz --json " + CHIPS["microcircuit.bin"]),
            sample=True,
        ),
        "named.csv/simulate": Run("named.csv", f"{CHIPS['named.csv']} --seed 3", (*EXPORTS,
            "simulate {result} --json --cycles 600 --load-scale 1e-3 --packets core",
            "simulate {result} --json --cycles 600 --tick-cycles 40000 --no-saturation"),
        ),
        "grid.graph/exports": Run("grid.graph", f"{CHIPS['grid.graph']} --seed 3", EXPORTS),
    }  # fmt: skip
    return found


SAMPLE = {
    "sheet.bin/fast/unicast", "sheet.bin/default/cut", "layers.bin/strong/unicast",
    "named.csv/fast/multicast", "nets.hgr/default/multicast", "hubs.txt/classic/unicast",
    "grid.graph/default/unicast",
}  # fmt: skip
PINS = """
[[pin]]
neurons = [0, 1, 17]
core = 5

[[together]]
range = [30, 36]
"""
CHIP = """
width = 7
height = 6
unavailable = [0, 8, 15]
neurons = 52
energy_router = 2.5
energy_link = 0.75
"""
