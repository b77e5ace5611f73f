"""Ablation of passes, tile searches and placements.

Measures the cycles of a frame with all passes and without each of them; on one core also with each
fixed rule for tiles, on several cores the latency and initiation interval for each placement.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple, get_args

from chipsim.npu.mesh.report import ChipReport, chip_report
from chipsim.npu.mesh.run import run_mesh
from mapper.compiler.artifacts.cycles import chip_of
from mapper.compiler.artifacts.manifest import Target, folder_in_memory
from mapper.compiler.artifacts.report import core_layers
from mapper.compiler.compiled import Compiled
from mapper.compiler.settings import CompileSettings, Placement, Schedule
from mapper.compiler.transforms.switches import SWITCHES
from mapper.errors import DoesNotFitError, MapperError

HOST_WORK = ("node", "windows")
"""Host steps that compute; other steps only transfer maps."""
FRAMES = 8
"""Frames to run on several cores; the period is measured from frame 3 on."""


class LayerCycles(NamedTuple):
    """A layer on one core.

    layer : first node; cycles : from the end of the previous layers to its end
    stalls : those in which even its busiest unit waits
    """

    layer: str
    cycles: int
    stalls: int


class AblationRow(NamedTuple):
    """Result of a compilation with all passes, without one pass, or with another rule for tiles or
    placement.

    cycles, share : cycles of a frame on the busiest core, and relative to the first row; None if it
        does not compile
    host : number of host steps that compute; without some passes the host does work of the cores
    signal : SQNR in dB, None if nothing is lost
    latency, period, flit_hops : on several cores: cycles of the first frame, cycles from frame to
        frame, and flits of a frame summed over all links; None on one core
    why : reason why it does not compile, or None
    layers : on one core, with all passes
    """

    without: str | None
    schedule: Schedule
    placement: Placement
    cycles: int | None
    share: float | None
    host: int | None
    signal: float | None
    latency: int | None = None
    period: float | None = None
    flit_hops: float | None = None
    why: str | None = None
    layers: tuple[LayerCycles, ...] = ()


def ablation(compiling: Callable[[CompileSettings], Compiled], target: Target) -> list[AblationRow]:
    """Compile once without each active pass, and once per other rule for tiles on one core, or
    other placement on several cores.

    compiling : compiles with the given settings
    Raises the errors of the compilation with all passes; other errors become the `why` of their
    row.
    """
    settings = target.settings
    made = compiling(settings)
    rows = [_row(None, made, made.cycles, target)]
    changes: list[tuple[str | None, CompileSettings]] = [
        (name, replace(settings, off=(*settings.off, name)))
        for name in SWITCHES if name not in settings.off
    ]  # fmt: skip
    if made.ports:
        others = (one for one in get_args(Placement) if one != settings.placement)
        changes += [(None, replace(settings, placement=one)) for one in others]
    else:
        rules = (one for one in get_args(Schedule) if one != settings.schedule)
        changes += [(None, replace(settings, schedule=one)) for one in rules]
    for without, changed in changes:
        try:
            found = compiling(changed)
        except MapperError as error:
            what = "does not fit" if isinstance(error, DoesNotFitError) else "does not compile"
            how = changed.schedule, changed.placement
            nothing = AblationRow(without, *how, None, None, None, None)
            rows.append(nothing._replace(why=f"{what}: {error}"))
        else:
            rows.append(_row(without, found, made.cycles, target._replace(settings=changed)))
    return rows


def _row(without: str | None, made: Compiled, whole: int, target: Target) -> AblationRow:
    verified, cycles, signal = made.verified, made.cycles, None
    if verified is not None and verified.attempts:
        signal = verified.attempts[verified.number].score.signal
    host = sum(step["do"] in HOST_WORK for step in made.host)
    how = target.settings.schedule, target.settings.placement
    row = AblationRow(without, *how, cycles, cycles / whole, host, signal)
    if not made.ports:
        return row if without else row._replace(layers=_layers(made, target))
    run = _run(made, target)
    hops = float(run.links.sum())
    return row._replace(latency=run.latency, period=run.period, flit_hops=hops)


def _run(made: Compiled, target: Target) -> ChipReport:
    """Run frames on several cores."""
    chip = chip_of(folder_in_memory(Path("the programs"), made, target))
    return chip_report(chip, run_mesh(chip, FRAMES))


def _layers(made: Compiled, target: Target) -> tuple[LayerCycles, ...]:
    rows = core_layers(made.code, target.shape)
    return tuple(
        LayerCycles(
            one["nodes"][0], one["cycles"], round((1 - max(one["busy"].values())) * one["cycles"])
        )
        for one in rows
    )
