"""Which cut of the layers a model runs with: some are made, placed and run on the simulated chip.

What a cut is worth is known when it runs: cores wait for rows, for credits, and for links. So each
way to cut is tried a few times, each time with what the last try said of the cores that worked
longest, and runs a few frames. That with the shortest period wins, or one that is a little slower
and has a latency that is shorter by more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import Generic, NamedTuple, Protocol, TypeVar

from mapper.compiler.cores.period import Grouped
from mapper.errors import DoesNotFitError

TRIES, REFUSED = 3, 3
"""Of each way to cut, and of them so many that memories or streams of cores do not hold."""
LONGER = 1.1  # periods, behind a cut that does not fit
HOPELESS = 1.2  # times the period of another way: tries gain up to a sixth
NEARLY = 1.09
"""Periods beyond the shortest one that a shorter latency may be worth."""

PATIENCE = 2
"""Cuts over more cores that are tried though they do not make the latency shorter."""

M = TypeVar("M")


class Tried(NamedTuple, Generic[M]):
    """A cut and what it became. cycles : of each core, waits for
    routers included, in the order of its groups"""

    found: Grouped
    made: M
    cycles: Sequence[float]
    period: float
    latency: int


class Cutter(Protocol):
    """What cuts layers, see `mapper.compiler.cores.period.Line`."""

    def shortest(self, least: float) -> tuple[int, Grouped]: ...

    def learn(self, made: Grouped, cycles: Sequence[float]) -> None: ...


def tried(
    line: Cutter, run: Callable[[Grouped], Tried[M]], before: Sequence[Tried[M]] = ()
) -> list[Tried[M]]:
    """Some cuts of a line.

    run : makes the programs of a cut, and runs them; raises `DoesNotFitError`
    before : cuts that were tried in other ways: a way that begins far behind them ends there
    Raises `DoesNotFitError` if no cut fits.
    """
    all_: list[Tried[M]] = []
    seen: list[Grouped] = []
    least, refusals = 0.0, list[DoesNotFitError]()
    while len(all_) + len(refusals) < TRIES + REFUSED and len(all_) < TRIES:
        period, found = line.shortest(least)
        if any(one.pieces == found.pieces and one.groups == found.groups for one in seen):
            break  # it has learnt all there is
        seen.append(found)
        try:
            one = run(found)
        except DoesNotFitError as error:
            refusals.append(error)
            if len(refusals) > REFUSED:
                break
            least = LONGER * period
            continue
        all_.append(one)
        if any(one.period > HOPELESS * other.period for other in before):
            break
        line.learn(found, one.cycles)
    if not all_:
        raise refusals[-1]
    return all_


def each(cuts: Iterable[Grouped], run: Callable[[Grouped], Tried[M]]) -> list[Tried[M]]:
    """Cuts that fit, up to the second one behind that with the shortest latency."""
    all_: list[Tried[M]] = []
    for found in cuts:
        with suppress(DoesNotFitError):
            all_.append(run(found))
        least = min(all_, key=lambda one: one.latency, default=None)
        if least is not None and len(all_) - all_.index(least) > PATIENCE:
            break
    return all_


def earliest(all_: Sequence[Tried[M]]) -> Tried[M]:
    """The shortest latency, of several the shortest period."""
    return min(all_, key=lambda one: (one.latency, one.period))


def best_of(all_: Sequence[Tried[M]]) -> Tried[M]:
    """The shortest period; a little of it is given for a latency that is shorter by more."""
    least = min(one.period for one in all_)
    near = [one for one in all_ if one.period <= NEARLY * least]
    return min(near, key=lambda one: (one.latency * one.period, one.period))
