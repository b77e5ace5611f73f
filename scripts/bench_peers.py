"""Run other partitioners; the benchmarks start this script in a separate process for each run.

    python scripts/bench_peers.py write NET GRAPH
    python scripts/bench_peers.py partition PEER GRAPH PART --parts K --capacity C [--mesh WxH]
    python scripts/bench_peers.py place GRAPH|NET PART CORES --mesh WxH --seeds 1 2 3
    python scripts/bench_peers.py score NET PART --parts K --capacity C

PEER is kaminpar, metis, mtkahypar, kahip or scotch, optionally with :CONTEXT, e.g.
kaminpar:terapart or mtkahypar:quality. With --mesh the peer maps the graph onto the mesh itself, if
it can; with --architecture Scotch maps onto any machine. GRAPH is a ParHIP file; for mtkahypar it
is METIS text, or a hypergraph (hgr), which is partitioned by connectivity. The partition is written
to PART (npy), the measurements to the last line of stdout as one JSON object.
"""

from __future__ import annotations

import argparse
import importlib
import io
import json
import os
import resource
import sys
import time
from collections.abc import Callable
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import numpy as np
from bench_graphs import (
    group_graph,
    mesh_edges,
    packet_graph,
    read_parhip,
    write_metis,
    write_nets,
    write_parhip,
)
from numpy.typing import NDArray

from storage.store.network import NetworkFile

SHARES = (1.0, 0.7, 0.4, 0.15, 0.0)  # shares of the slack, tried in this order

Times = NDArray[np.float64]  # wall seconds, CPU seconds of all threads
Seconds = tuple[Times, Times]  # of loading, of partitioning
Part = NDArray[np.integer[Any]]
Partitioned = tuple[Part, Seconds]


def now() -> Times:
    return np.array([time.perf_counter(), time.process_time()])


def within(
    options: argparse.Namespace,
    sizes: NDArray[np.integer[Any]],
    mean: float,
    solve: Callable[[float], Any],
) -> Part:
    """Return the first partition within the hard cap, with decreasing slack; else the last one.

    mean : size of a part to which the slack given to `solve` is relative
    """
    for share in SHARES[: options.tries]:
        part = np.asarray(solve(max(0.0, share * (options.capacity / mean - 1))))
        if np.bincount(part, weights=sizes).max() <= options.capacity:
            break
    return part


def with_kaminpar(options: argparse.Namespace, context: str) -> Partitioned:
    """Run KaMinPar, which takes a cap per part."""
    kaminpar: Any = importlib.import_module("kaminpar")
    context = context or "largek"
    start = now()
    graph = kaminpar.load_graph(
        str(options.graph),
        kaminpar.GraphFileFormat.PARHIP,
        compress=context.startswith("terapart"),  # required by these contexts
    )
    loaded = now()
    kaminpar.reseed(options.seed)
    solver = kaminpar.KaMinPar(options.threads, kaminpar.context_by_name(context))
    part = solver.compute_partition(graph, [options.capacity] * options.parts)
    done = now()
    return np.asarray(part), (loaded - start, done - loaded)


def with_metis(options: argparse.Namespace, context: str) -> Partitioned:
    """Run METIS, which takes slack in thousandths, at least one, and may exceed it."""
    pymetis: Any = importlib.import_module("pymetis")
    start = now()
    graph = read_parhip(options.graph)
    adjacency = pymetis.CSRAdjacency(graph.indptr, graph.ids)
    sizes = {} if graph.equal else {"vweights": graph.sizes}
    loaded = now()

    def solve(slack: float) -> Any:
        settings = pymetis.Options(ufactor=max(1, int(slack * 1000)), seed=options.seed)
        return pymetis.part_graph(
            options.parts,
            adjacency,
            eweights=graph.weights,
            recursive=context == "recursive",
            options=settings,
            **sizes,
        )[1]

    part = within(options, graph.sizes, graph.sizes.sum() / options.parts, solve)
    done = now()
    return part, (loaded - start, done - loaded)


def with_mtkahypar(options: argparse.Namespace, context: str) -> Partitioned:
    """Run Mt-KaHyPar, which takes a cap per part; on a mesh only slack."""
    mtkahypar: Any = importlib.import_module("mtkahypar")
    name = context.upper() or ("LARGE_K" if options.parts > 1024 else "DEFAULT")
    start = now()
    machine = mtkahypar.initialize(options.threads)
    settings = machine.context_from_preset(getattr(mtkahypar.PresetType, name))
    settings.logging = False
    mtkahypar.set_seed(options.seed)
    nets = options.graph.suffix == ".hgr"
    form = mtkahypar.FileFormat.HMETIS if nets else mtkahypar.FileFormat.METIS
    load = machine.hypergraph_from_file if nets else machine.graph_from_file
    graph = load(str(options.graph), settings, form)
    sizes = np.array([graph.node_weight(v) for v in range(graph.num_nodes())])
    mean = -(-int(sizes.sum()) // options.parts)
    slack = options.capacity / mean - 1 + 1e-9
    loaded = now()
    if options.mesh:
        edges = mesh_edges(*options.mesh)
        ones = [1] * len(edges)
        mesh = machine.create_target_graph(settings, options.parts, len(edges), edges, ones)

        def solve(slack: float) -> Any:
            settings.set_mapping_parameters(options.parts, slack + 1e-9)
            return graph.map_onto_graph(mesh, settings).get_partition()

        part = within(options, sizes, mean, solve)
    else:
        goal = mtkahypar.Objective.KM1 if nets else mtkahypar.Objective.CUT
        settings.set_partitioning_parameters(options.parts, slack, goal)
        settings.set_individual_target_block_weights([options.capacity] * options.parts)
        part = np.asarray(graph.partition(settings).get_partition())
    done = now()
    return part, (loaded - start, done - loaded)


def with_kahip(options: argparse.Namespace, context: str) -> Partitioned:
    """Run KaHIP, which takes slack and may exceed it."""
    kahip: Any = importlib.import_module("kahip")
    mode = getattr(kahip, context.upper() or "ECO")
    start = now()
    graph = read_parhip(options.graph)
    arrays = (graph.sizes, graph.indptr, graph.weights, graph.ids)
    loaded = now()

    def solve(slack: float) -> Any:
        return kahip.kaffpa(*arrays, options.parts, slack + 1e-9, True, options.seed, mode)[1]

    part = within(options, graph.sizes, -(-int(graph.sizes.sum()) // options.parts), solve)
    done = now()
    return part, (loaded - start, done - loaded)


def with_scotch(options: argparse.Namespace, context: str) -> Partitioned:
    """Run Scotch, which takes slack and may exceed it."""
    os.environ |= {"SCOTCH_PTHREAD_NUMBER": str(options.threads), "SCOTCH_DETERMINISTIC": "1"}
    with redirect_stdout(io.StringIO()):
        pyscotch: Any = importlib.import_module("pyscotch")
    start = now()
    read = read_parhip(options.graph)
    graph = pyscotch.Graph()
    graph.build(read.indptr, read.ids, None if read.equal else read.sizes, read.weights)
    target = pyscotch.Architecture()
    if options.architecture:
        target.load(str(options.architecture))
    elif options.mesh:
        target.mesh2d(*options.mesh)
    else:
        target.complete(options.parts)
    loaded = now()

    def solve(slack: float) -> Any:
        pyscotch.random_seed(options.seed)
        pyscotch.random_reset()
        wanted = pyscotch.Strategy()
        flags = getattr(pyscotch.StrategyFlags, context.upper() or "DEFAULT")
        wanted.request_mapping(flags, slack)
        return graph.map(target, wanted)

    part = within(options, read.sizes, read.sizes.sum() / options.parts, solve)
    done = now()
    return part, (loaded - start, done - loaded)


PEERS: dict[str, Callable[[argparse.Namespace, str], Partitioned]] = {
    "kaminpar": with_kaminpar,
    "metis": with_metis,
    "mtkahypar": with_mtkahypar,
    "kahip": with_kahip,
    "scotch": with_scotch,
}


def partition(options: argparse.Namespace) -> dict[str, Any]:
    """Run one peer and save the part of each vertex."""
    peer, _, context = options.peer.partition(":")
    part, (load, work) = PEERS[peer](options, context)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    np.save(options.part, part.astype(np.int32))
    return {
        "load_seconds": load[0],
        "partition_seconds": work[0],
        "partition_cpu_seconds": work[1],
        "peak_rss_bytes": peak,
    }


def place(options: argparse.Namespace) -> dict[str, Any]:
    """Place the parts on cores with `mapper place`, once per seed; keep the cheapest placement.

    Edges are connections, or, if a network replaces the graph, packets from neurons to parts.
    """
    from mapper.cli.main import main as command_line

    part = np.load(options.part)
    width, height = options.mesh
    if options.graph.suffix == ".bin":
        start = now()
        groups = packet_graph(options.graph, part, width * height)
    else:
        graph = read_parhip(options.graph)
        start = now()
        groups = group_graph(graph, part, width * height)
    seconds = now() - start
    path = options.cores.with_suffix(".graph")
    write_metis(groups, path)
    found: list[tuple[float, list[int]]] = []
    for seed in options.seeds:
        output = io.StringIO()
        words = ["--preset", options.preset, "--threads", str(options.threads)]
        words += ["--chip", f"{width}x{height}", "--seed", str(seed), "--json", "-q"]
        with redirect_stdout(output):
            code = command_line(["place", str(path), *words])
        if code:
            raise SystemExit(f"mapper place: exit {code}")
        result = json.loads(output.getvalue())
        for stage in result["stages"]:
            seconds += (stage["seconds"], stage["cpu_seconds"])
        found.append((result["metrics"]["hops_total"], result["core"]))
    np.save(options.cores, np.array(min(found)[1], np.int32)[part])
    return {
        "place_seconds": seconds[0],
        "place_cpu_seconds": seconds[1],
        "hops_total": min(found)[0],
    }


def score(network: Path, path: Path, parts: int, capacity: int) -> dict[str, Any]:
    """Return cut and fill of a partition (npy) or mapping (npz), in one pass over the network."""
    loaded = np.load(path)
    part: NDArray[np.int32] = loaded["core"] if path.suffix == ".npz" else loaded
    cut = total = 0
    with NetworkFile(network) as net:
        if part.shape != (net.vertices,) or part.min() < 0 or part.max() >= parts:
            raise SystemExit(f"{path}: not a partition of {network} into {parts} parts")
        sizes = np.bincount(part, weights=net.vertex_sizes(), minlength=parts)
        for block in net.blocks():
            own = part[block.first : block.first + block.vertices]
            leaves = np.repeat(own, np.diff(block.indptr)) != part[block.ids]
            cut += int(block.weights[leaves].sum())
            total += int(block.weights.sum())
    return {
        "cut_fraction": cut / total if total else 0.0,
        "parts_used": int((sizes > 0).sum()),
        "largest_part": int(sizes.max()),
        "over_capacity": int((sizes > capacity).sum()),
    }


def mesh(text: str) -> tuple[int, int]:
    width, _, height = text.partition("x")
    return int(width), int(height)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    one = commands.add_parser("write", help="write ParHIP, METIS (graph) or hMETIS (hgr)")
    one.add_argument("network", type=Path)
    one.add_argument("graph", type=Path)
    two = commands.add_parser("partition", help="run one peer")
    two.add_argument("peer", help=f"{', '.join(PEERS)}, optionally with :CONTEXT")
    two.add_argument("graph", type=Path)
    two.add_argument("part", type=Path)
    two.add_argument("--seed", type=int, default=0)
    two.add_argument(
        "--tries", type=int, default=1, help="attempts with less slack while over capacity"
    )
    two.add_argument(
        "--architecture", type=Path, help="architecture file of Scotch, instead of a mesh"
    )
    three = commands.add_parser("place", help="place the parts of a partition on a mesh")
    three.add_argument("graph", type=Path)
    three.add_argument("part", type=Path)
    three.add_argument("cores", type=Path)
    three.add_argument("--seeds", type=int, nargs="+", default=[1])
    three.add_argument("--preset", default="default")
    four = commands.add_parser("score", help="cut and fill of a partition or a mapping")
    four.add_argument("network", type=Path)
    four.add_argument("part", type=Path)
    two.add_argument("--mesh", type=mesh, metavar="WxH")
    three.add_argument("--mesh", type=mesh, metavar="WxH", required=True)
    for command in (two, three):
        command.add_argument("--threads", type=int, default=1)
    for command in (two, four):
        command.add_argument("--parts", type=int, required=True)
        command.add_argument("--capacity", type=int, required=True)
    return parser.parse_args()


def main() -> None:
    options = arguments()
    if options.command == "write":
        forms = {".hgr": write_nets, ".parhip": write_parhip}
        result = forms[options.graph.suffix](options.network, options.graph)
    elif options.command == "partition":
        result = partition(options)
    elif options.command == "place":
        result = place(options)
    else:
        result = score(options.network, options.part, options.parts, options.capacity)
    sys.stdout.write("\n" + json.dumps(result) + "\n")  # the last line; peers print before it
    sys.stdout.flush()
    os._exit(0)  # some peers crash or hang when the interpreter shuts down


if __name__ == "__main__":
    main()
