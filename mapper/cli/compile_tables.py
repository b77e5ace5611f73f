"""Output of `mapper compile`: result tables, summary, and tables of alternatives."""

from __future__ import annotations

import argparse
from collections import Counter
from itertools import groupby
from typing import Any, TypeVar

from rich import box
from rich.table import Table
from rich.text import Text

from mapper.cli import terminal
from mapper.compiler.ablation import AblationRow
from mapper.compiler.artifacts.judge.beside import Judgement
from mapper.compiler.artifacts.judge.compare import Beside
from mapper.compiler.explain import NodeRow
from mapper.compiler.outcome import CompileOutcome
from mapper.errors import BEYOND_LIMITS
from mapper.jobs.compile import COMPARED, CompileAnalysis
from mapper.reporting.make import PAGE
from mapper.results.summary import GAP, Row, next_steps, summary
from mapper.results.tables import columns, facts

T = TypeVar("T")


def of_analysis(options: argparse.Namespace, found: CompileAnalysis) -> list[Table]:
    """Return the tables of an analysis; print a note for each row that does not compile."""
    if found.kind == "explain":
        return explain_tables(_of(NodeRow, found), str(options.model))
    if found.kind == "ablate":
        return _ablate(options, _of(AblationRow, found))
    rows = [tuple(one.values()) for one in found.to_json()["compared"]]
    return [columns(str(options.model), COMPARED, rows)]


def _of(kind: type[T], found: CompileAnalysis) -> list[T]:
    return [one for one in found.entries if isinstance(one, kind)]


TILES = {
    "search": "searched tiles",
    "rows": "tiles of whole rows",
    "plane8": "tiles of 8x8",
    "plane16": "tiles of 16x16",
}


def _ablate(options: argparse.Namespace, rows: list[AblationRow]) -> list[Table]:
    """Return the cycles per frame with all passes, without each pass, and with other tiles.

    For one core also the cycles of each layer with all rules for tiles, for several cores latency
    and initiation interval, and other placements.
    """
    several = rows[0].latency is not None
    heads = ["changed", "cycles", "ratio", "SQNR, dB"]
    heads += ["latency", "interval", "flit-hops"] * several
    table = [
        [_changed(row, rows[0]), row.cycles, *_decimals(3, row.share), *_decimals(1, row.signal)]
        + [row.latency, *_decimals(0, row.period, row.flit_hops)] * several
        for row in rows
    ]
    for row in rows:
        if row.why is not None:
            terminal.say(options, f"note: {_changed(row, rows[0])}: {row.why}")
    tables = [columns(f"{options.model.name} on {options.chip}", heads, table)]
    return tables + _layer_table(rows)


def _layer_table(rows: list[AblationRow]) -> list[Table]:
    """Return the cycles and stalls of each layer, and its cycles with other rules for tiles."""
    measured = [row for row in rows if row.layers]
    if len(measured) < 2:
        return []
    first, *others = measured
    rules = [TILES[row.schedule].removeprefix("tiles of ") for row in others]
    heads = ["layer", "cycles", "stalls", *rules]
    table = [
        [one.layer, one.cycles, one.stalls, *(row.layers[at].cycles for row in others)]
        for at, one in enumerate(first.layers)
    ]
    return [columns("cycles of layers, and with other tiles", heads, table)]


def _changed(row: AblationRow, first: AblationRow) -> str:
    """Return the pass, rule for tiles or placement that a row changes."""
    if row.placement != first.placement:
        return f"{row.placement} placement"
    if row.schedule != first.schedule:
        return TILES[row.schedule]
    return f"without {row.without}" if row.without else "nothing"


def _decimals(places: int, *values: float | None) -> list[str]:
    return ["" if value is None else f"{value:,.{places}f}" for value in values]


def limits_code(options: argparse.Namespace, outcome: CompileOutcome) -> int:
    """Return the exit code of a written result; report limits that it misses on stderr."""
    if not outcome.missed:
        return 0
    missed = " and ".join(outcome.missed)
    terminal.complain(
        f"mapper compile: {options.model}: {missed}; {options.output} is kept with --keep-going"
    )
    return BEYOND_LIMITS


def judge_table(found: Judgement) -> Table:
    """Return the table of maps and outputs, compared with ONNX Runtime."""

    def verdict(row: Beside) -> str:
        if row.wanted is None:
            return f"{row.differences:,} differ"
        return "no error" if row.signal is None else f"{row.signal:.1f} dB"

    heads = ("value", "elements", "compared with the model", "ties")
    rows = [(row.name, row.elements, verdict(row), row.ties or "") for row in found.rows]
    return columns(f"compared with ONNX Runtime, {found.frames:,} frames", heads, rows)


def _judged(judge: dict[str, Any]) -> str:
    """Return the number of maps and outputs compared with ONNX Runtime, as text."""
    if judge["why"]:
        return f"no: {judge['why']}"
    left = f", {len(judge['left_out'])} maps left out" if judge["left_out"] else ""
    return f"{len(judge['rows'])} maps and outputs of {judge['frames']} frames{left}"


def result_tables(
    options: argparse.Namespace, outcome: CompileOutcome, judge: dict[str, Any]
) -> list[Table]:
    rows = outcome.rows | {"compared in ONNX Runtime": _judged(judge)}
    return [facts(f"{options.model.name} on {options.chip}", rows)]


def result_summary(options: argparse.Namespace, report: dict[str, Any]) -> Table:
    """Return the summary of a compiled model; report : its report.json."""
    hosted = len(report["host"])
    names = f"{hosted} node{'s' * (hosted != 1)} on the host" if hosted else ""
    cores = len({tuple(one["core"]) for one in report["timelines"]})
    layers = len({tuple(one["nodes"]) for one in report["layers"]})  # cores share layers
    rows = [Row("layers", layers, names), Row("cores", cores)]
    rows += [GAP, *_accuracy(report), *compared_rows(report["judge"])]
    whose = "per frame" if cores == 1 else "of the busiest core, per frame"
    rows.append(Row("cycles", report["cycles"], whose))
    work = report.get("host_cycles", 0)
    slower = cores > 1 and work > report["cycles"]
    if work:
        what = "per frame, between functions" + ", the bottleneck" * slower
        rows.append(Row("host cycles", work, what))
    unit, share = max(report["busy"].items(), key=lambda one: one[1])
    if share:
        name = "busiest unit" if slower else "bottleneck"
        rows.append(Row(name, f"{share:.0%}", f"of the cycles: {UNITS.get(unit, unit)}"))
    memories = {name: one for name, one in report["memories"].items() if one["capacity"]}
    if memories:
        name = max(memories, key=lambda one: memories[one]["used"] / memories[one]["capacity"])
        used, capacity = memories[name]["used"], memories[name]["capacity"]
        rows.append(
            Row(
                "fullest memory",
                f"{used / capacity:.0%}",
                f"{name}: {used:,} of {capacity:,} words",
            )
        )
    rows += next_steps(
        str(options.output / PAGE), f"mapper info {options.output}",
        f"mapper simulate {options.output} --input DATA",
    )  # fmt: skip
    return summary(f"{options.model.name} on {options.chip}", rows)


UNITS = {"LOAD": "load unit", "GEMM": "matrix unit", "ALU": "ALU", "STORE": "store unit"}


def _accuracy(report: dict[str, Any]) -> list[Row]:
    """Return summary rows of SQNR, accuracy, and missed limits."""
    rows = []
    if report["signal_db"] is not None:
        rows.append(Row("SQNR", f"{report['signal_db']:.1f} dB", "at the outputs of the cores"))
    if report["kept"] is not None:
        kept = report["attempts"][report["kept"]]
        if kept["accuracy_integer"] is not None:
            real, whole = (kept[f"accuracy_{kind}"] for kind in ("float", "integer"))
            rows.append(Row("accuracy", f"{whole:.1%}", f"in floating point {real:.1%}"))
        elif kept["loss"]:
            rows.append(Row("top class changes", f"{kept['loss']:.1f}%", "of the samples"))
    return rows + [Row("misses limits", "", text) for text in report.get("limits_missed", ())]


def compared_rows(judge: dict[str, Any]) -> list[Row]:
    """Return summary rows of the comparison with ONNX Runtime."""
    if judge["why"]:
        return [Row("ONNX Runtime", "", f"not compared: {judge['why']}")]
    ties = sum(row["ties"] for row in judge["rows"])
    frames = f"{judge['frames']} frame{'s' * (judge['frames'] != 1)}"
    departing = sum(row["departs"] for row in judge["rows"])
    verdict = f"{departing} depart from" if departing else "agree with"
    verdict += f" ONNX Runtime in {frames}" + (f", {ties:,} ties" if ties else "")
    left = f"; {len(judge['left_out'])} left out" if judge["left_out"] else ""
    return [Row("values compared", len(judge["rows"]), verdict + left)]


SHOWN = 22
"""Maximum length of a node name in the table, characters."""
REASON = 60
"""Maximum width of the reasons, characters: longer lines are hard to read."""


def explain_tables(rows: list[NodeRow], title: str) -> list[Table]:
    """Return a table with a row per node.

    Consecutive nodes with equal entries, such as constants, share a row.
    """
    text = Text(title, "table.title")
    table = Table(title=text, box=box.SIMPLE, title_justify="left", padding=(0, 1, 0, 0))
    for head, width in (("node", SHOWN), ("operator", 13), ("where", 8), ("why", REASON)):
        table.add_column(head, max_width=width, overflow="fold")
    mixed = len({row.bits for row in rows if row.bits is not None}) > 1
    for key, some in groupby(rows, _entries):
        group = list(some)
        kind, where, why, by, cycles, bits = key
        name = _short(group[0].node) if len(group) == 1 else f"{len(group)} nodes"
        if where == "folded" and by is not None:
            why = f"into {_short(by)}: {why}"
        if group[0].remedy and group[0].remedy not in why:
            why = f"{why}; {group[0].remedy}"
        if mixed and bits is not None and where == "core":
            why = f"{why}; {bits} bits"
        if cycles is not None:
            why = f"{why}; {cycles:,} host cycles per frame"
        table.add_row(*map(Text, (name, kind, where, why)))
    counts = Counter(row.where for row in rows)
    functions = len({row.function for row in rows if row.function})
    named = "1 function" if functions == 1 else f"{functions} functions"
    table.caption = Text(
        f"{counts['core']} on cores in {named}, {counts['folded']} folded into them, "
        f"{counts['host']} on the host, {counts['vanished']} removed"
    )
    return [table]


def _entries(row: NodeRow) -> tuple[str, str, str, str | None, int | None, int | None]:
    """Return the entries of a row that consecutive nodes may share."""
    return row.kind, row.where, row.why, row.by, row.cycles, row.bits


def _short(name: str) -> str:
    return name if len(name) <= SHOWN else f"...{name[3 - SHOWN :]}"
