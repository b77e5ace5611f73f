"""Quality tables: a row per case, a column per method, means at the bottom."""

from __future__ import annotations

import math
import statistics
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from bench_runs import Method
from rich.console import Console

from mapper.results.tables import columns

Rows = list[list[str]]


@dataclass(frozen=True, slots=True)
class Table:
    """A table to print and store: cells are text, `means` are numbers."""

    name: str
    title: str
    heads: list[str]
    rows: Rows
    means: dict[str, float] = field(default_factory=dict)


def geometric(values: Sequence[float]) -> float:
    """Return the geometric mean, which is zero if any value is zero."""
    if not values or min(values) <= 0:
        return 0.0 if values else math.nan
    return math.exp(statistics.fmean(math.log(value) for value in values))


@dataclass(frozen=True, slots=True)
class Cell:
    """Result of a method on a case: `value` over the seeds, or the reason why there is none."""

    value: float | None
    seconds: float
    text: str


@dataclass(slots=True)
class Matrix:
    """One metric of all methods on all cases, also as a ratio to a base.

    metric : name in the runs; smaller is better
    clock : name of the seconds in the runs
    least : use the best seed of a peer's valid runs instead of the mean
    """

    name: str
    title: str
    metric: str
    methods: list[Method]
    cases: list[str]
    runs: Sequence[dict[str, Any]]
    least: bool = False
    clock: str = "seconds"
    mean: Callable[[Sequence[float]], float] = geometric

    def cell(self, case: str, method: Method) -> Cell:
        """Return the mean (or least) over the seeds; a preset needs all runs valid."""
        runs = [r for r in self.runs if r["case"] == case and r["method"] == method.name]
        if not runs:
            return Cell(None, math.nan, "-")
        good = [run for run in runs if run.get("valid", False)]
        if not good or (method.ours and len(good) < len(runs)):
            bad = next(run for run in runs if not run.get("valid", False))
            over = f"{bad.get('cores_over')} over"
            return Cell(None, math.nan, "failed" if "failed" in bad else over)
        values = [run[self.metric] for run in good]
        value = min(values) if self.least and not method.ours else statistics.fmean(values)
        return Cell(value, statistics.fmean(run[self.clock] for run in good), "")

    def value(self, case: str, method: Method) -> float | None:
        return self.cell(case, method).value

    def best_peer(self, case: str) -> tuple[float, str] | None:
        """Return the least value of all peers and the name of that peer."""
        found = [
            (value, method.name)
            for method in self.methods
            if not method.ours and (value := self.value(case, method)) is not None
        ]
        return min(found) if found else None

    def tables(
        self, base: Callable[[str], float | None], base_name: str, show_best: bool = False
    ) -> list[Table]:
        """Return the table of values with their ratio to `base`, and the table of seconds."""
        ratios: dict[str, list[float]] = {method.name: [] for method in self.methods}
        values: Rows = []
        times: Rows = []
        for case in self.cases:
            ground = base(case)
            best = self.best_peer(case)
            row = [case, "-" if ground is None else number(ground)]
            if show_best:
                row.append(best[1] if best else "-")
            for method in self.methods:
                cell = self.cell(case, method)
                if cell.value is None:
                    row.append(cell.text)
                else:
                    row.append(number(cell.value))
                    if ground:
                        ratios[method.name].append(cell.value / ground)
                        row[-1] += f" ({cell.value / ground:.3f})" if method.ours else ""
            values.append(row)
            cells = [self.cell(case, method) for method in self.methods]
            times.append([case, *(c.text or f"{c.seconds:.2f}" for c in cells)])
        means = {name: self.mean(found) for name, found in ratios.items() if found}
        # a method with failed rows averages over fewer rows: show how many
        counted = {
            name: f"{means[name]:.4f}" + (f" of {len(found)}" if len(found) < len(values) else "")
            for name, found in ratios.items()
            if found
        }
        names = [method.name for method in self.methods]
        values.append(
            ["mean ratio", "", *([""] if show_best else []), *(counted.get(n, "-") for n in names)]
        )
        heads = ["case", base_name, *(["peer"] if show_best else []), *names]
        return [
            Table(self.name, self.title, heads, values, means),
            Table(
                f"{self.name}-seconds",
                f"{self.title}: {self.clock.replace('_', ' ')}",
                ["case", *names],
                times,
            ),
        ]


def number(value: float) -> str:
    """Return whole numbers with all digits, others with four."""
    if float(value).is_integer():
        return f"{int(value):,}"
    return f"{value:,.0f}" if abs(value) >= 1e4 else f"{value:.4g}"


def markdown(table: Table) -> str:
    rows = [table.heads, ["---", *["---:"] * (len(table.heads) - 1)], *table.rows]
    return "\n".join(["", f"{table.title}", "", *(f"| {' | '.join(row)} |" for row in rows)])


def show(table: Table, as_markdown: bool) -> None:
    """Print a table to the screen, or as Markdown."""
    if as_markdown:
        sys.stdout.write(markdown(table) + "\n")
    else:
        Console(highlight=False).print(columns(table.title, table.heads, table.rows))
