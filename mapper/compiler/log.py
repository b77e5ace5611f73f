"""Log of a compilation, which its stages and passes extend."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(slots=True)
class CompileLog:
    """Log lines in order.

    lines : changes of stages and passes
    notes : changes of numbers, or of where they are computed, which the user should know
    """

    lines: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def add(self, line: str) -> None:
        self.lines.append(line)
