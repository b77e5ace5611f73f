"""Figures with their targets, as printed by `bench_npu.py`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class Figure:
    """A measured value and whether its target is met; None means no target.

    of, what : the model and chip, or the part of the core; the name of the figure
    """

    of: str
    what: str
    found: float | str | None
    target: str = ""
    met: bool | None = None

    @property
    def shown(self) -> str:
        if self.found is None or isinstance(self.found, str):
            return self.found or ""
        if isinstance(self.found, int) or self.found >= 1000 or self.found == int(self.found):
            return f"{self.found:,.0f}"
        return f"{self.found:.3g}"

    @property
    def verdict(self) -> str:
        return "" if self.met is None else "ok" if self.met else "MISSED"

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def at_most(of: str, what: str, found: float, limit: float | None) -> Figure:
    if limit is None:
        return Figure(of, what, found)
    return Figure(of, what, found, f"<= {limit:,g}", found <= limit)


def at_least(of: str, what: str, found: float, limit: float | None) -> Figure:
    if limit is None:
        return Figure(of, what, found)
    return Figure(of, what, found, f">= {limit:,g}", found >= limit)


def equal(of: str, what: str, is_equal: bool) -> Figure:
    return Figure(of, what, "equal" if is_equal else "not equal", "equal", is_equal)


def show(found: Sequence[Figure]) -> None:
    from rich.console import Console

    from mapper.results.tables import columns

    rows = [(one.of, one.what, one.shown, one.target, one.verdict) for one in found]
    console = Console(width=max(120, Console().width))
    console.print(columns("NPU cores and chips", ("of", "figure", "found", "target", ""), rows))
