"""Time, memory and quality of `mapper run` on cortical sheets, compared with other partitioners.

    python scripts/bench_scale.py [--sides 316 1024] [--threads 2 1] [--peers kaminpar metis]

Every run is a separate process, measured from outside. Runs on one network alternate, so that load
on the machine affects all of them. Figures are medians of the repeats. Peers
(scripts/bench_peers.py) read a binary graph written beforehand, may use all memory, and only
partition: their parts have no place on the chip. The cut of every result, and the cores over their
capacity, are counted in one pass over the network.

Peers are kaminpar, metis and mtkahypar, optionally with a preset: kaminpar:terapart,
metis:recursive or mtkahypar:QUALITY. They come with `pip install .[bench]`.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import shutil
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from bench_common import (
    PEER_MODULES,
    Process,
    last_object,
    machine,
    mapper,
    median,
    need,
    run,
    say,
    worker,
)
from rich.console import Console
from rich.measure import Measurement

from mapper.results.tables import columns, size

CHIPS = {128: (8, 264), 316: (20, 256), 1024: (64, 264), 3163: (200, 264)}
ORDERS = ("natural", "shuffled")
GROUPS = ("read", "coarsen", "partition", "refine", "place", "score")
WORDS = {  # a stage counts for the first group with one of these words in its name
    "place": ("plac", "region", "force"),
    "score": ("score",),
    "refine": ("refine",),
    "coarsen": ("coarsen",),
    "partition": ("partition", "split", "groups"),
    "read": ("read", "check"),
}
HEADS = {
    "seconds": "seconds",
    "cpu_seconds": "CPU s",
    **{group: group for group in GROUPS},
    "other": "other",
    "peak_anon_bytes": "anonymous, MiB",
    "peak_rss_bytes": "resident, MiB",
    "child_rss_bytes": "max RSS, MiB",
    "disk_bytes_per_connection": "disk, B/conn",
    "passes": "passes",
    "net_bytes_per_connection": "net, B/conn",
    "cut_fraction": "cut",
    "hops_mean": "hops",
    "over_capacity": "over",
}
OMITTED = (*GROUPS, "cpu_seconds", "other", "peak_rss_bytes", "net_bytes_per_connection")
IN_README = [name for name in HEADS if name not in OMITTED]
LEGEND = """\
seconds: whole process, for mapper from net.bin to report.json; stages: mapper's own clock (other:
start, exit and remaining stages); for peers read is loading, partition is partitioning only
CPU s: sum over all threads; more meaningful than seconds on a busy machine
anonymous, resident: peaks in report.json; max RSS: peak reported by the operating system
disk: peak of scratch and output per stored connection (a synapse is stored at both endpoints)
net: size of net.bin per stored connection; passes: passes over the data; hops: mean per spike
cut: share of the weight between cores; over: cores over their capacity"""


@dataclass(frozen=True, slots=True)
class Case:
    """A sheet of side * side neurons with its ids in one of two orders, and its chip."""

    side: int
    order: str

    @property
    def cores(self) -> tuple[int, int]:
        """Cores along a side of the chip, and neurons per core."""
        return CHIPS.get(self.side, (-(-self.side // 16), 264))

    @property
    def name(self) -> str:
        return f"{self.side}², {self.order}"

    @property
    def recipe(self) -> dict[str, int | float]:
        """Settings of `mapper generate cortex`."""
        reach = 6.0 if self.side <= 512 else 12.0
        return {"side": self.side, "fanout": 50, "sigma": reach, "long_range": 0.1, "seed": 1}

    def limits(self) -> list[str]:
        """Return the arguments of the workers."""
        width, capacity = self.cores
        return ["--parts", str(width**2), "--capacity", str(capacity)]

    def file(self, folder: Path, ending: str) -> Path:
        return folder / f"cortex-{self.side}-{self.order}.{ending}"


@dataclass(frozen=True, slots=True)
class Method:
    """A program on a case: `mapper` with a preset, or a peer with a context."""

    tool: str
    context: str
    threads: int

    @property
    def name(self) -> str:
        return f"{self.tool} {self.context}".strip()

    @property
    def installed(self) -> bool:
        return (
            self.tool == "mapper" or importlib.util.find_spec(PEER_MODULES[self.tool]) is not None
        )


Found = dict[tuple[Case, Method], list[dict[str, Any]]]


@dataclass(slots=True)
class Bench:
    """State shared by all measurements of a call."""

    options: argparse.Namespace
    inputs: Path
    work: Path
    networks: dict[str, dict[str, Any]] = field(default_factory=dict)

    def network(self, case: Case) -> dict[str, Any]:
        """Return the output of `mapper info` for the network of a case; create the network if
        missing.
        """
        path = case.file(self.inputs, "bin")
        if not path.exists():
            say(f"generating {path.name}")
            settings = [f"--{k.replace('_', '-')}={value}" for k, value in case.recipe.items()]
            shuffle = ["--shuffle"] if case.order == "shuffled" else []
            need(mapper("generate", "cortex", *settings, *shuffle, str(path), "-q"))
        if path.name not in self.networks:
            facts: dict[str, Any] = json.loads(need(mapper("info", str(path), "--json")))
            wanted = {**case.recipe, "shuffle": case.order == "shuffled"}
            if not wanted.items() <= facts["provenance"].items():
                raise SystemExit(f"{path}: was not generated with {wanted}; delete it")
            self.networks[path.name] = facts
        return self.networks[path.name]

    def graph(self, case: Case, tool: str) -> Path:
        """Return the network of a case in the format of a peer."""
        network = str(case.file(self.inputs, "bin"))
        path = case.file(self.inputs, "graph" if tool == "mtkahypar" else "parhip")
        if not path.exists():
            say(f"writing {path.name}")
            if tool == "mtkahypar":
                need(mapper("export", network, str(path), "-q"))
            else:
                need(worker("write", network, str(path)))
        return path

    def measure(self, case: Case, method: Method) -> dict[str, Any]:
        """Run one method once."""
        if not method.installed:
            return {"failed": "not installed"}
        act = self.run_mapper if method.tool == "mapper" else self.run_peer
        found, process, result = act(case, method)
        found |= {"seconds": process.seconds, "cpu_seconds": process.cpu_seconds}
        found["child_rss_bytes"] = process.rss_bytes
        found["load_average"] = os.getloadavg()[0]
        if process.failed:
            return {**found, "failed": process.failed}
        network = str(case.file(self.inputs, "bin"))
        scored = run(worker("score", network, str(result), *case.limits()))
        if scored.failed:
            return {**found, "failed": scored.failed}
        return {**found, **last_object(scored.output)}

    def run_mapper(self, case: Case, method: Method) -> tuple[dict[str, Any], Process, Path]:
        output = self.work / "mapping"
        width, capacity = case.cores
        chip = ["--chip", f"{width}x{width}", "--neurons-per-core", str(capacity)]
        preset, _, objective = method.context.partition(":")
        effort = ["--preset", preset, "--threads", str(method.threads)]
        effort += ["--objective", objective] if objective else []
        effort += ["--memory", self.options.memory, "--seed", str(self.options.seed)]
        network = self.network(case)
        shutil.rmtree(output, ignore_errors=True)
        process = run(
            mapper("run", network["path"], *chip, *effort, "-o", str(output), "-q"),
            self.options.limit,
            [output.with_name(output.name + ".partial"), output],
        )
        if process.failed:
            return {}, process, output
        report = json.loads((output / "report.json").read_bytes())
        used = report["resources"]
        found: dict[str, Any] = dict.fromkeys(GROUPS, 0.0)
        for stage in report["stages"]:
            for group, words in WORDS.items():
                if any(word in stage["name"] for word in words):
                    found[group] += stage["seconds"]
                    break
        found["other"] = process.seconds - sum(found.values())
        names = ("peak_anon_bytes", "peak_rss_bytes", "passes")
        found |= {name: used[name] for name in names if name in used}
        found["disk_bytes_per_connection"] = process.disk_bytes / network["connections"]
        found["net_bytes_per_connection"] = network["bytes_per_connection"]
        found["hops_mean"] = report["metrics"]["hops_mean"]
        found["report_cut_fraction"] = report["metrics"]["cut_fraction"]
        if self.options.verify:
            checked = run(mapper("verify", str(output), "--json"))
            found["verified"] = checked.failed is None
            if checked.failed:
                say(f"verify: {checked.failed}")
        return found, process, output / "mapping.npz"

    def run_peer(self, case: Case, method: Method) -> tuple[dict[str, Any], Process, Path]:
        part = self.work / "part.npy"
        graph = self.graph(case, method.tool)
        peer = f"{method.tool}:{method.context}"
        effort = ["--threads", str(method.threads), "--seed", str(self.options.seed)]
        process = run(
            worker("partition", peer, str(graph), str(part), *case.limits(), *effort),
            self.options.limit,
        )
        if process.failed:
            return {}, process, part
        result = last_object(process.output)
        read, partition = result["load_seconds"], result["partition_seconds"]
        other = process.seconds - read - partition
        return {"read": read, "partition": partition, "other": other}, process, part


def methods_of(options: argparse.Namespace) -> list[Method]:
    """Return the methods to run on each case."""
    found = [Method("mapper", p, t) for p in options.presets for t in options.threads]
    for peer in options.peers:
        tool, _, context = peer.partition(":")
        if tool != "none":
            threads = 1 if tool == "metis" else max(options.threads)
            usual = "largek" if tool == "kaminpar" else ""
            found.append(Method(tool, context or usual, threads))
    return found


def shown(name: str, found: dict[str, Any]) -> str:
    """Return a measurement as a table cell."""
    value = found.get(name)
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "NO"
    if HEADS.get(name, "").endswith("MiB"):
        return f"{value / 2**20:,.0f}"
    if name == "seconds" and found["runs_failed"]:
        return f"{value:.2f}, {found['runs_failed']} of {found['runs']} failed"
    if name in ("seconds", "cpu_seconds", "other", *GROUPS):
        return f"{value:.2f}"
    return f"{value:.4f}" if name == "cut_fraction" else f"{value:,.4g}"


def row_of(case: Case, method: Method, found: dict[str, Any], names: Sequence[str]) -> list[str]:
    cells = [case.name, method.name, str(method.threads)]
    if "failed" not in found:
        return cells + [shown(name, found) for name in names]
    known = {"cpu_seconds", "child_rss_bytes"}  # progress up to the failure
    told = [shown(name, found) if name in known else "-" for name in names]
    told[names.index("seconds")] = found["failed"]
    return cells + told


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--sides", type=int, nargs="+", default=[316, 1024], metavar="S")
    add("--orders", nargs="+", choices=ORDERS, default=list(ORDERS), help="orders of the ids")
    add(
        "--presets",
        nargs="*",
        default=["default", "default:cut", "fast"],
        metavar="P",
        help="optionally with an objective: PRESET:OBJECTIVE",
    )
    add("--threads", type=int, nargs="+", default=[2, 1], metavar="N", help="peers use the largest")
    add("--peers", nargs="+", default=["kaminpar"], metavar="PEER", help="or none")
    add("--memory", default="1GiB", metavar="SIZE", help="--memory of mapper")
    add("--seed", type=int, default=1, metavar="S")
    add("--repeat", type=int, default=1, metavar="N", help="runs per method; medians are shown")
    add("--limit", type=float, default=600, metavar="SECONDS", help="time limit of a run")
    add("--folder", type=Path, metavar="DIR", help="folder that keeps and reuses inputs")
    add("--verify", action="store_true", help="check every mapping with `mapper verify`")
    add("--json", type=Path, metavar="FILE", help="write all measurements")
    add("--markdown", action="store_true", help="print the table as Markdown, with fewer columns")
    options = parser.parse_args()
    for peer in options.peers:
        if peer.partition(":")[0] not in (*PEER_MODULES, "none"):
            parser.error(f"--peers: {peer!r} is unknown; use {', '.join(PEER_MODULES)} or none")
    if options.repeat < 1 or min(options.sides) < 2 or min(options.threads) < 1:
        parser.error("--repeat and --threads must be 1 or more, --sides 2 or more")
    return options


def write_json(bench: Bench, about: dict[str, Any], found: Found) -> None:
    """Write every run and the medians."""
    options = {name: value for name, value in vars(bench.options).items() if name != "json"}
    whole = {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": about,
        "options": options,
        "networks": bench.networks,
        "measurements": [
            {**asdict(case), **asdict(method), "median": median(runs), "runs": runs}
            for (case, method), runs in found.items()
        ],
    }
    bench.options.json.write_text(json.dumps(whole, indent=1, default=str) + "\n")


def show(bench: Bench, about: dict[str, Any], found: Found) -> None:
    """Print the table and the machine."""
    options = bench.options
    versions = ", ".join(f"{name} {number}" for name, number in about["versions"].items())
    lines = [
        f"{about['cpu']}, {about['cores']} cores, {size(about['memory_bytes'])}; "
        f"Python {about['python']}, {versions}",
        f"medians of {options.repeat}, seed {options.seed}, mapper with --memory {options.memory}",
    ]
    for case in dict.fromkeys(case for case, _ in found):
        facts = bench.network(case)
        width, capacity = case.cores
        counts = (f"{facts[name]:,} {name}" for name in ("neurons", "synapses", "connections"))
        lines.append(f"{case.name}: {', '.join(counts)}, {width}x{width} cores of {capacity}")
    names = [*(IN_README if options.markdown else HEADS), *(["verified"] if options.verify else [])]
    rows = [row_of(case, method, median(runs), names) for (case, method), runs in found.items()]
    heads = ["network", "method", "threads", *(HEADS.get(name, name) for name in names)]
    if options.markdown:
        rows = [heads, ["---", "---", *["---:"] * (len(heads) - 2)], *rows]
        lines += ["", *(f"| {' | '.join(cells)} |" for cells in rows)]
        sys.stdout.write("\n".join(lines) + "\n")
        return
    wide = Console(highlight=False, width=1000)
    table = columns("mapper run, and peers", heads, rows)
    wide.width = Measurement.get(wide, wide.options, table).maximum
    wide.print(*lines, table, LEGEND, sep="\n")


def main() -> None:
    options = arguments()
    methods = methods_of(options)
    peers = dict.fromkeys(m.tool for m in methods if m.tool != "mapper" and m.installed)
    about = machine()
    found: Found = {}
    if options.folder:
        options.folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=options.folder, prefix="bench-") as name:
        work = Path(name).resolve()  # on the same disk as the inputs
        bench = Bench(options, (options.folder or work).resolve(), work)
        tiny = work / "tiny.bin"  # compiles the kernels if necessary
        need(mapper("generate", "cortex", "--side", "32", str(tiny), "-q"))
        for case in (Case(side, order) for side in options.sides for order in options.orders):
            bench.network(case)
            for tool in peers:
                bench.graph(case, tool)
            for _ in range(options.repeat):
                for method in methods:
                    one = bench.measure(case, method)
                    found.setdefault((case, method), []).append(one)
                    if options.json:  # after every run: a later one may be interrupted
                        write_json(bench, about, found)
                    what = one.get("failed") or f"{one['seconds']:.2f} s"
                    say(f"{case.name}: {method.name}, threads {method.threads}: {what}")
        show(bench, about, found)


if __name__ == "__main__":
    main()
