"""Tables of complete mappings: hops on meshes, cortical sheets, cuts, capacities without slack."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from bench_graphs import read_parhip, write_metis
from bench_runs import STEINER_MOST, Bench, Case, Method, hard_cap, takes
from bench_tables import Matrix, Table

from storage.store.network import NetworkFile

HOPS = ("4elt", "fe_sphere", "memplus", "wing", "vibrobox", "finan512")
MESHES = (8, 16)
WALSHAW = (
    "4elt", "wing", "vibrobox", "memplus", "fe_sphere",
    "finan512", "fe_pwt", "fe_body", "add32", "t60k",
)  # fmt: skip
CUT_CHIPS = {8: (4, 2), 32: (8, 4), 64: (8, 8)}
CORTEX = {316: (6, 20, 256), 1024: (12, 64, 264)}  # sigma, cores per side, capacity
TIGHT_SLACK = 0.0007


def whole_mappings(
    bench: Bench,
    table: str,
    cases: Sequence[Case],
    methods: Sequence[Method],
    place: bool,
    extra: Sequence[str] = (),
    suits: Callable[[Case, Method], bool] = lambda case, method: True,
) -> None:
    """Run all methods on all cases; methods alternate for each case and seed."""
    for case in cases:
        for seed in bench.options.seeds:
            for method in methods:
                if not suits(case, method):
                    continue
                if method.ours:
                    act = partial(bench.mapped, case, method, seed, extra)
                else:
                    act = partial(bench.by_peer, case, method, seed, place)
                bench.once(table, case.name, method, seed, act)


def real_cases(bench: Bench, names: Sequence[str], chips: Sequence[tuple[int, int]]) -> list[Case]:
    """Return real graphs on several meshes, with the hard cap as capacity."""
    cases = []
    for name in names:
        if bench.options.graphs and name not in bench.options.graphs:
            continue
        try:
            network = bench.imported(f"graphs/{name}.graph")
        except FileNotFoundError as error:
            bench.note(str(error))
            continue
        with NetworkFile(network) as net:
            total = int(net.vertex_sizes().sum())
        for width, height in chips:
            cap = hard_cap(total, width * height)
            cases.append(Case(f"{name} {width}x{height}", network, width, height, cap))
    return cases


def of_table(bench: Bench, name: str) -> list[dict[str, Any]]:
    return [run for run in bench.runs if run["table"] == name]


def hops(bench: Bench) -> list[Table]:
    """Hops of graphs on meshes, compared with peers that partition and peers that map."""
    direct = [
        Method(m.tool, m.context, direct=True)
        for m in bench.peers(("scotch", "mtkahypar"))
        if m.peer != "mtkahypar:quality"  # takes twice the time of default without better results
    ]
    methods = [*bench.presets(), *bench.peers(), *direct]

    def suits(case: Case, method: Method) -> bool:
        if method.direct and method.tool == "mtkahypar" and case.cores > STEINER_MOST:
            bench.note(f"Mt-KaHyPar maps onto at most {STEINER_MOST} cores here: too slow on more")
            return False
        return True

    cases = real_cases(bench, HOPS, [(side, side) for side in MESHES])
    whole_mappings(bench, "hops", cases, methods, True, suits=suits)
    title = "hops on a mesh; presets: mean of the seeds, peers: best of the seeds"
    names = [case.name for case in cases]
    matrix = Matrix(
        "hops", title, "hops_total", methods, names, of_table(bench, "hops"), True, bench.clock
    )

    def best(case: str) -> float | None:
        found = matrix.best_peer(case)
        return found[0] if found else None

    return matrix.tables(best, "best peer", show_best=True)


def cortex(bench: Bench) -> list[Table]:
    """Hops per spike of shuffled sheets, compared with KaMinPar and placed groups."""
    cases = []
    for side in bench.options.sides:
        sigma, width, capacity = CORTEX.get(side, (6, -(-side // 16), 264))
        recipe = ["--side", str(side), "--fanout", "50", "--sigma", str(sigma)]
        recipe += ["--long-range", "0.1", "--seed", "1", "--shuffle"]
        network = bench.network(f"cortex-{side}-shuffled", "generate", "cortex", *recipe)
        cases.append(Case(f"cortex {side}", network, width, width, capacity))
    largek = [m for m in bench.peers(("kaminpar",)) if m.context in ("", "largek")]
    methods = [*bench.presets(), *largek]
    whole_mappings(bench, "cortex", cases, methods, True)
    title = "hops per spike of cortical sheets"
    names = [case.name for case in cases]
    matrix = Matrix(
        "cortex", title, "hops_mean", methods, names, of_table(bench, "cortex"), True, bench.clock
    )

    def best(case: str) -> float | None:
        found = matrix.best_peer(case)
        return found[0] if found else None

    return matrix.tables(best, "best peer")


def cut(bench: Bench) -> list[Table]:
    """Cut of the Walshaw graphs relative to METIS k-way."""
    methods = [*bench.presets(), *bench.peers()]
    cases = real_cases(bench, WALSHAW, [CUT_CHIPS[k] for k in bench.options.parts])
    extra = objective(bench, "cut")
    whole_mappings(bench, "cut", cases, methods, False, extra)
    metis = Method("metis", "")
    names = [case.name for case in cases]
    title = "cut" + (" (--objective cut)" if extra else "")
    matrix = Matrix(
        "cut", title, "cut_weight", methods, names, of_table(bench, "cut"), clock=bench.clock
    )
    return matrix.tables(lambda case: matrix.value(case, metis), "METIS k-way")


def objective(bench: Bench, name: str) -> list[str]:
    """Return the arguments for an objective, if this version supports it."""
    if takes("run", "net.bin", "--chip", "8x8", "--objective", name):
        return ["--objective", name]
    bench.note(f"mapper run does not support --objective {name}: presets ran without it")
    return []


def tight(bench: Bench) -> list[Table]:
    """Validity and cut with vertices of many sizes and almost no slack."""
    try:
        network = sized(bench, bench.imported("graphs/memplus.graph"))
    except FileNotFoundError as error:
        bench.note(str(error))
        return []
    with NetworkFile(network) as net:
        total = int(net.vertex_sizes().sum())
    capacity = int((1 + TIGHT_SLACK) * total / 64)
    case = Case("memplus, sizes 1 to 20", network, 8, 8, capacity)
    methods = [*bench.presets(), *bench.peers()]
    whole_mappings(bench, "tight", [case], methods, False, objective(bench, "cut"))
    rows = []
    for run in of_table(bench, "tight"):
        over = run.get("cores_over", "-")
        state = "failed" if "failed" in run else "valid" if run["valid"] else "NOT valid"
        cells = [run["method"], run["seed"], state, over, run.get("cut_weight", "-")]
        rows.append([*map(str, cells), f"{run.get('seconds', 0):.2f}"])
    title = f"{case.name}: 64 cores of {capacity}, {total} to hold (slack {TIGHT_SLACK:.2%})"
    return [Table("tight", title, ["method", "seed", "state", "over", "cut", "seconds"], rows)]


def sized(bench: Bench, network: Path) -> Path:
    """Return the network with vertices of sizes 1 to 20."""
    path = bench.inputs / f"{network.stem}-sizes.graph"
    if not path.exists():
        graph = read_parhip(bench.graph(network, ".parhip"))
        rng = np.random.default_rng(1)
        graph.sizes[:] = rng.integers(1, 21, graph.vertices)
        write_metis(graph, path)
    return bench.network(path.stem, "import", str(path))
