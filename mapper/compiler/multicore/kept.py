"""Results of the search over cores in the cache: the best cut, and the tiles of its layers.

Programs are generated again from them. The key of a result stands for all inputs of the compilation
but the placement: every placement uses the same cut.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import msgspec

from mapper.cache.cache import Slot
from mapper.compiler.codegen.program import Tiling
from mapper.compiler.log import CompileLog
from mapper.compiler.multicore.cuts.period import Grouped
from mapper.compiler.multicore.cuts.tries import Tried
from mapper.compiler.multicore.job import CompileJob, MacroPiece
from mapper.compiler.multicore.known_costs import PartCost, packed
from mapper.compiler.multicore.line_buffers.lines import lines_of
from mapper.compiler.multicore.simulated import Programs, Site
from mapper.compiler.program.links import Place
from mapper.compiler.settings import Dual
from mapper.compiler.tiling.tiles import Cut


class Chosen(NamedTuple):
    """Result of a search.

    tries : number of simulated cuts; ended : whether the time limit ended the search
    """

    best: Tried[Programs]
    tries: int
    ended: bool = False


class _CoreTiling(NamedTuple):
    group: int
    cuts: tuple[Cut, ...]
    dual: Dual
    reloaded: list[str]


class _Record(NamedTuple):
    """A result in the cache. lines : links and tightness of `Lines`, if there are line buffers"""

    lag: float
    lines: tuple[int, bool] | None
    pieces: list[MacroPiece]
    costs: list[PartCost]
    groups: list[int]
    places: list[Place]
    tilings: list[_CoreTiling]
    cycles: list[float]
    period: float
    latency: int
    bound: str
    hops: float
    log: list[str]
    tries: int


def keep(slot: Slot, found: Chosen) -> None:
    """Put a result into the cache, unless the time limit ended the search."""
    best, made = found.best, found.best.made
    if found.ended or not slot.is_on:
        return
    tilings = [
        _CoreTiling(group, one.cuts, one.dual, sorted(one.reloaded))
        for group, one in sorted(made.tilings.items())
    ]
    record = _Record(
        made.job.choices.lag, made.lines and made.lines[2:], *best.found, made.places, tilings,
        list(best.cycles), best.period, best.latency, made.bound, made.hops, made.log.lines,
        found.tries,
    )  # fmt: skip
    slot.put(packed(record))


def recalled(slot: Slot, job: CompileJob, site: Site) -> Chosen | None:
    """Return a result from the cache, without programs; None if it is not there."""
    data = slot.get()
    if data is None:
        return None
    one = msgspec.msgpack.decode(data, type=_Record)
    lines = one.lines and lines_of(site.whole, job.shape, site.chip.usable_count, *one.lines)
    job = job._replace(choices=replace(job.choices, lag=one.lag))
    tilings = {
        tiling.group: Tiling(tiling.cuts, tiling.dual, frozenset(tiling.reloaded))
        for tiling in one.tilings
    }
    log = CompileLog(list(one.log))
    programs = Programs(None, log, job, one.places, one.bound, one.hops, lines, tilings)
    found = Grouped(one.pieces, one.costs, one.groups)
    return Chosen(Tried(found, programs, one.cycles, one.period, one.latency), one.tries)
