"""`mapper run --workers`: processor time, memory, traffic and lost workers, against one process.

    python scripts/bench_workers.py --work /tmp/workers             # all parts, two cores
    python scripts/bench_workers.py --work /tmp/workers --parts cost --sides 1024
    python scripts/bench_workers.py --work /tmp/workers --model     # computed times of clusters
    python scripts/bench_workers.py --work DIR --scaling srun:4 srun:16   # in a SLURM allocation

Parts:

* cost: two workers of one thread against one process of two threads, alternating. Processor time
  sums all processes of the run. The time to start and to load kernels, measured on a small network,
  is subtracted before the ratio is computed. The mappings must be identical bytes.
* bytes: bytes to workers, from workers and through the shared folder per stage, compared with the
  estimates of `check --workers`.
* kill: a worker is killed after each stage has begun; the mapping must be identical; additional
  seconds.
* step: a call of both workers with empty tasks.
* seeds: `run --seeds 1..8 --workers 2` against eight consecutive runs.
* model: cost per entry, neuron and step, measured on one network, and from these the computed
  times of networks that do not fit on this machine (`bench_workers_model.py`).
"""

from __future__ import annotations

import argparse
import hashlib
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

import psutil
from bench_common import Process, machine, run, say
from bench_workers_model import Constants, print_model
from bench_workers_runs import (
    KILLED_AT,
    SEEDS_AT,
    SMALL,
    Bench,
    Ran,
    memory_of,
    taken,
    two_workers,
    worker_memory,
)

from mapper.results.tables import size

MIB = 1 << 20
COUNTED_AT = 512
COUNTED = 0.5  # bytes per neuron, below which a stage sends next to nothing
SEEDS = 8
CALLS = 300  # of workers with empty tasks
BARS = {"cost 1024": 1.4, "cost 2048": 1.3, "wall": 1.35, "step ms": 10.0, "seeds": 0.6, "kill": 15,
        "bytes": 0.1}  # fmt: skip
Rows = list[tuple[str, ...]]


def verdict(value: float, bar: float | None) -> str:
    if bar is None:
        return ""
    return f"<= {bar:g}: {'yes' if value <= bar else 'NO'}"


def middle(values: Sequence[float]) -> float:
    return sorted(values)[len(values) // 2]


# Cost: processor time, wall time, memory, bytes


def cost(bench: Bench) -> Iterator[Rows]:
    start = [middle([ran.process.cpu_seconds for ran in some]) for some in zip(
        *bench.pairs[SMALL], strict=True)]  # fmt: skip
    wall = [middle([ran.process.seconds for ran in some]) for some in zip(
        *bench.pairs[SMALL], strict=True)]  # fmt: skip
    rows: Rows = [("side", "measurement", "one process", "2 workers", "ratio", "bar")]
    rows.append(
        (str(SMALL), "CPU s, start-up", *(f"{one:.1f}" for one in start), "", "")
    )  # fmt: skip
    for side in bench.options.sides:
        pairs = bench.pairs[side]
        ratio = middle([
            (two.process.cpu_seconds - start[1]) / (one.process.cpu_seconds - start[0])
            for one, two in pairs
        ])  # fmt: skip
        one, two = pairs[0]
        bar = BARS.get(f"cost {side}")
        rows.append((
            str(side), "CPU s", f"{one.process.cpu_seconds:.1f}", f"{two.process.cpu_seconds:.1f}",
            f"{ratio:.2f}", verdict(ratio, bar),
        ))  # fmt: skip
        ratio = middle([
            (two.process.seconds - wall[1]) / (one.process.seconds - wall[0]) for one, two in pairs
        ])  # fmt: skip
        bar = BARS["wall"] if side == 2048 else None
        rows.append((
            str(side), "wall s", f"{one.process.seconds:.1f}", f"{two.process.seconds:.1f}",
            f"{ratio:.2f}", verdict(ratio, bar),
        ))  # fmt: skip
        driver = max(two.report["resources"]["peak_rss_bytes"] for _, two in pairs)
        alone = max(one.report["resources"]["peak_rss_bytes"] for one, _ in pairs)
        asked = memory_of(side) * MIB
        rows.append((
            str(side), "driver, peak", size(alone), size(driver), f"{driver / asked:.2f}",
            verdict(driver / asked, 1.0),
        ))  # fmt: skip
        peak = max(max(two.workers["peak_rss_bytes"]) for _, two in pairs)
        asked = worker_memory(side) * MIB
        rows.append((
            str(side), "worker, peak", "", size(peak), f"{peak / asked:.2f}",
            verdict(peak / asked, 1.0),
        ))  # fmt: skip
    yield rows
    for side in bench.options.sides:
        yield bytes_by_stage(side, bench.pairs[side][0][1])


def bytes_by_stage(side: int, ran: Ran) -> Rows:
    """Return the bytes of each stage per neuron, to one worker and from all, and the seconds
    waited.
    """
    n, found = ran.report["network"]["neurons"], ran.workers
    rows: Rows = [(f"side {side}", "calls", "waited s", "CPU s", "to a worker / n", "from all / n",
                  "shared / n")]  # fmt: skip
    for stage in found["stages"]:
        rows.append((
            stage["name"], str(stage["calls"]), f"{stage['seconds']:.2f}",
            f"{stage['cpu_seconds']:.2f}", f"{stage['bytes_to'] / found['count'] / n:.2f}",
            f"{stage['bytes_from'] / n:.2f}", f"{stage['bytes_shared'] / n:.2f}",
        ))  # fmt: skip
    to, back, shared = (
        sum(stage[name] for stage in found["stages"]) / n
        for name in ("bytes_to", "bytes_from", "bytes_shared")
    )
    rows.append(("all", "", "", "", f"{to / found['count']:.2f}", f"{back:.2f}", f"{shared:.2f}"))
    return rows


# Bytes: measured and estimated


def estimates(bench: Bench) -> Iterator[Rows]:
    for shuffled in (False, True):
        ran = bench.run(COUNTED_AT, *two_workers(COUNTED_AT), shuffled=shuffled)
        plan = bench.planned(COUNTED_AT, shuffled)
        n, worst = ran.report["network"]["neurons"], 0.0
        ids = "shuffled" if shuffled else "natural"
        ways = ("bytes_to", "bytes_from", "bytes_shared")
        heads = [f"{text}, {unit}" for text in ("to all", "from all", "shared")
                 for unit in ("bytes / n", "estimated")]  # fmt: skip
        rows: Rows = [(f"side {COUNTED_AT}, {ids} ids", *heads, "bar")]
        for stage in ran.workers["stages"]:
            cells, off = [], 0.0
            for way in ways:
                found, told = stage[way] / n, plan[stage["name"]][way] / n
                cells += [f"{found:.2f}", f"{told:.2f}"]
                if max(found, told) >= COUNTED:
                    off = max(off, abs(told / max(found, 1e-9) - 1))
            worst = max(worst, off)
            rows.append((stage["name"], *cells, f"{off:.0%}"))
        rows.append(("worst", *[""] * 6, verdict(worst, BARS["bytes"])))
        yield rows


# Kill: a worker in each stage


def kill(bench: Bench) -> Iterator[Rows]:
    whole = bench.run(KILLED_AT, *two_workers(KILLED_AT))
    rows: Rows = [(f"killed, side {KILLED_AT}", "same bytes", "replaced", "seconds more", "bar")]
    lengths = {stage["name"]: stage["seconds"] for stage in whole.report["stages"]}
    names = list(lengths)
    for stage in [one["name"] for one in whole.workers["stages"] if one["name"] in lengths]:
        before = names[: names.index(stage)]
        output = bench.folder / "killed"
        work = bench.folder / "killed.partial"  # of the run while it is at work
        shutil.rmtree(work, ignore_errors=True)
        log = work / "result" / "run.log"
        command = [*bench.command(KILLED_AT, *two_workers(KILLED_AT)), "-o", str(output)]
        started = time.perf_counter()
        child = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        done = kill_in(child, log, before[-1] if before else "", lengths[stage] / 4)
        code = child.wait()
        seconds = time.perf_counter() - started
        if code:
            raise SystemExit(f"killed a worker in {stage!r}: exit code {code}")
        ran = taken(output, Process(seconds, 0.0, 0, 0, "", None))
        more = seconds - whole.process.seconds
        same = "yes" if ran.mapping == whole.mapping else "NO"
        replaced = ran.workers["replaced"] if done else "not killed"
        rows.append((stage, same, f"{replaced}", f"{more:.1f}", verdict(more, BARS["kill"])))
        say(" | ".join(rows[-1]))
    yield rows


def kill_in(child: subprocess.Popen[bytes], log: Path, before: str, wait: float) -> bool:
    """Kill a worker of a run some seconds after the stage `before` has ended."""
    while child.poll() is None:
        with suppress(OSError):
            text = log.read_text()
            ended = f" {before}: " in text and " s CPU" in text.partition(f" {before}: ")[2]
            if ended or not before:
                break
        time.sleep(0.02)
    time.sleep(wait)
    with suppress(psutil.Error):
        for process in psutil.Process(child.pid).children(recursive=True):
            if "spawn_main" in " ".join(process.cmdline()):
                os.kill(process.pid, signal.SIGKILL)
                return True
    return False


# Step, and seeds


def step_milliseconds(bench: Bench) -> float:
    """Return the milliseconds of a call of two workers with empty tasks."""
    from bench_workers_steps import milliseconds_of_a_step

    return milliseconds_of_a_step(bench.network(SMALL), bench.folder, CALLS)


def step(bench: Bench) -> Iterator[Rows]:
    took = step_milliseconds(bench)
    yield [
        ("step of 2 workers", "ms", "bar"),
        ("empty tasks", f"{took:.1f}", verdict(took, BARS["step ms"])),
    ]


def seeds(bench: Bench) -> Iterator[Rows]:
    bench.run(SEEDS_AT, "--threads", "2")
    started = time.perf_counter()
    found = [bench.run(SEEDS_AT, "--threads", "2", "--seed", str(1 + k)) for k in range(SEEDS)]
    alone = time.perf_counter() - started, sum(ran.process.cpu_seconds for ran in found)
    output = bench.folder / "seeds"
    words = ("--seeds", f"1..{SEEDS}", "--workers", "2", "--threads", "1", "-o", str(output))
    together = run(bench.command(SEEDS_AT, *words))
    if together.failed:
        raise SystemExit(f"--seeds: {together.failed}")
    for seed, ran in enumerate(found, 1):
        path = output / f"seed-{seed}" / "mapping.npz"
        if hashlib.sha256(path.read_bytes()).hexdigest() != ran.mapping:
            raise SystemExit(f"seed {seed}: the mapping with --seeds differs")
    shutil.rmtree(output)
    ratio = together.seconds / alone[0]
    yield [
        (f"{SEEDS} seeds, side {SEEDS_AT}", "consecutive", "2 workers", "ratio", "bar"),
        ("wall s", f"{alone[0]:.1f}", f"{together.seconds:.1f}", f"{ratio:.2f}",
         verdict(ratio, BARS["seeds"])),
        ("CPU s", f"{alone[1]:.1f}", f"{together.cpu_seconds:.1f}",
         f"{together.cpu_seconds / alone[1]:.2f}", ""),
    ]  # fmt: skip


# Model, and scaling


def model(bench: Bench) -> Iterator[Rows]:
    side = bench.options.sides[0]
    took = step_milliseconds(bench)
    found = {}
    for shuffled in (False, True):
        ran = bench.run(side, *two_workers(side), shuffled=shuffled)
        name = "shuffled" if shuffled else "natural"
        found[name] = Constants.of(ran.report, took)
    yield print_model(found)


def scaling(bench: Bench) -> Iterator[Rows]:
    """Run each side with each kind of workers."""
    heads = ("side", "--workers", "workers", "threads", "wall s", "speed-up", "efficiency", "same")
    rows: Rows = [heads]
    for side in bench.options.sides:
        first: Ran | None = None
        for words in bench.options.scaling:
            kind, _, count = words.partition(":")
            before = ["srun", "-n", str(int(count) + 2)] if kind == "srun" else []
            ran = bench.run(side, "--workers", kind if before else words, before=before)
            first = first or ran
            faster = first.process.seconds / ran.process.seconds
            ideal = ran.workers["threads"] / first.workers["threads"]
            rows.append((
                str(side), words, str(ran.workers["count"]), str(ran.workers["threads"]),
                f"{ran.process.seconds:.1f}", f"{faster:.2f}", f"{faster / ideal:.2f}",
                "yes" if ran.mapping == first.mapping else "NO",
            ))  # fmt: skip
            say(" | ".join(rows[-1]))
    yield rows


PARTS = {"cost": cost, "bytes": estimates, "kill": kill, "step": step, "seeds": seeds,
         "model": model}  # fmt: skip


def show(rows: Rows) -> None:
    print("| " + " | ".join(rows[0]) + " |")
    print("|" + "---|" * len(rows[0]))
    for row in rows[1:]:
        print("| " + " | ".join(row) + " |")
    print(flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("--work", type=Path, required=True, help="folder for networks and results")
    add("--parts", nargs="+", choices=PARTS, default=list(PARTS))
    add("--sides", type=int, nargs="+", default=[1024, 2048], help="sides of the sheets")
    add("--repeat", type=int, default=1, help="runs per case; medians are shown")
    add("--model", action="store_true", help="same as --parts model")
    add(
        "--scaling", nargs="+", metavar="W", help="values of --workers, or srun:N; replaces --parts"
    )
    options = parser.parse_args()
    options.work = options.work.resolve()
    options.work.mkdir(parents=True, exist_ok=True)
    about = machine()
    print(f"{about['cpu']}, {about['cores']} cores, {size(about['memory_bytes'])}\n", flush=True)
    bench, found = Bench(options), []
    parts = ["model"] if options.model else options.parts
    for maker in [scaling] if options.scaling else [PARTS[name] for name in parts]:
        for rows in maker(bench):
            show(rows)
            found += rows
    return 1 if any("NO" in cell.split() for row in found for cell in row) else 0


if __name__ == "__main__":
    sys.exit(main())
