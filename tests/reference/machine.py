"""Reference implementation of machine axes: every distance is walked, on a torus both ways."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from chipsim.chip.machine import STRAIGHT, Axes


@dataclass(frozen=True)
class Line:
    """Consecutive positions.

    steps : cost of the step from each position to the next, the last one to the first on a torus.
        Without steps all cost 1, and the line is unlimited.
    """

    steps: tuple[int, ...] = ()
    torus: bool = False

    def walk(self, a: int, b: int) -> int:
        """Return the cost of going up from a to b, wrapping round if b is lower."""
        total = 0
        while a != b:
            total += self.steps[a]
            a = (a + 1) % len(self.steps)
        return total

    def towards(self, a: int, b: int) -> int:
        """Return the cheapest way from a to b, negative downwards; prefer the straight one."""
        if not self.steps:
            return b - a
        straight = self.walk(a, b) if b >= a else -self.walk(b, a)
        if not self.torus:
            return straight
        round_ = -self.walk(b, a) if b >= a else self.walk(a, b)
        return min(straight, round_, key=abs)

    def far(self, a: int, b: int) -> int:
        return abs(self.towards(a, b))

    def step(self, a: int, up: bool) -> int:
        """Return the cost of the step from a to the next position, or to the previous one."""
        return self.steps[a if up else a - 1] if self.steps else 1

    @property
    def coordinates(self) -> list[int]:
        return [self.walk(0, place) for place in range(len(self.steps))]


@dataclass(frozen=True)
class Plane:
    """Columns and rows of cores."""

    x: Line = Line()
    y: Line = Line()

    def far(self, a: tuple[int, int], b: tuple[int, int]) -> int:
        return self.x.far(a[0], b[0]) + self.y.far(a[1], b[1])

    @property
    def axes(self) -> Axes:
        rounds = [sum(line.steps) if line.torus else STRAIGHT for line in (self.x, self.y)]
        x, y = (np.array(line.coordinates, np.int32) for line in (self.x, self.y))
        return Axes(x, y, *rounds)


FLAT = Plane()


def random_plane(seed: int, width: int, height: int) -> Plane:
    """Return a flat mesh, one with tiles and chips, or a torus of these, depending on the seed."""
    rng = np.random.default_rng([seed, 18])

    def line(length: int) -> Line:
        if seed % 3 == 0:
            return Line((1,) * length)
        steps = tuple(rng.choice([0, 1, 1, 3, 10], length).tolist())
        return Line(steps, seed % 3 == 2 and sum(steps) > 0 and bool(rng.random() < 0.8))

    return Plane(line(width), line(height))
