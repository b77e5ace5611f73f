"""What each pass is worth: cycles of a frame with all passes, and without each of them; and what
placement is worth, on several cores: latency and period of frames that follow each other."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple, get_args

from chipsim.npu.mesh_report import ChipReport, chip_report
from chipsim.npu.mesh_run import run_mesh
from mapper.compiler.chip_cycles import chip_of
from mapper.compiler.manifest import Target, folder_in_memory
from mapper.compiler.passes.switches import SWITCHES
from mapper.compiler.pipeline import Compiled
from mapper.compiler.settings import CompileSettings, Placement
from mapper.errors import DoesNotFitError, MapperError

HOST_WORK = ("node", "windows")
"""Steps of the host that compute, and do more than to carry maps."""
FRAMES = 8
"""That run on several cores: the period is that of frame 3 and later."""


class Row(NamedTuple):
    """A compilation without a pass, or with all of them, or with another placement.

    cycles, share : of a frame on the core that works longest, and of the cycles of the first row;
        None if it does not compile
    host : steps that the host computes: without some passes it does what cores do with them
    signal : over its error in dB, None if nothing is lost
    latency, period, flit_hops : on several cores: cycles of the first frame, and from frame to
        frame, and the flits of a frame on all links; None on one
    why : it does not compile, or None
    """

    without: str | None
    placement: Placement
    cycles: int | None
    share: float | None
    host: int | None
    signal: float | None
    latency: int | None = None
    period: float | None = None
    flit_hops: float | None = None
    why: str | None = None


def ablation(compiling: Callable[[CompileSettings], Compiled], target: Target) -> list[Row]:
    """Compile once for each pass that is on, and for each placement of several cores; raises what
    the compilation with all of them raises.

    compiling : with other settings than those of the target
    What a model cannot do without is said in the row of the pass.
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
    for without, changed in changes:
        try:
            found = compiling(changed)
        except MapperError as error:
            what = "does not fit" if isinstance(error, DoesNotFitError) else "does not compile"
            nothing = Row(without, changed.placement, None, None, None, None)
            rows.append(nothing._replace(why=f"{what}: {error}"))
        else:
            rows.append(_row(without, found, made.cycles, target._replace(settings=changed)))
    return rows


def _row(without: str | None, made: Compiled, whole: int, target: Target) -> Row:
    verified, cycles, signal = made.verified, made.cycles, None
    if verified is not None and verified.attempts:
        signal = verified.attempts[verified.number].score.signal
    host = sum(step["do"] in HOST_WORK for step in made.host)
    row = Row(without, target.settings.placement, cycles, cycles / whole, host, signal)
    if not made.ports:
        return row
    run = _run(made, target)
    hops = float(run.links.sum())
    return row._replace(latency=run.latency, period=run.period, flit_hops=hops)


def _run(made: Compiled, target: Target) -> ChipReport:
    """Frames on several cores."""
    chip = chip_of(folder_in_memory(Path("the programs"), made, target))
    return chip_report(chip, run_mesh(chip, FRAMES))
