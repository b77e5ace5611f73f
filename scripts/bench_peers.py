"""Other partitioners, each to be run in a process of its own; scripts/bench_scale.py does so.

    python scripts/bench_peers.py write NET GRAPH
    python scripts/bench_peers.py partition PEER GRAPH PART --parts K --capacity C
    python scripts/bench_peers.py score NET PART --parts K --capacity C

PEER is kaminpar, metis or mtkahypar, with :CONTEXT where another than the usual one is wanted,
as kaminpar:terapart or mtkahypar:QUALITY. GRAPH is a ParHIP file, or METIS text for mtkahypar,
which reads no other. The partition goes to PART (npy), what was measured to the last line of
stdout, as one JSON object.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import resource
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from storage.network import NetworkFile

NO_VERTEX_WEIGHTS = 2  # ParHIP: the bit set in the first of three header words
HEADER_BYTES = 24

Seconds = tuple[float, float]  # of loading, of partitioning
Partitioned = tuple[NDArray[np.integer[Any]], Seconds]


def write_parhip(network: Path, graph: Path) -> dict[str, Any]:
    """Write the undirected view of a network of equal neurons, in two passes over its blocks."""
    partial = graph.with_name(graph.name + ".partial")
    with NetworkFile(network) as net:
        if (net.vertex_sizes() != 1).any():
            raise SystemExit(f"{network}: has neurons of several sizes")
        ends = np.zeros(net.vertices + 1, np.uint64)
        for first, (indptr, _, _) in net.undirected_blocks():
            ends[first + 1 : first + indptr.size] = np.diff(indptr)
        np.cumsum(ends, out=ends)
        entries = int(ends[-1])
        start = HEADER_BYTES + ends.nbytes
        ends *= np.uint64(8)
        ends += np.uint64(start)
        with partial.open("wb") as targets, partial.open("r+b") as weights:
            np.array([NO_VERTEX_WEIGHTS, net.vertices, entries], np.uint64).tofile(targets)
            ends.tofile(targets)
            weights.seek(start + 8 * entries)
            for _, (_, ids, values) in net.undirected_blocks():
                ids.astype(np.uint64).tofile(targets)
                values.astype(np.uint64).tofile(weights)
    partial.replace(graph)
    return {"entries": entries}


def with_kaminpar(options: argparse.Namespace, context: str) -> Partitioned:
    kaminpar: Any = importlib.import_module("kaminpar")
    context = context or "largek"
    start = time.perf_counter()
    graph = kaminpar.load_graph(
        str(options.graph),
        kaminpar.GraphFileFormat.PARHIP,
        compress=context.startswith("terapart"),  # these contexts want it
    )
    loaded = time.perf_counter()
    kaminpar.reseed(options.seed)
    solver = kaminpar.KaMinPar(options.threads, kaminpar.context_by_name(context))
    part = solver.compute_partition(graph, [options.capacity] * options.parts)
    done = time.perf_counter()
    return np.asarray(part), (loaded - start, done - loaded)


def with_metis(options: argparse.Namespace, context: str) -> Partitioned:
    pymetis: Any = importlib.import_module("pymetis")
    start = time.perf_counter()
    with options.graph.open("rb") as file:
        _, n, entries = (int(word) for word in np.fromfile(file, np.uint64, 3))

        def numbers(count: int, offset: int = 0) -> NDArray[np.int32]:
            """The next numbers of the file; few at once in 64 bits."""
            out = np.empty(count, np.int32)
            for at in range(0, count, 1 << 20):
                words = np.fromfile(file, np.int64, min(1 << 20, count - at))
                out[at : at + words.size] = (words - offset) // (8 if offset else 1)
            return out

        xadj = numbers(n + 1, HEADER_BYTES + 8 * (n + 1))
        adjncy = numbers(entries)
        weights = numbers(entries)
    loaded = time.perf_counter()
    slack = options.capacity * options.parts / n - 1
    settings = pymetis.Options(ufactor=max(1, int(slack * 1000)), seed=options.seed)
    _, part = pymetis.part_graph(
        options.parts,
        pymetis.CSRAdjacency(xadj, adjncy),
        eweights=weights,
        recursive=context == "recursive",
        options=settings,
    )
    done = time.perf_counter()
    return np.asarray(part), (loaded - start, done - loaded)


def with_mtkahypar(options: argparse.Namespace, context: str) -> Partitioned:
    mtkahypar: Any = importlib.import_module("mtkahypar")
    name = context.upper() or ("LARGE_K" if options.parts > 1024 else "DEFAULT")
    start = time.perf_counter()
    machine = mtkahypar.initialize(options.threads)
    settings = machine.context_from_preset(getattr(mtkahypar.PresetType, name))
    settings.logging = False
    mtkahypar.set_seed(options.seed)
    graph = machine.graph_from_file(str(options.graph), settings, mtkahypar.FileFormat.METIS)
    loaded = time.perf_counter()
    slack = options.capacity * options.parts / graph.num_nodes() - 1
    settings.set_partitioning_parameters(options.parts, slack, mtkahypar.Objective.CUT)
    part = graph.partition(settings).get_partition()
    done = time.perf_counter()
    return np.asarray(part), (loaded - start, done - loaded)


PEERS: dict[str, Callable[[argparse.Namespace, str], Partitioned]] = {
    "kaminpar": with_kaminpar,
    "metis": with_metis,
    "mtkahypar": with_mtkahypar,
}


def partition(options: argparse.Namespace) -> dict[str, Any]:
    """Run one peer and keep the part of each vertex."""
    peer, _, context = options.peer.partition(":")
    part, (load, work) = PEERS[peer](options, context)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    np.save(options.part, part.astype(np.int32))
    return {"load_seconds": load, "partition_seconds": work, "peak_rss_bytes": peak}


def score(network: Path, path: Path, parts: int, capacity: int) -> dict[str, Any]:
    """Cut and fill of a partition (npy), or of a mapping (npz), in one pass over the network."""
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    one = commands.add_parser("write", help="write a ParHIP file")
    one.add_argument("network", type=Path)
    one.add_argument("graph", type=Path)
    two = commands.add_parser("partition", help="run one peer")
    two.add_argument("peer", help="kaminpar, metis or mtkahypar, and perhaps :CONTEXT")
    two.add_argument("graph", type=Path)
    two.add_argument("part", type=Path)
    two.add_argument("--threads", type=int, default=1)
    two.add_argument("--seed", type=int, default=0)
    three = commands.add_parser("score", help="cut and fill of a partition or a mapping")
    three.add_argument("network", type=Path)
    three.add_argument("part", type=Path)
    for command in (two, three):
        command.add_argument("--parts", type=int, required=True)
        command.add_argument("--capacity", type=int, required=True)
    options = parser.parse_args()
    if options.command == "write":
        result = write_parhip(options.network, options.graph)
    elif options.command == "partition":
        result = partition(options)
    else:
        result = score(options.network, options.part, options.parts, options.capacity)
    sys.stdout.write("\n" + json.dumps(result) + "\n")  # the last line; peers print before it
    sys.stdout.flush()
    os._exit(0)  # some peers crash or hang when the interpreter takes them apart


if __name__ == "__main__":
    main()
