"""The table of all cases, and the folder of those that fail."""

from __future__ import annotations

import shutil
from collections import Counter, defaultdict
from pathlib import Path

from scripts.torture.outcomes import FAULTS, RAISED, REFUSED, RIGHT, STUCK, WRONG, Outcome

COLUMNS = ("family", "tried", REFUSED, RIGHT, WRONG, "tracebacks", STUCK, "slowest refusal",
           "most memory")  # fmt: skip
MOST_KEPT = 100  # folders of failed cases


class Table:
    """Counts of outcomes by family. keep : folder for failed cases"""

    def __init__(self, keep: Path) -> None:
        self._keep, self._kept = keep, 0
        self._counts: defaultdict[str, Counter[str]] = defaultdict(Counter)
        self._slowest: defaultdict[str, float] = defaultdict(float)
        self._grown: defaultdict[str, int] = defaultdict(int)

    @property
    def failed(self) -> int:
        return sum(count[how] for count in self._counts.values() for how in FAULTS)

    def add(self, outcome: Outcome, work: Path) -> None:
        """Count an outcome; print a failed case and keep its folder."""
        self._counts[outcome.family][outcome.how] += 1
        family = outcome.family
        self._slowest[family] = max(self._slowest[family], outcome.seconds)
        self._grown[family] = max(self._grown[family], outcome.grown)
        if outcome.how not in FAULTS:
            return
        repeat = f"python scripts/torture.py --only '{outcome.family}' --case {outcome.seed}"
        text = f"{outcome.how}: {outcome.what}\n    {outcome.said.strip()}\n    repeat: {repeat}\n"
        print(text, flush=True)
        if self._kept < MOST_KEPT:
            self._kept += 1
            folder = self._keep / f"{outcome.family.replace(' ', '-')}-{outcome.seed}"
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(parents=True)
            (folder / "case.txt").write_text(text)
            if work.exists():
                shutil.copytree(work, folder / "work", symlinks=True, ignore=_special)

    def lines(self) -> list[str]:
        """Return the table in Markdown."""
        rows = [self._row(name, count) for name, count in self._counts.items()]
        total: Counter[str] = sum(self._counts.values(), Counter())
        rows.append(self._row("all", total))
        rule = "|".join(["---"] + ["---:"] * (len(COLUMNS) - 1))
        return [f"| {' | '.join(COLUMNS)} |", f"|{rule}|", *rows]

    def _row(self, name: str, count: Counter[str]) -> str:
        slowest = self._slowest.get(name, max(self._slowest.values(), default=0.0))
        numbers = [count.total(), *(count[how] for how in (REFUSED, RIGHT, WRONG, RAISED, STUCK))]
        grown = self._grown.get(name, max(self._grown.values(), default=0)) >> 20
        counts = " | ".join(f"{one:,}" for one in numbers)
        return f"| {name} | {counts} | {slowest:.1f} s | {f'{grown} MiB' if grown else '-'} |"


def _special(folder: str, names: list[str]) -> list[str]:
    """Return the names of files that cannot be copied: pipes and devices."""
    return [
        name for name in names
        if not ((path := Path(folder) / name).is_file() or path.is_dir() or path.is_symlink())
    ]  # fmt: skip
