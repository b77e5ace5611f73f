"""Choice of the cut of layers: several are generated, placed and run on the simulated chip.

The quality of a cut is known only from simulation: cores wait for rows, for credits, and for links.
Each way to cut is tried a few times; each try is simulated for a few frames and corrects the costs
of the slowest cores for the next one. The cut with the shortest period wins, or a slightly slower
one whose latency is reduced by more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import Generic, NamedTuple, TypeVar

from mapper.compiler.multicore.cuts.period import Grouped, Line
from mapper.compiler.multicore.cuts.ways import TRIES
from mapper.compiler.program.links import StreamsError
from mapper.errors import DoesNotFitError

REFUSED = 3
"""Maximum tries per way to cut that do not fit in the cores."""
LONGER = 1.1  # factor of the next period after a cut that does not fit
MUCH_LONGER = 1.5  # the same if layers have too many parts for the streams of a core
HOPELESS = 1.2  # give up above this multiple of another way's period: tries gain at most a sixth
NEARLY = 1.09
"""Maximum period, as a multiple of the shortest, that is accepted for a shorter latency."""

PATIENCE = 2
"""Further cuts over more cores that are tried without an improvement of latency."""

M = TypeVar("M")


class Tried(NamedTuple, Generic[M]):
    """A cut and its result. cycles : cycles per core, including waits for routers, in the order of
    its groups"""

    found: Grouped
    made: M
    cycles: Sequence[float]
    period: float
    latency: int


def tried(
    line: Line, run: Callable[[Grouped], Tried[M]], before: Sequence[Tried[M]] = (),
    tries: int = TRIES, over: Callable[[], bool] = lambda: False,
    is_enough: Callable[[Tried[M]], bool] = lambda _: False,
) -> list[Tried[M]]:  # fmt: skip
    """Return some simulated cuts of a line.

    run : generates the programs of a cut and runs them; raises `DoesNotFitError`
    before : results of other ways; a way is abandoned if its first cut is much slower
    tries : maximum number of simulated cuts; over : whether the time for the search is up
    is_enough : whether no cut can be better
    Raises `DoesNotFitError` if no cut fits.
    """
    all_: list[Tried[M]] = []
    seen: list[Grouped] = []
    least, period, refusals = 0.0, 0, list[DoesNotFitError]()
    crowded: StreamsError | None = None  # the last one for which parts were joined
    while len(all_) + len(refusals) < tries + REFUSED and len(all_) < tries and not over():
        try:
            period, found = line.shortest(least)
        except DoesNotFitError as error:
            if crowded is None:
                refusals.append(error)
                break
            refusals.append(crowded)  # larger parts fit no core
            line.forget_limits()
            least, crowded = MUCH_LONGER * period, None
            continue
        if any(one.pieces == found.pieces and one.groups == found.groups for one in seen):
            break  # converged
        seen.append(found)
        try:
            one = run(found)
        except DoesNotFitError as error:
            if isinstance(error, StreamsError) and line.relieve(found, error.crowded):
                crowded = error
                continue
            refusals.append(error)
            if len(refusals) > REFUSED:
                break
            least = (MUCH_LONGER if isinstance(error, StreamsError) else LONGER) * period
            continue
        all_.append(one)
        if is_hopeless(one, before) or is_enough(one):
            break
        line.learn(found, one.cycles)
    if not all_ and refusals:
        raise refusals[-1]
    return all_


def is_hopeless(one: Tried[M], before: Sequence[Tried[M]]) -> bool:
    """Return whether further tries of a way cannot be better than the cuts of other ways."""
    return any(one.period > HOPELESS * other.period for other in before)


def each(
    cuts: Iterable[Grouped], run: Callable[[Grouped], Tried[M]], over: Callable[[], bool]
) -> list[Tried[M]]:
    """Run cuts in order; stop `PATIENCE` cuts after the one with the shortest latency.

    over : whether the time for the search is up
    """
    all_: list[Tried[M]] = []
    for found in cuts:
        with suppress(DoesNotFitError):
            all_.append(run(found))
        least = min(all_, key=lambda one: one.latency, default=None)
        if least is not None and (len(all_) - all_.index(least) > PATIENCE or over()):
            break
    return all_


def earliest(all_: Sequence[Tried[M]]) -> Tried[M]:
    """Return the cut with the shortest latency; break ties by the period."""
    return min(all_, key=lambda one: (one.latency, one.period))


def best_of(all_: Sequence[Tried[M]]) -> Tried[M]:
    """Return the cut with the shortest period, or a slightly slower one with much less latency."""
    least = min(one.period for one in all_)
    near = [one for one in all_ if one.period <= NEARLY * least]
    return min(near, key=lambda one: (one.latency * one.period, one.period))
