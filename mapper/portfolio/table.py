"""Table of the runs of a portfolio, for the terminal."""

from __future__ import annotations

from typing import Any

from msgspec import UNSET
from rich.table import Table

from mapper.portfolio.portfolio_file import PortfolioFile, Run
from mapper.results.tables import columns

COSTS = {  # cost of a run, by objective
    "unicast": "hops of packets to synapses",
    "core": "hops of packets to cores",
    "multicast": "hops of multicast trees",
    "cut": "cut weight",
    "time": "cycles per tick",
}


def table_of(portfolio: PortfolioFile, title: str) -> Table:
    """Return a table of the varied values, the figures and the state of each run."""
    varied = _varied(list(portfolio))
    timed = any(
        run.figures is not UNSET and run.figures.tick_cycles is not UNSET for run in portfolio
    )
    on_front = len(portfolio.groups()) > 1
    heads = [*(varied or ["run"]), "hops"]
    heads += ["cores", "busiest link"] if on_front else ["cut weight"]
    heads += [*(["cycles per tick"] if timed else []), "seconds", ""]
    rows = [
        [
            *(str(run.given[name]) for name in varied),
            *([] if varied else [run.folder]),
            *_figures(run, timed, on_front),
            _state(run, on_front),
        ]
        for run in portfolio
    ]
    objectives = {run.objective for run in portfolio}
    judged = COSTS[objectives.pop()] if len(objectives) == 1 else "hops"
    told = f"{title}: best by {judged}"
    if on_front:
        told += " with the same chip; Pareto front by hops, cores and busiest link"
    return columns(told, heads, rows)


def _varied(runs: list[Run]) -> list[str]:
    """Return the names of values that differ between runs."""
    names = dict.fromkeys(name for run in runs for name in run.given)
    if len(runs) == 1:
        return list(names)
    return [name for name in names if len({repr(run.given.get(name)) for run in runs}) > 1]


def _figures(run: Run, timed: bool, on_front: bool) -> list[Any]:
    found = run.figures
    if found is UNSET:
        return [None] * (3 + timed + on_front)
    ticks = None if found.tick_cycles is UNSET else found.tick_cycles
    used = [found.cores_used, found.link_load_max] if on_front else [found.cut_weight]
    return [found.hops, *used, *([ticks] if timed else []), f"{found.seconds:.1f}"]


def _state(run: Run, on_front: bool) -> str:
    """Return the last cell: the best runs, runs on the front, and runs without a result."""
    if run.state != "done":
        return run.state
    told = [*(["best"] if run.best else []), *(["front"] if on_front and run.front else [])]
    return ", ".join(told) or ("" if run.kept else "dropped")
