"""Draw the mapping of a sheet of neurons from real mappings: docs/images/stages.svg."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

SIDE, CORES, PER_CORE = 64, 8, 66
SHEET = f"--side {SIDE} --fanout 40 --sigma 4 --long-range 0.1 --seed 1".split()
CHIP = f"--chip {CORES}x{CORES} --neurons-per-core {PER_CORE}".split()
CELL, GAP, TOP = 4, 20, 48
INK = "#7d8590"  # enough contrast on white and on black
TARGET = Path(__file__).resolve().parents[1] / "docs" / "images" / "stages.svg"


@dataclass(frozen=True, slots=True)
class Stage:
    """A mapping. core : ndarray[int32], shape (SIDE, SIDE), core of each neuron of the sheet"""

    title: str
    core: NDArray[np.int32]
    hops: float


def mapper(*arguments: str) -> dict[str, object]:
    """Return the JSON output of a command."""
    command = [sys.executable, "-m", "mapper", *arguments, "--json", "-q"]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, env=os.environ)
    found: dict[str, object] = json.loads(done.stdout)
    return found


def hops(report: dict[str, object]) -> float:
    metrics = report["metrics"]
    assert isinstance(metrics, dict)
    return float(metrics["hops_mean"])


def stages() -> list[Stage]:
    """Return three mappings: in order of ids, for cut with placement, and for hops."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        net = str(folder / "net.bin")
        mapper("generate", "cortex", net, *SHEET)
        by_id = np.arange(SIDE * SIDE) * CORES**2 // SIDE**2
        np.savetxt(folder / "ids.csv", by_id, fmt="%d")
        found = [
            ("order of ids", by_id, hops(mapper("score", net, str(folder / "ids.csv"), *CHIP)))
        ]
        for title, objective in (("cut, then placement", "cut"), ("objective hops", "unicast")):
            out = folder / objective
            words = ("--objective", objective, "--seed", "1", "-o", str(out))
            report = mapper("run", net, *CHIP, *words)
            with np.load(out / "mapping.npz") as file:
                found.append((title, file["core"], hops(report)))
    return [Stage(t, core.astype(np.int32).reshape(SIDE, SIDE), h) for t, core, h in found]


def colour(core: int) -> str:
    """Return a colour, hue by column and lightness by row: neighbouring cores look similar."""
    y, x = divmod(core, CORES)
    return f"hsl({30 + 300 * x / CORES:.0f} 65% {28 + 50 * y / (CORES - 1):.0f}%)"


def panel(core: NDArray[np.int32], cell: int) -> list[str]:
    """Return a path per core, made of runs of neurons along the rows."""
    out = []
    for number in np.unique(core):
        runs = []
        for y, row in enumerate(core == number):
            edges = np.flatnonzero(np.diff(np.r_[False, row, False]))
            runs += [
                f"M{a * cell} {y * cell}h{(b - a) * cell}v{cell}h{(a - b) * cell}z"
                for a, b in edges.reshape(-1, 2).tolist()
            ]
        out.append(f'<path fill="{colour(int(number))}" d="{"".join(runs)}"/>')
    return out


def draw(found: list[Stage]) -> str:
    side = SIDE * CELL
    chip = np.arange(CORES**2, dtype=np.int32).reshape(CORES, CORES)
    cell = side // 2 // CORES
    width = len(found) * (side + GAP) + cell * CORES
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {TOP + side}" '
        f'font-family="system-ui, sans-serif" font-size="14" fill="{INK}" '
        f'shape-rendering="crispEdges">'
    ]
    parts = [(s.title, f"{s.hops:.2f} hops per spike", panel(s.core, CELL)) for s in found]
    parts.append((f"{CORES}x{CORES} cores", "colours", panel(chip, cell)))
    for at, (title, value, paths) in enumerate(parts):
        lines.append(f'<g transform="translate({at * (side + GAP)} {TOP})">')
        lines.append(f'<text y="-28">{title}</text><text y="-11">{value}</text>')
        lines += [*paths, "</g>"]
    return "\n".join([*lines, "</svg>", ""])


if __name__ == "__main__":
    TARGET.parent.mkdir(exist_ok=True)
    TARGET.write_text(draw(stages()))
    print(f"wrote {TARGET}")
