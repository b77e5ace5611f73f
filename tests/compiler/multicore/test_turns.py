"""Cuts for low latency: cores alternate, and layers are split only where that shortens them."""

from __future__ import annotations

from collections import Counter
from copy import deepcopy
from dataclasses import replace

import pytest

from chipsim.chip.model import Chip
from mapper.compiler.artifacts.cycles import run_frames
from mapper.compiler.multicore.cuts.period import Line
from mapper.compiler.multicore.cuts.turns import turns
from mapper.compiler.multicore.job import MacroPiece
from mapper.compiler.multicore.known_costs import PartCost
from mapper.compiler.program.inputs import Span
from mapper.errors import DoesNotFitError
from tests.compiler.multicore.test_programs import HOW, checked, folder
from tests.compiler.networks import residual
from tests.compiler.programs import SHAPE


class Lines(Line):
    """Layers by their units; layers in `fixed` take as long in parts as whole."""

    def __init__(self, units: list[int], fixed: tuple[int, ...] = (), most: int = 99) -> None:
        self.sizes, self.fixed, self.most = units, fixed, most
        self.chains = [(number,) for number in range(len(units))]

    def units(self, number: int) -> int:
        return self.sizes[number]

    def cost(self, number: int, size: int) -> PartCost:
        if size > self.most:
            raise DoesNotFitError("too large")
        return PartCost(100 if number in self.fixed else 10 * size, 0, 0, 0, 0, 0, 0)

    def pieces(self, number: int, first: int, stop: int) -> list[MacroPiece]:
        return [MacroPiece(number, Span(first, stop), Span(0, 1))]


def made(line: Lines, cores: int) -> list[dict[int, list[tuple[int, int]]]]:
    """Return, for each cut, the rows and cores of each layer."""
    found = []
    for cut in turns(line, cores):
        layers: dict[int, list[tuple[int, int]]] = {}
        for piece, group in zip(cut.pieces, cut.groups, strict=True):
            layers.setdefault(piece.macro, []).append((piece.rows.size, group))
        found.append(layers)
    return found


def test_layers_alternate_between_cores() -> None:
    found = made(Lines([6, 3, 8], fixed=(1,)), 4)
    assert [len(one[0]) for one in found] == [2, 3, 3]
    assert all(one[1] == [(3, 0)] for one in found)
    assert found[0][2] == [(4, 0), (4, 1)]
    assert found[2][2] == [(2, 0), (2, 1), (2, 2), (2, 3)]
    # six rows in four parts take as long as in three, so there are three, on separate cores
    assert [len(one[0]) for one in made(Lines([6, 8]), 4)] == [2, 3, 3]
    assert [group for _, group in made(Lines([6, 8]), 4)[2][0]] == [0, 1, 2]


def test_parts_that_do_not_fit_are_left_out() -> None:
    found = made(Lines([8, 8], most=2), 4)
    assert [Counter(group for _, group in one[0]) for one in found] == [Counter(range(4))]


@pytest.mark.heavy
@pytest.mark.sample(0.25)
@pytest.mark.jit
def test_latency_or_throughput() -> None:
    """N11.2: the same bytes; the latency is shorter, and the period longer."""
    build, chip = residual(3, channels=40), Chip("mesh", 3, 2)
    ran = []
    for objective in ("throughput", "latency"):
        settings = replace(HOW, objective=objective)  # type: ignore[arg-type]
        found = folder(deepcopy(build), settings, SHAPE, chip)
        assert {one.differences for one in checked(build, found)} == {0}
        ran.append(run_frames(found, None, 8).report)
    (fast, early) = ran
    assert early.latency < fast.latency
    assert fast.period is not None and early.period is not None and fast.period <= early.period
