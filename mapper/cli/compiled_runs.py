"""`mapper simulate` for compiled models: run the programs of the cores on samples."""

from __future__ import annotations

import argparse
from typing import Any

from rich.table import Table

from mapper.cli import compile_tables, terminal
from mapper.cli import options as common
from mapper.cli.compile_tables import compared_rows
from mapper.compiler.artifacts.judge.folders import require_right
from mapper.compiler.artifacts.manifest import CompiledFolder, read_folder
from mapper.compiler.artifacts.report import add_simulation
from mapper.compiler.artifacts.run import RunRequest, SamplesRun, run_folder
from mapper.errors import BAD_INPUT, UsageError
from mapper.reporting.compiled.chiprun import longest_wait
from mapper.reporting.make import PAGE
from mapper.results.output_folder import writing_into
from mapper.results.summary import GAP, Row, next_steps, summary
from mapper.results.tables import columns, facts
from storage.samples import require_samples

MOST_TABLES = 4  # cores with one table of cycles each; more cores share one table


def run_compiled(options: argparse.Namespace) -> int:
    """Run the programs of a compiled model on samples."""
    if options.input is None and options.cycles is None:
        raise UsageError(f"{options.path}: is a compiled model; add samples with --input")
    if options.input is not None:
        require_samples(options.input)
    folder = read_folder(options.path)
    request = RunRequest(
        options.input, options.limit, options.check, options.cycles is not None, options.frames,
        options.clock, options.dump, options.hardware, common.threads_of(options),
    )  # fmt: skip
    run = run_folder(folder, request, common.listener(options))
    result = run.to_json()
    with writing_into(options.path):
        add_simulation(options.path, result)
    if run.samples is None:
        title = f"{options.path}, cycle by cycle"
        terminal.emit(
            options, result, cycle_tables(result["cycle_run"], str(options.path)),
            summary(title, cycle_lines(result["cycle_run"])),
        )  # fmt: skip
        return 0
    found = run.samples
    tables = _tables(options, folder, result, found)
    terminal.emit(options, result, tables, _summary(options, folder, result))
    if found.differences:
        terminal.complain(f"{found.differences:,} elements differ from the integer reference")
        return BAD_INPUT
    if found.judgement is not None:
        require_right(found.judgement, options.path)
    return 0


def _tables(
    options: argparse.Namespace, folder: CompiledFolder, result: dict[str, Any], found: SamplesRun
) -> list[Table]:
    """Return the tables of a run on samples."""
    rows: dict[str, Any] = {"samples": result["frames"]}
    if "accuracy" in result:
        rows["accuracy"] = f"{100 * result['accuracy']:.2f} %"
    rows["SHA-256 of results"] = result["sha256"]
    tables = [facts(f"{folder.manifest['model']['name']} on {options.path}", rows)]
    if found.compared is not None:
        heads = ("layer", "elements", "differences")
        tables.append(columns("compared with the reference", heads, found.compared))
    if found.judgement is not None:
        tables.append(compile_tables.judge_table(found.judgement))
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
