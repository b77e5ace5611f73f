"""List finished runs, compilations and sweeps of the catalogue."""

from __future__ import annotations

from fnmatch import fnmatch
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from mapper.errors import UsageError
from mapper.frames import to_frame

if TYPE_CHECKING:
    from mapper.cache.catalogue import Row

LAST = 20
"""Rows of a list, by default."""


class RunsQuery(NamedTuple):
    """Rows of the catalogue to list.

    network, chip : names or patterns such as *cortex*; a network matches its name or its path
    kind : command that wrote them
    best : figure in whose order they are listed; None for the order in time
    last : maximum number of rows
    """

    network: str | None = None
    chip: str | None = None
    kind: str | None = None
    best: str | None = None
    last: int = LAST

    def matches(self, row: Row) -> bool:
        """Return whether a row has the network, the chip and the kind."""
        network, chip = self.network, self.chip
        return (
            (
                network is None
                or fnmatch(row.input, network)
                or fnmatch(Path(row.input).name, network)
            )
            and (chip is None or fnmatch(row.chip, chip))
            and (self.kind is None or row.kind == self.kind)
        )


class FinishedRuns(NamedTuple):
    """Rows of the catalogue, the last ones or the best ones, returned by `mapper.runs`.

    entries : the rows as objects
    matching : number of rows that match, listed or not
    """

    entries: list[Row]
    matching: int

    @property
    def rows(self) -> list[dict[str, Any]]:
        """Rows as in `mapper runs --json`: id, when, kind, input, folder, chip, figures, ..."""
        from msgspec import to_builtins

        return [to_builtins(row) | {"exists": Path(row.folder).is_dir()} for row in self.entries]

    def to_json(self) -> dict[str, Any]:
        """Return the object that `mapper runs --json` prints."""
        return {"runs": self.rows, "count": self.matching}

    def to_frame(self, library: str = "pandas") -> Any:
        """Return a data frame of "pandas" or "polars", with a column for each figure."""
        return to_frame(self._flat(), library)

    def _flat(self) -> list[dict[str, Any]]:
        nested = ("settings", "figures")
        return [
            {name: value for name, value in row.items() if name not in nested} | row["figures"]
            for row in self.rows
        ]

    def _repr_html_(self) -> str:
        from mapper.reporting.notebook import rows_html

        return rows_html(self._flat())


def find_runs(query: RunsQuery) -> FinishedRuns:
    """Return the rows that match; raise `UsageError` if none has the figure of `best`."""
    from mapper.cache.catalogue import Catalogue

    rows = [row for row in Catalogue.of_user().rows() if query.matches(row)]
    if query.best is None:
        return FinishedRuns(rows[-query.last :], len(rows))
    return FinishedRuns(_best(rows, query.best)[: query.last], len(rows))


def _best(rows: list[Row], figure: str) -> list[Row]:
    """Return the rows that have a figure, in its order; raise `UsageError` if none has it."""
    found = [row for row in rows if figure in row.figures]
    if rows and not found:
        names = ", ".join(sorted({name for row in rows for name in row.figures}))
        raise UsageError(f"--best {figure}: is not a figure of these runs; give one of {names}")
    return sorted(found, key=lambda row: (row.figures[figure], row.when))
