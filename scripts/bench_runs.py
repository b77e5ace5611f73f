"""Runs of mapper and of its peers on one case, each in a separate process and scored by mapper.

No reported result is trusted: `mapper score` measures all mappings and counts the cores over a
limit.
"""

from __future__ import annotations

import argparse
import importlib.util
import io
import json
import os
import shutil
from collections.abc import Callable, Sequence
from contextlib import redirect_stderr, redirect_stdout, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from bench_common import PEER_MODULES, Process, last_object, mapper, need, run, say, worker
from numpy.typing import NDArray

from mapper.cli.main import build_parser
from mapper.cli.main import main as command_line
from mapper.settings import PRESETS

KEY = ("table", "case", "method", "seed")  # fields that identify a run
TRIES = 5  # calls of a peer with decreasing slack until it keeps the hard cap
STEINER_MOST = 64  # cores; with 256 Mt-KaHyPar did not finish within minutes
NOT_WORK = ("check", "score")  # stages that do not contribute to the mapping


@dataclass(frozen=True, slots=True)
class Method:
    """A preset of mapper, or a peer that partitions or (`direct`) maps onto the mesh itself.

    objective : objective of mapper; empty: its default, or the objective of the table
    """

    tool: str
    context: str
    direct: bool = False
    objective: str = ""

    @property
    def name(self) -> str:
        words = [self.context, self.objective] if self.ours else [self.tool, self.context]
        return " ".join(filter(None, [*words, "mesh" if self.direct else ""]))

    @property
    def ours(self) -> bool:
        return self.tool == "mapper"

    @property
    def peer(self) -> str:
        return f"{self.tool}:{self.context}"


@dataclass(frozen=True, slots=True)
class Case:
    """A network, and a chip of `width` x `height` cores with `capacity` neurons each.

    file : chip file, if the chip does not send one packet per synapse
    parts : parts of peers; 0: number of cores
    """

    name: str
    network: Path
    width: int
    height: int
    capacity: int
    file: Path | None = None
    parts: int = 0

    @property
    def cores(self) -> int:
        return self.width * self.height

    @property
    def chip(self) -> list[str]:
        chip = self.file or f"{self.width}x{self.height}"
        return ["--chip", str(chip), "--neurons-per-core", str(self.capacity)]


def hard_cap(total: int, cores: int) -> int:
    """Return the capacity of a core for a network of size `total`: 3 % above the mean."""
    return 103 * -(-total // cores) // 100


def takes(*arguments: str) -> bool:
    """Whether the parser of this version accepts a command line."""
    with suppress(SystemExit), redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
        build_parser(arguments[0]).parse_args(arguments)
        return True
    return False


@dataclass(slots=True)
class Bench:
    """State shared by all tables: inputs, all runs, and notes about skipped work."""

    options: argparse.Namespace
    inputs: Path
    work: Path
    runs: list[dict[str, Any]] = field(default_factory=list)
    known: dict[tuple[Any, ...], dict[str, Any]] = field(default_factory=dict)
    notes: dict[str, None] = field(default_factory=dict)  # in order, without duplicates
    changed: Callable[[], None] = lambda: None

    @property
    def clock(self) -> str:
        """Name of the seconds that the tables show."""
        return "cpu_seconds" if self.options.cpu else "seconds"

    def note(self, text: str) -> None:
        if text not in self.notes:
            say(f"note: {text}")
        self.notes[text] = None

    def presets(self) -> list[Method]:
        known = [name for name in self.options.presets if name in PRESETS]
        for name in self.options.presets:
            if name not in known:
                self.note(f"preset {name} is unknown to this version: skipped")
        return [Method("mapper", name) for name in known]

    def peers(self, tools: Sequence[str] = tuple(PEER_MODULES)) -> list[Method]:
        """Return the requested peers that are installed."""
        found = []
        for peer in self.options.peers:
            tool, _, context = peer.partition(":")
            if tool == "none" or tool not in tools:
                continue
            if importlib.util.find_spec(PEER_MODULES[tool]) is None:
                self.note(f"{tool} is not installed: skipped; pip install .[bench]")
                continue
            found.append(Method(tool, context))
        return found

    def network(self, name: str, *command: str) -> Path:
        """Return a network file of the inputs; create it with `mapper COMMAND... FILE` if
        needed.
        """
        path = self.inputs / f"{name}.bin"
        if not path.exists():
            say(f"creating {path.name}")
            need(mapper(*command, str(path), "-q"))
        return path

    def data(self, name: str) -> Path:
        """Return a real input; raise `FileNotFoundError` if it is missing."""
        folder: Path | None = self.options.data
        if folder is None or not (folder / name).is_file():
            raise FileNotFoundError(f"{name} not found; give the folder of real inputs with --data")
        return folder / name

    def imported(self, name: str) -> Path:
        """Return the network file of a real graph."""
        source = self.data(name)
        return self.network(source.stem, "import", str(source))

    def graph(self, network: Path, ending: str) -> Path:
        """Return a network in a format that peers read."""
        path = network.with_suffix(ending)
        if not path.exists():
            export = mapper("export", str(network), str(path), "-q")
            write = worker("write", str(network), str(path))
            need(export if ending == ".graph" else write)
        return path

    def scored(self, network: Path, mapping: Path, chip: Sequence[str]) -> dict[str, Any]:
        """Return the scores of a mapping by `mapper score`; `failed` if it is rejected."""
        output, errors = io.StringIO(), io.StringIO()
        with redirect_stdout(output), redirect_stderr(errors):
            code = command_line(["score", str(network), str(mapping), *chip, "--json", "-q"])
        if not output.getvalue():
            return {"failed": f"score, exit {code}: {errors.getvalue().strip()}"}
        result = json.loads(output.getvalue())
        metrics = result["metrics"]
        names = ("hops_total", "hops_mean", "cut_weight", "cut_fraction", "core_fill_max")
        return {
            **{name: metrics[name] for name in names},
            "connectivity": metrics["multicast"]["connectivity"],
            "packet_hops": metrics["core"]["hops_total"],
            "valid": result["valid"],
            "cores_over": len(result["violations"]),
        }

    def write_mapping(self, core: NDArray[np.integer[Any]], width: int, height: int) -> Path:
        path = self.work / "mapping.npz"
        np.savez(path, core=core.astype(np.int32), width=width, height=height)
        return path

    def once(
        self, table: str, case: str, method: Method, seed: int, act: Callable[[], dict[str, Any]]
    ) -> None:
        """Record and report one run; known runs are not repeated."""
        key = (table, case, method.name, seed)
        found = self.known.get(key)
        if found is None:
            if self.options.no_runs:
                return
            found = {**dict(zip(KEY, key, strict=True)), **act()}
            state = found.get("failed") or f"{found.get('seconds', 0):.2f} s"
            if found.get("valid") is False:
                state += f", {found['cores_over']} cores over a limit"
            say(f"{table}: {case}, {method.name}, seed {seed}: {state}")
        self.runs.append(found)
        self.changed()

    def read_known(self, paths: Sequence[Path]) -> None:
        """Load the runs of earlier calls from files that --json wrote."""
        for path in paths:
            for one in json.loads(path.read_bytes())["runs"]:
                self.known[tuple(one[name] for name in KEY)] = one

    def mapped(self, case: Case, method: Method, seed: int, extra: Sequence[str]) -> dict[str, Any]:
        """Run `mapper run` once."""
        if method.objective:
            extra = [*extra, "--objective", method.objective]
        return self.run_mapper(case.network, case.chip, method.context, seed, extra)

    def run_mapper(
        self, network: Path, chip: Sequence[str], preset: str, seed: int, extra: Sequence[str] = ()
    ) -> dict[str, Any]:
        output = self.work / "mapping"
        shutil.rmtree(output, ignore_errors=True)
        effort = ["--threads", str(self.options.threads), "--seed", str(seed)]
        if self.options.memory:
            effort += ["--memory", self.options.memory]
        words = [str(network), *chip, "--preset", preset, *effort, *extra, "-o", str(output), "-q"]
        process = run(mapper("run", *words), self.options.limit)
        found = whole_process(process)
        if process.failed:
            return {**found, "failed": process.failed}
        report = json.loads((output / "report.json").read_bytes())
        found |= _work(report["stages"])
        found["peak_rss_bytes"] = report["resources"]["peak_rss_bytes"]
        result = self.scored(network, output / "mapping.npz", chip)
        if result.get("hops_total") != report["metrics"]["hops_total"]:
            self.note(f"{network.name}, {preset}: report.json and the scorer differ")
        return {**found, **result}

    def placed(
        self, groups: Path, width: int, height: int, preset: str, seed: int
    ) -> dict[str, Any]:
        """Run `mapper place` once."""
        mapping = self.work / "placement.npz"
        mapping.unlink(missing_ok=True)
        chip = ["--chip", f"{width}x{height}"]
        effort = ["--threads", str(self.options.threads), "--seed", str(seed), "--json", "-q"]
        process = run(
            mapper(
                "place", str(groups), *chip, "--preset", preset, *effort, "-o", str(mapping)
            ),
            self.options.limit,
        )  # fmt: skip
        found = whole_process(process)
        if process.failed:
            return {**found, "failed": process.failed}
        found |= _work(json.loads(process.output)["stages"])
        return {**found, **self.scored(groups, mapping, chip)}

    def by_peer(
        self, case: Case, method: Method, seed: int, place: bool, graph: Path | None = None
    ) -> dict[str, Any]:
        """Run a peer once; place the parts of a peer that only partitions if `place`.

        graph : graph that the peer reads, if not the connections; then placements use packets
        """
        cores = self.work / "cores.npy"
        part = cores if method.direct or not place else self.work / "part.npy"
        for path in (part, cores):
            path.unlink(missing_ok=True)
        ending = ".graph" if method.tool == "mtkahypar" else ".parhip"
        by_packets = graph is not None
        graph = graph or self.graph(case.network, ending)
        mesh = ["--mesh", f"{case.width}x{case.height}"]
        threads = ["--threads", str(self.options.threads)]
        limits = ["--parts", str(case.parts or case.cores), "--capacity", str(case.capacity)]
        effort = [*threads, "--seed", str(seed), "--tries", str(TRIES)]
        process = run(
            worker(
                "partition", method.peer, str(graph), str(part),
                *limits, *effort, *(mesh if method.direct else []),
            ),
            self.options.limit,
        )  # fmt: skip
        found = whole_process(process)
        if process.failed or not part.exists():
            return {**found, "failed": process.failed or "no result"}
        told = last_object(process.output)
        found["seconds"] = told["partition_seconds"]
        found["cpu_seconds"] = told["partition_cpu_seconds"]
        if place and not method.direct:
            seeds = [str(100 * seed + number) for number in range(self.options.placements)]
            traffic = case.network if by_packets else self.graph(case.network, ".parhip")
            process = run(
                worker(
                    "place", str(traffic), str(part), str(cores), *mesh, *threads,
                    "--seeds", *seeds,
                ),
                self.options.limit,
            )  # fmt: skip
            if process.failed:
                return {**found, "failed": f"placement: {process.failed}"}
            told = last_object(process.output)
            found["seconds"] += told["place_seconds"]
            found["cpu_seconds"] += told["place_cpu_seconds"]
            found["process_seconds"] += process.seconds
            found["process_cpu_seconds"] += process.cpu_seconds
        mapping = self.write_mapping(np.load(cores), case.width, case.height)
        return {**found, **self.scored(case.network, mapping, case.chip)}


def whole_process(process: Process) -> dict[str, Any]:
    """Return times that include start, reading, scoring and exit."""
    return {"process_seconds": process.seconds, "process_cpu_seconds": process.cpu_seconds}


def _work(stages: Sequence[dict[str, Any]]) -> dict[str, float]:
    """Return seconds of the stages that compute a mapping, including reading."""
    made = [stage for stage in stages if stage["name"] not in NOT_WORK]
    return {name: sum(stage[name] for stage in made) for name in ("seconds", "cpu_seconds")}


def default_data() -> Path | None:
    """Return the folder of real inputs, which the tests also use."""
    named = os.environ.get("MAPPER_DATA")
    folder = Path(named) if named else Path(__file__).resolve().parents[2] / "shared" / "data"
    return folder if folder.is_dir() else None
