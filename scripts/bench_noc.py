"""Flit-level simulator: latency over load, saturation, speed, and checks of ten million flits.

    python scripts/bench_noc.py [--tables curves saturation speed flits] [--svg DIR] [--markdown]

Tables: curves (mean latency on 8x8, depth 4 and 8, for uniform, transpose and hotspot traffic;
--svg also writes them as SVG), saturation (highest load that is carried, and throughput at an
offered load of 1), speed (simulated cycles per second of CPU time, 4x4 to 64x64), flits (checks
that no flit is lost, duplicated or reordered in --flits flits at loads from light to far above
saturation, and that no mesh deadlocks in --cycles-saturated cycles at a load of 1).

The tables show reference values: BookSim 2 (1 VC, buffers of 8: accepts at most 0.368), a
valid/ready mesh of one cycle per hop (0.357 with depth 4, 0.386 with depth 8), and for speed
BookSim 2 with 2 VCs, Amaranth's simulator and Verilator on the mesh as hardware.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from bench_common import machine, say
from bench_tables import Table, show
from noc_plot import Curve, Panel, write_plots

from chipsim.noc.deliver import deliver
from chipsim.noc.load import measure_load
from chipsim.noc.mesh import Mesh, MeshRun, new_tally
from chipsim.noc.moves import LOCAL
from chipsim.noc.patterns import PATTERNS, uniform
from chipsim.noc.saturation import Saturation, find_saturation

SHOWN = ("uniform", "transpose", "hotspot")
DEPTHS = (4, 8)
SIDE = 8
REFERENCE = {("uniform", 4): "0.357 (valid/ready)", ("uniform", 8): "0.386; BookSim 2: 0.368"}
SPEED = {  # other simulators, cycles per second by (side, load)
    (4, 0.1): "Amaranth 550, Verilator 280,000",
    (8, 0.1): "BookSim 2: 9,400; Amaranth 77, Verilator 41,000",
    (8, 0.01): "BookSim 2: 80,000",
    (64, 0.01): "BookSim 2: 59",
}
MOST_LOAD = 0.4


def saturations(options: argparse.Namespace) -> dict[tuple[str, int], Saturation]:
    found = {}
    for depth in DEPTHS:
        for name in SHOWN:
            say(f"saturation: {name}, depth {depth}")
            mesh = Mesh(SIDE, SIDE, depth)
            demand = PATTERNS[name](mesh, 1.0)
            found[name, depth] = find_saturation(mesh, demand, cycles=options.cycles)
    return found


def curves(options: argparse.Namespace) -> list[Table]:
    known = saturations(options)
    tables, panels = [], []
    loads = [round(0.02 * step, 2) for step in range(1, 21)]
    for depth in DEPTHS:
        mesh = Mesh(SIDE, SIDE, depth)
        lines = []
        cells: dict[float, list[str]] = {load: [f"{load:.2f}"] for load in loads}
        for name in SHOWN:
            say(f"curve: {name}, depth {depth}")
            scale = known[name, depth].scale
            assert scale is not None
            points = []
            # The curve bends close to saturation: more points there.
            near = [scale * part for part in (0.9, 0.95, 0.98, 1.0)]
            for load in sorted({*loads, *near}):
                if load > scale:
                    break
                run = measure_load(mesh, PATTERNS[name](mesh, load), cycles=options.cycles)
                assert run.latency_mean is not None
                points.append((load, run.latency_mean))
                if load in cells:
                    cells[load].append(f"{run.latency_mean:.2f}")
            for load in loads:
                if load > scale:
                    cells[load].append("-")
            lines.append(Curve(name, points, scale))
        title = f"{SIDE}x{SIDE}, depth {depth}"
        panels.append(Panel(title, lines))
        rows = [row for row in cells.values() if set(row[1:]) != {"-"}]
        tables.append(Table("curves", f"mean latency, {title}", ["load", *SHOWN], rows))
    if options.svg:
        write_plots(panels, MOST_LOAD, options.svg, "noc-latency")
    return tables


def saturation(options: argparse.Namespace) -> list[Table]:
    rows = []
    for (name, depth), found in saturations(options).items():
        mesh = Mesh(SIDE, SIDE, depth)
        flooded = measure_load(mesh, PATTERNS[name](mesh, 1.0), cycles=options.cycles, drain=0)
        rows.append(
            [
                name,
                str(depth),
                f"{found.bound:.4f}",
                f"{found.scale:.4f}",
                f"{flooded.accepted:.4f}",
                REFERENCE.get((name, depth), "-"),
            ]
        )
    heads = ["pattern", "depth", "bound", "saturation", "accepted of 1", "reference, accepted"]
    return [Table("saturation", f"saturation, {SIDE}x{SIDE}, flits / node / cycle", heads, rows)]


def speed(options: argparse.Namespace) -> list[Table]:
    rows = []
    for side in (4, 8, 16, 32, 64):
        for load in (0.01, 0.1):
            if side * load > 3.2:  # above saturation, which is at most 4 / side
                continue
            mesh = Mesh(side, side)
            demand = uniform(mesh, load)
            measure_load(mesh, demand, cycles=10)  # compile and load the kernels
            cycles = max(500, int(2e7 / (side**3 * load * 100)))
            best = 0.0
            for _ in range(options.repeat):
                start = time.process_time()
                run = measure_load(mesh, demand, cycles=cycles, warmup=0)
                best = max(best, (cycles + run.drained) / (time.process_time() - start))
            rows.append([f"{side}x{side}", str(load), f"{best:,.0f}", SPEED.get((side, load), "-")])
            say(f"speed: {rows[-1]}")
    heads = ["mesh", "load", "cycles / s", "others"]
    return [Table("speed", "speed, one core, uniform, depth 4", heads, rows)]


def flits(options: argparse.Namespace) -> list[Table]:
    """Check flits and meshes; raise AssertionError for lost, duplicated or reordered flits or
    deadlock.
    """
    rows = []
    loads = (0.05, 0.2, 0.35, 0.5, 1.0)
    rng = np.random.default_rng(1)
    for depth in (1, 4):
        mesh = Mesh(SIDE, SIDE, depth)
        for load in loads:
            left = options.flits // (2 * len(loads))
            sent = 0
            while left > sent:
                count = min(left - sent, 500_000)
                created = np.sort(rng.integers(0, int(count / (mesh.nodes * load)) + 1, count))
                source, target = rng.integers(0, mesh.nodes, (2, count))
                found = deliver(mesh, created, source, target)
                assert (found.delivered > created).all(), "lost"
                arrivals = found.delivered * mesh.nodes + target
                assert len(np.unique(arrivals)) == count, "two flits at one node in one cycle"
                order = np.lexsort((created, target, source))
                flow = source[order] * mesh.nodes + target[order]
                steps = np.diff(found.delivered[order])
                assert (steps[flow[1:] == flow[:-1]] > 0).all(), "reordered"
                hops = abs(source % SIDE - target % SIDE) + abs(source // SIDE - target // SIDE)
                assert found.links.sum() == hops.sum(), "duplicated"
                sent += count
            rows.append([f"{SIDE}x{SIDE}, depth {depth}", str(load), f"{sent:,}", "none"])
            say(f"flits: {rows[-1]}")
    for width, height, depth in ((2, 2, 1), (3, 3, 1), (4, 4, 2), (1, 6, 1)):
        mesh = Mesh(width, height, depth)
        end = options.cycles_saturated
        run = MeshRun(mesh, uniform(mesh, 1.0).feed(2), new_tally(mesh), (0, end))
        before = np.zeros(mesh.nodes)
        for part in range(1, 101):
            run.until(end * part // 100, end)
            received = run.tally.passed.reshape(-1, 5)[:, LOCAL].copy()
            assert (received > before).all(), "deadlock: a node receives no more flits"
            before = received
        rows.append([f"{width}x{height}, depth {depth}", "1.0", f"{before.sum():,.0f}", "none"])
        say(f"flits: {rows[-1]}")
    return [
        Table("flits", "faults", ["mesh", "load", "flits", "lost, doubled, reordered, stuck"], rows)
    ]


TABLES: dict[str, Callable[[argparse.Namespace], list[Table]]] = {
    "curves": curves,
    "saturation": saturation,
    "speed": speed,
    "flits": flits,
}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add(
        "--tables",
        nargs="+",
        choices=TABLES,
        default=list(TABLES),
        metavar="T",
        help="tables to print",
    )
    add("--cycles", type=int, default=20_000, metavar="N", help="measured cycles per load")
    add("--flits", type=int, default=10**7, metavar="N", help="flits: number of flits")
    add("--cycles-saturated", type=int, default=10**6, metavar="N", help="flits: cycles per mesh")
    add("--repeat", type=int, default=3, metavar="N", help="speed: best of N runs")
    add("--svg", type=Path, metavar="DIR", help="curves: write noc-latency-{light,dark}.svg there")
    add("--markdown", action="store_true", help="print the tables as Markdown")
    options = parser.parse_args()
    if min(options.cycles, options.flits, options.cycles_saturated, options.repeat) < 1:
        parser.error("--cycles, --flits, --cycles-saturated and --repeat must be 1 or more")
    about = machine()
    sys.stdout.write(f"{about['cpu']}, {about['cores']} cores; Python {about['python']}\n")
    for name in options.tables:
        for table in TABLES[name](options):
            show(table, options.markdown)
            sys.stdout.flush()


if __name__ == "__main__":
    main()
