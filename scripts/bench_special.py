"""Tables of placement alone, multicast connectivity, packets to cores, and chips with limits that
may be exceeded.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from bench_baselines import hilbert_forced, row_major
from bench_common import mapper, run
from bench_mapping import objective, of_table, whole_mappings
from bench_runs import Bench, Case, Method, hard_cap
from bench_tables import Matrix, Table

from storage.store.network import NetworkFile

QAP = ("nug30", "sko42", "sko49", "sko64", "sko81", "wil50", "tho40")
LAYERED = "64x64x8,32x32x16,32x32x16,16x16x16,1x1x256,1x1x10"
LAYERED_PACKETS = "32x32x8,16x16x16,8x8x32,1x1x100"
SHEET = ("--side", "316", "--fanout", "50", "--sigma", "6", "--long-range", "0.1", "--shuffle")
LIMITED_CHIPS = ("loihi64", "truenorth")
DOES_NOT_FIT = 3


def qap(bench: Bench) -> list[Table]:
    """QAPLIB instances on grids, relative to the best known values."""
    methods = bench.presets()
    known: dict[str, float] = {}
    for name in QAP:
        try:
            instance = bench.data(f"placement/{name}.dat")
            solution = bench.data(f"placement/{name}.sln")
        except FileNotFoundError as error:
            bench.note(str(error))
            continue
        known[name] = int(solution.read_text().split()[1]) / 2  # sums count both directions
        width, height = grid(instance)
        for seed in bench.options.seeds:
            for method in methods:
                act = partial(bench.placed, instance, width, height, method.context, seed)
                bench.once("qap", name, method, seed, act)
    runs = of_table(bench, "qap")
    title = "QAPLIB grids over best known"
    matrix = Matrix("qap", title, "hops_total", methods, list(known), runs, clock=bench.clock)
    matrix.mean = lambda ratios: float(np.mean(ratios))
    return matrix.tables(known.get, "best known")


def grid(instance: Path) -> tuple[int, int]:
    """Return width and height of the grid whose distances are the first matrix of an instance."""
    words = instance.read_text().split()
    n = int(words[0])
    around = max(map(int, words[1 : 1 + n])) + 2  # distance from a corner: width - 1 + height - 1
    root = round((around**2 - 4 * n) ** 0.5)
    return (around + root) // 2, (around - root) // 2


def groups(bench: Bench) -> list[Table]:
    """Shuffled layers of groups, relative to simple placements of the layers in order."""
    methods = bench.presets()
    bases: dict[str, float] = {}
    simple: list[list[str]] = []
    for kind in ("group-dnn", "group-cnn"):
        for size in bench.options.sizes:
            if kind == "group-dnn" and size > 256:
                bench.note(f"{kind} {size} has {size**3:,} connections: skipped")
                continue
            case = f"{kind} {size}"
            make = ["generate", kind, "--size", str(size), "--seed", "1"]
            natural = bench.network(f"{kind}-{size}", *make)
            shuffled = bench.network(f"{kind}-{size}-shuffled", *make, "--shuffle")
            x, y = row_major(size)
            rows = placed_score(bench, natural, x, y, size)
            if kind == "group-dnn":
                x, y, seconds = hilbert_forced(natural, size)
                forced = placed_score(bench, natural, x, y, size)
                simple.append([case, f"{rows:,.0f}", f"{forced:,.0f}", f"{seconds:.2f}"])
                bases[case] = forced
            else:
                simple.append([case, f"{rows:,.0f}", "-", "-"])
                bases[case] = rows
            for seed in bench.options.seeds:
                for method in methods:
                    act = partial(bench.placed, shuffled, size, size, method.context, seed)
                    bench.once("groups", case, method, seed, act)
    heads = ["case", "row-major", "Hilbert + FD", "seconds"]
    title = (
        "shuffled group graphs; ratios of dnn to Hilbert + FD, cnn to row-major (unshuffled ids)"
    )
    runs = of_table(bench, "groups")
    matrix = Matrix("groups", title, "hops_total", methods, list(bases), runs, clock=bench.clock)
    base = Table("groups-base", "simple placements of unshuffled ids", heads, simple)
    return [base, *matrix.tables(bases.get, "base")]


def placed_score(bench: Bench, network: Path, x: np.ndarray, y: np.ndarray, size: int) -> float:
    """Return the hops of a placement computed by this script."""
    mapping = bench.write_mapping(y * size + x, size, size)
    return float(bench.scored(network, mapping, ["--chip", f"{size}x{size}"])["hops_total"])


def multicast(bench: Bench) -> list[Table]:
    """Multicast connectivity relative to hypergraph partitioners."""
    peers = bench.peers(("mtkahypar",))
    make = ["generate", "layered", "--layers", LAYERED, "--kernel", "3", "--seed", "1"]
    inputs: list[tuple[str, Path, Path | None]] = [
        ("layered", bench.network("layered", *make), None)
    ]
    try:
        nets = bench.data("graphs/ibm01.hgr")
        process = run(mapper("import", str(nets), str(bench.inputs / "ibm01.bin"), "-q"))
        if process.failed:
            bench.note("ibm01.hgr skipped: this version cannot import hypergraphs")
        else:
            inputs.append(("ibm01", bench.inputs / "ibm01.bin", nets))
    except FileNotFoundError as error:
        bench.note(str(error))
    cases = []
    methods = [*bench.presets(), *peers]
    extra = objective(bench, "multicast")
    for name, network, nets_file in inputs:
        with NetworkFile(network) as net:
            total = int(net.vertex_sizes().sum())
        case = Case(name, network, 8, 8, hard_cap(total, 64))
        cases.append(name)
        whole_mappings(bench, "multicast", [case], bench.presets(), False, extra)
        graph = nets_file or bench.graph(network, ".hgr")
        for seed in bench.options.seeds:
            for peer in peers:
                act = partial(bench.by_peer, case, peer, seed, False, graph)
                bench.once("multicast", name, peer, seed, act)
    runs = of_table(bench, "multicast")
    title = "multicast connectivity on 8x8 cores"
    matrix = Matrix("multicast", title, "connectivity", methods, cases, runs, clock=bench.clock)
    base = Method("mtkahypar", "default")
    return matrix.tables(lambda case: matrix.value(case, base), "Mt-KaHyPar KM1")


PACKETS = {  # (arguments of `mapper generate`, or none), cores per side, neurons per core
    "layered": (("layered", "--layers", LAYERED_PACKETS, "--kernel", "3"), 8, 232),
    "ibm01": ((), 8, 208),
    "microcircuit 0.1": (("microcircuit", "--scale", "0.1"), 8, 128),
    "cortex 316": (("cortex", *SHEET), 20, 256),
}


def core(bench: Bench) -> list[Table]:
    """Hops with one packet per neuron and destination core: three objectives, and Mt-KaHyPar.

    Mt-KaHyPar partitions the nets into as many parts as cores, or as few as fit; annealing
    places the
    parts by these packets.
    """
    goals = ("hops", "unicast", "multicast")
    ours = [replace(m, objective=goal) for m in bench.presets() for goal in goals]
    methods = [*ours, *bench.peers(("mtkahypar",))]
    cases = []
    for name, (words, side, capacity) in PACKETS.items():
        if bench.options.graphs and name not in bench.options.graphs:
            continue
        try:
            network = (
                bench.network(name.replace(" ", "-"), "generate", *words, "--seed", "1")
                if words
                else bench.imported(f"graphs/{name}.hgr")
            )
        except FileNotFoundError as error:
            bench.note(str(error))
            continue
        file = bench.inputs / f"core-{side}.toml"
        file.write_text(f'width = {side}\nheight = {side}\nneurons = 256\ndelivery = "core"\n')
        case = Case(name, network, side, side, capacity, file)
        cases.append(name)
        whole_mappings(bench, "core", [case], ours, False)
        for seed in bench.options.seeds:
            for peer in methods[len(ours) :]:
                act = partial(_parts_of_nets, bench, case, peer, seed)
                bench.once("core", name, peer, seed, act)
    runs = of_table(bench, "core")
    title = "hops of packets to cores"
    matrix = Matrix("core", title, "packet_hops", methods, cases, runs, clock=bench.clock)
    base = Method("mtkahypar", "default")
    return matrix.tables(lambda case: matrix.value(case, base), "Mt-KaHyPar KM1")


def _parts_of_nets(bench: Bench, case: Case, peer: Method, seed: int) -> dict[str, Any]:
    """Return the better of two partitions, both placed."""
    with NetworkFile(case.network) as net:
        fewest = -(-int(net.vertex_sizes().sum()) // case.capacity)
    graph = bench.graph(case.network, ".hgr")
    found = [
        bench.by_peer(replace(case, parts=parts), peer, seed, True, graph)
        for parts in (case.cores, fewest)
    ]
    good = [one for one in found if one.get("valid")]
    return min(good, key=lambda one: float(one["packet_hops"])) if good else found[0]


def limits(bench: Bench) -> list[Table]:
    """A cortical microcircuit on chips whose limits it may exceed."""
    network = bench.network(
        "microcircuit-0.2", "generate", "microcircuit", "--scale", "0.2", "--seed", "1"
    )
    rows = []
    for chip in LIMITED_CHIPS:
        for method in bench.presets():
            for seed in bench.options.seeds:
                words = ["--chip", chip]
                act = partial(bench.run_mapper, network, words, method.context, seed)
                bench.once("limits", chip, method, seed, act)
    for found in of_table(bench, "limits"):
        names = (str(found[name]) for name in ("case", "method", "seed"))
        rows.append([*names, *limit_state(found)])
    title = "microcircuit at scale 0.2"
    return [Table("limits", title, ["chip", "preset", "seed", "state", "hops per spike"], rows)]


def limit_state(found: dict[str, object]) -> Sequence[str]:
    why = str(found.get("failed", ""))
    if why.startswith(f"exit {DOES_NOT_FIT}:"):
        return f"refused: does not fit: {why.partition(': ')[2]}", "-"
    if why:
        return f"failed: {why}", "-"
    return "valid" if found["valid"] else "NOT valid", f"{found['hops_mean']:.3f}"
