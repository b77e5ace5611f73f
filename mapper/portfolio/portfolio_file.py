"""portfolio.json: the runs of a portfolio, their outcomes, and the best run."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, Literal

import msgspec
from msgspec import UNSET, Struct, UnsetType

from mapper.errors import CannotResumeError, MapperError
from mapper.portfolio.executor import Outcome
from mapper.portfolio.figures import Figures
from mapper.portfolio.pareto import CRITERIA, pareto_front
from mapper.settings import SETTINGS
from mapper.version import version
from storage.errors import BadInputError
from storage.files import read_input, write_file
from storage.jsontext import parse_json
from storage.typed import Plain, Whole, convert

PORTFOLIO_FILE = "portfolio.json"
TABLE_FILE = "sweep.csv"  # of a sweep, next to it
SCHEMA = 1
INPUT = ("network", "rates", "weights_are", "constraints", "split_neurons")
"""Values of a sweep that change the mapped network, as opposed to the chip and the method."""
MOST_FILE_BYTES = 256 << 20  # bytes: 100,000 runs with their figures


class Tool(Struct):
    """The program that wrote the file."""

    name: str
    version: str


class Run(Struct):
    """One of the runs.

    folder : its output folder, next to portfolio.json
    given : its seed, or its values of the varied keys of a sweep, by name
    digest : hash of all inputs that determine its result
    objective : the objective that it minimises
    state : waiting, done or failed
    kept : its folder has not been dropped
    best : best of all completed runs, or of all with the same network and chip
    front : on the Pareto front of the completed runs with the same input, see
        `mapper.portfolio.pareto`
    """

    folder: str
    given: dict[str, Plain]
    digest: str
    objective: str
    state: Literal["waiting", "done", "failed"] = "waiting"
    kept: bool = True
    best: bool = False
    front: bool = False
    figures: Figures | UnsetType = UNSET
    error: str | UnsetType = UNSET
    exit_code: Whole | UnsetType = UNSET


class Portfolio(Struct):
    """The runs of a portfolio of seeds or of a sweep.

    request : the inputs that all runs share, or the varied keys; compared when runs are resumed
    """

    schema: Literal[1]
    tool: Tool
    request: dict[str, Any]
    runs: list[Run]


class PortfolioFile:
    """The portfolio.json of a folder; `add` and `write` store changes."""

    def __init__(self, folder: Path, content: Portfolio) -> None:
        self.folder, self.content = folder, content
        self._runs = {run.folder: run for run in content.runs}

    @classmethod
    def begin(cls, folder: Path, request: dict[str, Any], runs: list[Run]) -> PortfolioFile:
        """Create a portfolio in which all runs are waiting, and write it."""
        tool = {"name": "mapper", "version": version()}
        content = {"schema": SCHEMA, "tool": tool, "request": request, "runs": []}
        portfolio = cls(folder, convert(json.loads(json.dumps(content)), Portfolio))
        portfolio.add(runs)
        return portfolio

    def add(self, runs: Iterable[Run]) -> None:
        """Add runs that are new, and write the file."""
        for run in runs:
            if run.folder not in self._runs:
                self._runs[run.folder] = run
                self.content.runs.append(run)
        self.write()

    def require_same(self, request: dict[str, Any], runs: list[Run]) -> None:
        """Raise `CannotResumeError` if the portfolio was started with another request."""
        earlier, now = self.content.request, json.loads(json.dumps(request))
        for name in {**now, **earlier}:
            if earlier.get(name) != now.get(name):
                raise CannotResumeError(
                    f"{self.folder}: was started with {name} {_short(earlier.get(name))}, now it "
                    f"is {_short(now.get(name))}; repeat the same command, or give --force without "
                    "--resume"
                )
        for run in runs:
            known = self._runs.get(run.folder)
            if known is not None and known.digest != run.digest:
                raise CannotResumeError(
                    f"{self.folder / run.folder}: was started with another network, chip or "
                    "settings; repeat the same command, or give --force without --resume"
                )

    def __iter__(self) -> Iterator[Run]:
        return iter(self.content.runs)

    def run(self, name: str) -> Run:
        """Return the run of this folder."""
        return self._runs[name]

    def forget(self, run: Run) -> None:
        """Reset a run whose folder is missing: it is executed again."""
        run.state, run.figures = "waiting", UNSET

    def take(self, outcome: Outcome) -> None:
        """Record the outcome of a run in memory; `write` stores it."""
        run = self._runs[outcome.name]
        if outcome.figures is None:
            run.state, run.error, run.exit_code = "failed", outcome.error, outcome.exit_code
            run.figures = UNSET
        else:
            run.state, run.figures = "done", outcome.figures
            run.error = run.exit_code = UNSET
        run.kept = True

    def choose(self) -> None:
        """Mark the best run of each group, by the common objective or else hops, and the fronts.

        Ties go to the first run of the list, so the order of completion does not matter.
        """
        for group in self.groups():
            done = [run for run in group if run.figures is not UNSET]
            for run in group:
                run.best = False
            if done:
                min(done, key=cost_in(group)).best = True
        for group in self._groups_by(lambda name: name in INPUT):
            done = [run for run in group if run.figures is not UNSET]
            points = [[getattr(run.figures, name) for name in CRITERIA] for run in done]
            for run in group:
                run.front = False
            for run, on_front in zip(done, pareto_front(points), strict=True):
                run.front = on_front

    def groups(self) -> list[list[Run]]:
        """Return groups of comparable runs: runs of a group differ in settings only."""
        return self._groups_by(lambda name: name not in SETTINGS)

    def _groups_by(self, counts: Callable[[str], bool]) -> list[list[Run]]:
        """Return groups of runs with equal values of the names that count."""
        found: dict[str, list[Run]] = {}
        for run in self:
            key = {name: value for name, value in run.given.items() if counts(name)}
            found.setdefault(json.dumps(key), []).append(run)
        return list(found.values())

    def write(self) -> None:
        """Write the file atomically."""
        text = json.dumps(self.to_json(), indent=1) + "\n"
        write_file(self.folder / PORTFOLIO_FILE, text.encode())

    def to_json(self) -> dict[str, Any]:
        found: dict[str, Any] = msgspec.to_builtins(self.content)
        return found


def cost_in(group: Iterable[Run]) -> Callable[[Run], float]:
    """Return the function that ranks completed runs of a group: their cost or their hops."""
    same = len({run.objective for run in group}) == 1

    def cost(run: Run) -> float:
        assert run.figures is not UNSET
        return run.figures.cost if same else run.figures.hops

    return cost


def read_portfolio(folder: Path) -> PortfolioFile:
    """Read the portfolio.json of a folder; raises `MapperError` if it is damaged."""
    path = folder / PORTFOLIO_FILE
    try:
        return PortfolioFile(
            folder, convert(parse_json(read_input(path, MOST_FILE_BYTES)), Portfolio)
        )
    except BadInputError as error:
        raise MapperError(str(error)) from error
    except ValueError as error:
        raise MapperError(f"{path}: {error}; start again with --force") from error


def _short(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
