"""A placer: groups in their order, along rows that are walked in alternating directions."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from mapper.extend import Placed, Placer, Problem


@dataclass(frozen=True)
class SnakePlacer(Placer):
    """Places groups in their order along a snake of rows."""

    def place(
        self, problem: Problem, start: Placed | None, rng: np.random.Generator
    ) -> Iterator[Placed]:
        """Yield one placement; it depends on the order of the groups only."""
        y, x = np.nonzero(problem.region.usable)
        walk = np.lexsort((np.where(y % 2 == 0, x, -x), y))[: problem.size]
        yield problem.placed(x[walk].astype(np.int32), y[walk].astype(np.int32))


SNAKE = SnakePlacer()
