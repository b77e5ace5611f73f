"""`mapper simulate` for compiled models: run the programs of the cores on samples."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from rich.table import Table

from mapper.cli import compile_tables, terminal
from mapper.cli import options as common
from mapper.cli.compile_tables import compared_rows
from mapper.compiler.artifacts.contents import Clipped, clipped_inputs
from mapper.compiler.artifacts.cycles import (
    CHECKED,
    FRAMES,
    cycle_rows,
    frames_rows,
    run_cycles,
    run_frames,
)
from mapper.compiler.artifacts.dump import Dump
from mapper.compiler.artifacts.judge.beside import Judgement
from mapper.compiler.artifacts.judge.folders import Judged, require_right
from mapper.compiler.artifacts.manifest import CompiledFolder, read_folder
from mapper.compiler.artifacts.report import add_simulation, read_report
from mapper.compiler.artifacts.simulate import (
    FRAMES_AT_ONCE,
    Compared,
    Digest,
    Machine,
    Maps,
    simulate,
)
from mapper.compiler.quantisation.score import require_classes
from mapper.errors import BAD_INPUT, UsageError
from mapper.reporting.compiled.chiprun import longest_wait
from mapper.reporting.make import PAGE
from mapper.results.output_folder import output_folder, writing_into
from mapper.results.summary import GAP, Row, next_steps, summary
from mapper.results.tables import columns, facts
from storage.samples import SampleForm, Samples, open_samples, require_samples

CLOCK = 500.0  # default, MHz
MOST_TABLES = 4  # cores with one table of cycles each; more cores share one table
JUDGED_AT_ONCE = 8  # frames per batch whose maps are kept for the comparison


def run_compiled(options: argparse.Namespace) -> int:
    """Run the programs of a compiled model on samples."""
    if options.input is None and options.cycles is None:
        raise UsageError(f"{options.path}: is a compiled model; add samples with --input")
    if options.input is not None:
        require_samples(options.input)
    folder = read_folder(options.path)
    if (options.frames or options.clock) and not options.cycles:
        raise UsageError("--frames, --clock: need a cycle-accurate run; add --cycles")
    if (options.frames or options.clock) and not folder.is_spread:
        raise UsageError(f"--frames, --clock: need several cores; {options.path} runs on one")
    if options.hardware and options.input is None:
        raise UsageError("--hardware: needs samples; add --input")
    if options.input is None and options.dump:
        raise UsageError("--dump: needs samples; add --input")
    if options.input is None:
        _compile_kernels(options, folder)
        only = _cycles(options, folder, None)
        with writing_into(options.path):
            add_simulation(options.path, {"cycle_run": only})
        title = f"{options.path}, cycle by cycle"
        terminal.emit(
            options, {"cycle_run": only}, cycle_tables(only, str(options.path)),
            summary(title, cycle_lines(only)),
        )  # fmt: skip
        return 0
    given = folder.manifest["input"]
    form = SampleForm.from_json(folder.manifest["samples"])
    shape, last = tuple(given["shape"][1:]), bool(given["channels_last"])
    with open_samples(
        options.input, shape, form, options.limit, channels_last=last, name=given["name"]
    ) as samples:
        for note in samples.notes:
            terminal.say(options, f"note: {note}")
        return _run_samples(options, folder, samples)


class _Simulated(NamedTuple):
    """Results of samples.

    classes : of each sample, shape (frames,)
    compared : elements and differences of each layer; empty without --check and --dump
    first : the first samples, for runs cycle by cycle or in Amaranth; None without them
    """

    frames: int
    sha256: str
    classes: NDArray[np.int64]
    clipped: list[Clipped]
    compared: list[Compared]
    judged: Judged | None
    first: NDArray[np.float32] | None


def _run_samples(options: argparse.Namespace, folder: CompiledFolder, samples: Samples) -> int:
    """Run open samples, after compiling the kernels."""
    _compile_kernels(options, folder)
    found = _simulate(options, folder, samples)
    result: dict[str, Any] = {"frames": found.frames, "sha256": found.sha256}
    if found.clipped:
        result["clipped"] = sum(one.values for one in found.clipped)
        _say_clipped(options, result["clipped"], found.clipped[0])
    if found.first is not None and options.cycles:
        result["cycle_run"] = _cycles(options, folder, found.first)
    if found.first is not None and options.hardware:
        result["hardware"] = _hardware(options, folder, found.first)
    if samples.labels is not None:
        result["accuracy"] = float((found.classes == samples.labels).mean())
    judgement = None if found.judged is None else found.judged.judgement()
    if judgement is not None:
        result["judge"] = judgement.to_json()
    if options.check or options.dump:
        result["elements"] = sum(one.elements for one in found.compared)
        result["differences"] = sum(one.differences for one in found.compared)
    with writing_into(options.path):
        add_simulation(options.path, result)
    if judgement is not None and judgement.why:
        terminal.say(options, f"note: not compared with ONNX Runtime: {judgement.why}")
    tables = _tables(options, folder, result, found.compared, judgement)
    terminal.emit(options, result, tables, _summary(options, folder, result))
    if result.get("differences"):
        terminal.complain(f"{result['differences']:,} elements differ from the integer reference")
        return BAD_INPUT
    if judgement is not None:
        require_right(judgement, options.path)
    return 0


def _simulate(options: argparse.Namespace, folder: CompiledFolder, samples: Samples) -> _Simulated:
    """Run the samples, compare their maps with --check, and write them with --dump."""
    parts: list[list[Compared]] = []
    classes: list[NDArray[np.int64]] = []
    clipped: list[Clipped | None] = []
    digest, machine = Digest(folder), Machine(folder)
    judged = Judged(machine, folder.model, read_report(options.path)) if options.check else None
    at_once = FRAMES_AT_ONCE if judged is None else JUDGED_AT_ONCE
    with (
        output_folder(options.dump, force=False) if options.dump else nullcontext() as work,
        terminal.fraction_bar(options, "simulating") as progress,
    ):
        threads, labels, frames = common.threads_of(options), samples.labels, len(samples)
        dump = None if work is None else Dump(work.folder, machine, frames)
        for some in samples.batches(at_once):
            takers = [dump.from_frame(sum(map(len, classes)))] if dump else []
            takers += [judged.take] if judged else []
            found = simulate(machine, some, threads, options.check, _to_all(takers))
            digest.add(found)
            if judged is not None:
                judged.add(some, found.values)
            clipped.append(clipped_inputs(folder, some))
            parts.append(found.compared)
            classes.append(classes_of(found.values))
            if labels is not None:
                require_classes(labels, next(iter(found.values.values()))[0].size)
            progress(sum(map(len, classes)) / frames)
        again = options.cycles or options.hardware
        first = samples.read(0, min(CHECKED, frames)) if again else None
        compared = [
            Compared(
                rows[0].name,
                sum(one.elements for one in rows),
                sum(one.differences for one in rows),
            )
            for rows in zip(*parts, strict=True)
        ]
        if dump is not None:
            dump.finish(compared)
    counted = [one for one in clipped if one is not None]
    return _Simulated(
        frames, digest.text, np.concatenate(classes), counted, compared, judged, first
    )


def _tables(
    options: argparse.Namespace, folder: CompiledFolder, result: dict[str, Any],
    compared: list[Compared], judgement: Judgement | None,
) -> list[Table]:  # fmt: skip
    """Return the tables of a run on samples."""
    rows: dict[str, Any] = {"samples": result["frames"]}
    if "accuracy" in result:
        rows["accuracy"] = f"{100 * result['accuracy']:.2f} %"
    rows["SHA-256 of results"] = result["sha256"]
    tables = [facts(f"{folder.manifest['model']['name']} on {options.path}", rows)]
    if "elements" in result:
        heads = ("layer", "elements", "differences")
        tables.append(columns("compared with the reference", heads, compared))
    if judgement is not None:
        tables.append(compile_tables.judge_table(judgement))
    if "cycle_run" in result:
        tables += cycle_tables(result["cycle_run"], str(options.path))
    if "hardware" in result:
        title = "Amaranth simulation, equal to the simulators"
        tables.append(facts(title, result["hardware"]))
    return tables


def _summary(options: argparse.Namespace, folder: CompiledFolder, result: dict[str, Any]) -> Table:
    """Return the summary of a run on samples."""
    rows = [Row("samples", result["frames"])]
    if "accuracy" in result:
        rows.append(Row("accuracy", f"{result['accuracy']:.2%}"))
    if "differences" in result:
        differing = f"{result['differences']:,} differ from the reference"
        rows.append(Row("elements compared", result["elements"], differing))
    if "judge" in result:
        rows += compared_rows(result["judge"])
    if "cycle_run" in result:
        rows += [GAP, *cycle_lines(result["cycle_run"])]
    if "hardware" in result:
        rows += [GAP, *(Row(name.replace("_", " "), n) for name, n in result["hardware"].items())]
    rows += [GAP, Row("SHA-256", "", f"{result['sha256'][:16]}... of the results")]
    rows += next_steps(str(options.path / PAGE), "--details")
    return summary(f"{folder.manifest['model']['name']} on {options.path}", rows)


def _to_all(takers: list[Callable[[int, Maps], None]]) -> Callable[[int, Maps], None] | None:
    """Return a callback that passes the maps of a frame to all `takers`; None if there are none."""
    if not takers:
        return None

    def give(number: int, maps: Maps) -> None:
        for take in takers:
            take(number, maps)

    return give


def _hardware(
    options: argparse.Namespace, folder: CompiledFolder, samples: NDArray[np.float32]
) -> dict[str, int]:
    """Run samples in the Amaranth simulator; return the counts of equal bytes and cycles."""
    from mapper.compiler.artifacts.chip_hardware import check_core, check_hardware

    if folder.is_spread:
        return check_hardware(folder, samples)._asdict()
    with terminal.fraction_bar(options, "running in Amaranth") as progress:
        return check_core(folder, samples, progress)._asdict()


def _compile_kernels(options: argparse.Namespace, folder: CompiledFolder) -> None:
    """Compile the kernels of runs of a compiled model."""
    works = ["cores"] if options.input else []
    if options.cycles or options.hardware:
        works += ["cores/frames" if folder.is_spread else "cores/cycles"]
    common.compile_kernels(options, *works)


def _cycles(
    options: argparse.Namespace, folder: CompiledFolder, samples: NDArray[np.float32] | None
) -> dict[str, Any]:
    """Run a frame on one core, or several on several cores, cycle by cycle; return JSON."""
    if not folder.is_spread:
        return cycle_rows(run_cycles(folder, None if samples is None else samples[:1]))
    frames = options.frames or FRAMES
    with terminal.fraction_bar(options, "running frames") as progress:
        run = run_frames(folder, samples, frames, lambda done: progress(done / frames))
    return frames_rows(run, options.clock or CLOCK)


def _say_clipped(options: argparse.Namespace, count: int, one: Clipped) -> None:
    """Report sample values outside the range of the quantised input."""
    if count:
        terminal.say(
            options,
            f"note: {count:,} sample values clipped to the range of the model's input, "
            f"{one.low:.4g} to {one.high:.4g}",
        )


def classes_of(values: dict[str, NDArray[Any]]) -> NDArray[np.int64]:
    """Return the class of each sample: argmax of its outputs, or the class output of the model."""
    rows = [one.reshape(len(one), -1) for one in values.values() if one.dtype.kind in "biuf"]
    for row in rows:
        if row.shape[1] > 1:
            return row.argmax(1)
    if rows and rows[0].dtype.kind in "iu":
        return rows[0][:, 0].astype(np.int64)
    return np.zeros(len(next(iter(values.values()))), np.int64)


def cycle_tables(found: dict[str, Any], title: str) -> list[Table]:
    """Return tables of cycles, and of busy and stall shares of the units of each core.

    found : result of `cycle_rows` or `frames_rows`
    """
    cycles = max(1, found["cycles"])
    tables = [summary(f"{title}, cycle by cycle", _times(found))]
    if len(found["cores"]) > MOST_TABLES:
        heads = ("core", "cycles", *found["cores"][0]["busy"], "longest stall")
        return [*tables, columns("cores", heads, [_row(one, cycles) for one in found["cores"]])]
    for core in found["cores"]:
        x, y = core["core"]
        units = list(core["busy"])
        body = [("busy", *(_share(core["busy"][unit], cycles) for unit in units))]
        for cause in core["waits"][units[0]]:
            waits = [core["waits"][unit][cause] for unit in units]
            if any(waits):
                body.append((f"stall: {cause}", *(_share(one, cycles) for one in waits)))
        tables.append(columns(f"units of core ({x}, {y})", ("", *units), body))
    return tables


def cycle_lines(found: dict[str, Any]) -> list[Row]:
    """Return the summary rows of a cycle-accurate run: times, and the longest stall."""
    rows = _times(found)
    stalls = [(wait, core["core"]) for core in found["cores"] if (wait := longest_wait(core))]
    if stalls:
        (count, cause), (x, y) = max(stalls, key=lambda one: one[0][0])
        share = _share(count, max(1, found["cycles"]))
        rows.append(Row("longest stall", share, f"{cause}, core ({x}, {y})"))
    return rows


def _times(found: dict[str, Any]) -> list[Row]:
    """Return the times of a cycle-accurate run."""
    if "frames" not in found:
        rows = [Row("cycles per frame", found["cycles"])]
    else:
        bound = found["bound"]
        rows = [
            Row("frames", found["frames"]),
            Row("load cycles", found["loading"], "once"),
            Row("latency", found["latency"], "cycles"),
        ]
        if found["period"] is not None:
            rows.append(Row("initiation interval", found["period"], "cycles"))
            if found["mean_period"] != found["period"]:
                rows.append(Row("average interval", found["mean_period"], "cycles"))
        rows += [
            Row("bottleneck", f"{bound['cycles']:,.0f}", f"cycles per frame, {bound['where']}"),
            Row(
                "frames per second", f"{found['frames_per_second']:,.0f}",
                f"at {found['clock_mhz']:g} MHz",
            ),
            Row("flits per frame", found["busiest_link"], "on the busiest link"),
            Row("flit hops per frame", found["flit_hops"]),
        ]  # fmt: skip
    if found["bytes_compared"]:
        rows.append(Row("bytes compared", found["bytes_compared"], "equal to the functional run"))
    return rows


def _row(core: dict[str, Any], cycles: int) -> tuple[Any, ...]:
    """Return a table row of a core: cycles, busy shares of its units, and its longest external
    stall."""
    x, y = core["core"]
    shares = (_share(count, cycles) for count in core["busy"].values())
    wait = longest_wait(core)
    waits_for = "" if wait is None else f"{wait[1]}, {_share(wait[0], cycles)}"
    return f"({x}, {y})", core["alone"], *shares, waits_for


def _share(part: int, whole: int) -> str:
    return f"{100 * part / whole:.1f} %"
