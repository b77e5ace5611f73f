"""What each pass is worth: cycles of a frame with all passes, and without each of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

from mapper.compiler.passes.switches import SWITCHES
from mapper.compiler.pipeline import Compiled
from mapper.compiler.settings import CompileSettings


class Row(NamedTuple):
    """A compilation without a pass, or with all of them.

    share : of the cycles with all passes; signal : over its error in dB, None if nothing is lost
    """

    without: str | None
    cycles: int
    share: float
    signal: float | None


def ablation(
    compiling: Callable[[CompileSettings], Compiled], settings: CompileSettings
) -> list[Row]:
    """Compile once for each pass that is on; raises what a compilation raises."""
    found: list[Row] = []
    for name in (None, *(name for name in SWITCHES if name not in settings.off)):
        off = settings.off if name is None else (*settings.off, name)
        made = compiling(replace(settings, off=off))
        verified, signal = made.verified, None
        if verified is not None and verified.attempts:
            signal = verified.attempts[verified.number].score.signal
        cycles = made.timeline.cycles
        found.append(Row(name, cycles, cycles / (found[0].cycles if found else cycles), signal))
    return found
