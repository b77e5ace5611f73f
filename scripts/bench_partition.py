"""Cuts of `mapper partition` compared with METIS, KaHIP and KaMinPar on the same graphs.

    python scripts/bench_partition.py [--graphs 4elt wing] [--parts 2 8 32 64] [--json FILE]

Every run is a separate process; all cuts are measured here, on the imported graph. A partition with
a part above floor((1 + imbalance) * ceil(weight / parts)) does not count and is shown as `N over`:
peers without a hard limit are called again with less slack until they keep it. Seconds exclude
start, compilation, reading of the input and scoring. A cell is the cut relative to the best of
the row; the last rows are geometric means over the graphs.

Peers are names of `scripts/bench_peers.py`, optionally with :CONTEXT; they come with
`pip install .[bench]`, and a missing peer gives a note. --known takes results of peers from the
--json file of an earlier call.
"""

from __future__ import annotations

import argparse
import json
import math
import tempfile
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from bench_common import PEER_MODULES, last_object, machine, mapper, need, run, say, worker
from bench_runs import default_data

from mapper.concurrency.threads import ThreadTeam
from mapper.partitions.part_file import read_parts
from mapper.partitions.request import capacity_of
from mapper.partitions.score import score_partition
from storage.store.network import NetworkFile

GRAPHS = (
    "4elt", "wing", "vibrobox", "memplus", "fe_sphere", "finan512", "fe_pwt", "add32", "t60k",
    "fe_body",
)  # fmt: skip
PARTS = (2, 8, 32, 64)
PEERS = ("metis", "kahip:eco", "kaminpar:default")
PRESETS = ("default",)
TRIES = 5  # calls of a peer with less and less slack
UNTIMED = ("read", "score")


class Bench:
    """Runs of one graph in a folder."""

    def __init__(self, options: argparse.Namespace, graph: Path, folder: Path) -> None:
        self.options, self.folder = options, folder
        self.network, self.peer_graph = folder / "net.bin", folder / "graph.parhip"
        need(mapper("import", str(graph), str(self.network), "-q"))
        need(worker("write", str(self.network), str(self.peer_graph)))
        with NetworkFile(self.network) as network:
            self.weight, self.vertices = network.meta.total_size, network.vertices

    def mapper(self, preset: str, parts: int) -> dict[str, Any]:
        """Run a preset of mapper."""
        path = self.folder / "mapper.parts"
        words = ["--parts", str(parts), "--imbalance", str(self.options.imbalance), "--force"]
        words += ["--preset", preset, "--seed", str(self.options.seed), "--json", "-q"]
        words += ["--threads", str(self.options.threads), "-o", str(path)]
        process = run(mapper("partition", str(self.network), *words), self.options.limit)
        if process.failed:
            return {"failed": process.failed}
        stages = last_object(process.output)["stages"]
        seconds = sum(one["seconds"] for one in stages if one["name"] not in UNTIMED)
        part = read_parts(path, self.vertices, parts)
        return self._measured(part, parts) | {"seconds": seconds, "memory": process.rss_bytes}

    def peer(self, name: str, parts: int) -> dict[str, Any]:
        """Run a peer."""
        path = self.folder / "peer.npy"
        capacity = capacity_of(self.weight, parts, self.options.imbalance)
        words = ["--parts", str(parts), "--capacity", str(capacity), "--tries", str(TRIES)]
        words += ["--seed", str(self.options.seed), "--threads", str(self.options.threads)]
        command = worker("partition", name, str(self.peer_graph), str(path), *words)
        process = run(command, self.options.limit)
        if process.failed:
            return {"failed": process.failed}
        seconds = last_object(process.output)["partition_seconds"]
        part = np.load(path).astype(np.int32)
        return self._measured(part, parts) | {"seconds": seconds, "memory": process.rss_bytes}

    def _measured(self, part: np.ndarray[Any, Any], parts: int) -> dict[str, Any]:
        with NetworkFile(self.network) as network, ThreadTeam(1) as team:
            score = score_partition(network, part, parts, team)
        capacity = capacity_of(self.weight, parts, self.options.imbalance)
        over = int((score.weights > capacity).sum())
        return {"cut": score.cut, "imbalance": score.imbalance, "over": over}


def runs(options: argparse.Namespace, known: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the results of all runs of a graph and a number of parts."""
    peers = [name for name in options.peers if _installed(name)]
    for name in options.graphs:
        with tempfile.TemporaryDirectory() as folder:
            bench = Bench(options, options.data / "graphs" / f"{name}.graph", Path(folder))
            for parts in options.parts:
                found: dict[str, Any] = {}
                for preset in options.presets:
                    found[f"mapper {preset}"] = bench.mapper(preset, parts)
                for peer in peers:
                    key = f"{name} {parts}"
                    earlier = known.get(key, {}).get(peer)
                    found[peer] = earlier or bench.peer(peer, parts)
                say(f"{name} {parts}: " + ", ".join(f"{k} {_cut(v)}" for k, v in found.items()))
                yield {"graph": name, "parts": parts, "runs": found}


def _installed(name: str) -> bool:
    module = PEER_MODULES[name.partition(":")[0]]
    if find_spec(module) is None:
        say(f"note: {name} is missing: pip install .[bench]")
        return False
    return True


def _cut(found: dict[str, Any]) -> str:
    if "failed" in found:
        return str(found["failed"])
    return f"{found['over']} over" if found["over"] else f"{found['cut']:,.0f}"


def _valid(found: dict[str, Any]) -> bool:
    return "failed" not in found and not found["over"]


def table(rows: Sequence[dict[str, Any]]) -> str:
    """Return the table in Markdown: cut relative to the best of the row, and seconds."""
    names = list(rows[0]["runs"])
    lines = [f"| graph | parts | best cut | {' | '.join(names)} |", "| --- | ---: | ---: |" +
             " ---: |" * len(names)]  # fmt: skip
    means: dict[int, dict[str, list[float]]] = {}
    for row in rows:
        best = min((one["cut"] for one in row["runs"].values() if _valid(one)), default=0)
        cells = []
        for name in names:
            one = row["runs"][name]
            if not _valid(one) or not best:
                cells.append(_cut(one))
                continue
            means.setdefault(row["parts"], {}).setdefault(name, []).append(one["cut"] / best)
            means.setdefault(0, {}).setdefault(name, []).append(one["cut"] / best)
            cells.append(f"{one['cut'] / best:.3f} ({one['seconds']:.1f} s)")
        lines.append(f"| {row['graph']} | {row['parts']} | {best:,.0f} | {' | '.join(cells)} |")
    for parts, found in sorted(means.items(), key=lambda one: one[0] or math.inf):
        ratios = (found.get(name, [math.nan]) for name in names)
        cells = [f"{math.exp(np.log(some).mean()):.3f}" for some in ratios]
        lines.append(f"| mean | {parts or 'all'} | | {' | '.join(cells)} |")
    return "\n".join(lines)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--data", type=Path, default=default_data(), help="folder with graphs/*.graph")
    add("--graphs", nargs="+", default=list(GRAPHS), metavar="G")
    add("--parts", nargs="+", type=int, default=list(PARTS), metavar="K")
    add("--imbalance", type=float, default=0.03)
    add("--presets", nargs="+", default=list(PRESETS), metavar="P")
    add("--peers", nargs="*", default=list(PEERS), metavar="PEER")
    add("--seed", type=int, default=1)
    add("--threads", type=int, default=2)
    add("--limit", type=float, default=600.0, help="seconds per run")
    add("--known", type=Path, metavar="FILE", help="results of an earlier call, for peers")
    add("--json", type=Path, metavar="FILE", help="write all results")
    return parser.parse_args()


def main() -> None:
    options = arguments()
    known = {}
    if options.known:
        rows = json.loads(options.known.read_text())["rows"]
        known = {f"{row['graph']} {row['parts']}": row["runs"] for row in rows}
    rows = list(runs(options, known))
    print(table(rows))
    if options.json:
        options.json.write_text(json.dumps({"machine": machine(), "rows": rows}, indent=1))


if __name__ == "__main__":
    main()
