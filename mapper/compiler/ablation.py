"""What each pass is worth: cycles of a frame with all passes, and without each of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

from mapper.compiler.passes.switches import SWITCHES
from mapper.compiler.pipeline import Compiled
from mapper.compiler.settings import CompileSettings
from mapper.errors import DoesNotFitError, MapperError

HOST_WORK = ("node", "windows")
"""Steps of the host that compute, and do more than to carry maps."""


class Row(NamedTuple):
    """A compilation without a pass, or with all of them.

    cycles, share : of a frame, and of the cycles with all passes; None if it does not compile
    host : steps that the host computes: without some passes it does what cores do with them
    signal : over its error in dB, None if nothing is lost
    why : it does not compile, or None
    """

    without: str | None
    cycles: int | None
    share: float | None
    host: int | None
    signal: float | None
    why: str | None = None


def ablation(
    compiling: Callable[[CompileSettings], Compiled], settings: CompileSettings
) -> list[Row]:
    """Compile once for each pass that is on; raises what the compilation with all of them raises.

    What a model cannot do without is said in the row of the pass.
    """
    made = compiling(settings)
    rows = [_row(None, made, made.cycles)]
    for name in (name for name in SWITCHES if name not in settings.off):
        try:
            found = compiling(replace(settings, off=(*settings.off, name)))
        except MapperError as error:
            what = "does not fit" if isinstance(error, DoesNotFitError) else "does not compile"
            rows.append(Row(name, None, None, None, None, f"{what}: {error}"))
        else:
            rows.append(_row(name, found, made.cycles))
    return rows


def _row(without: str | None, made: Compiled, whole: int) -> Row:
    verified, cycles, signal = made.verified, made.cycles, None
    if verified is not None and verified.attempts:
        signal = verified.attempts[verified.number].score.signal
    host = sum(step["do"] in HOST_WORK for step in made.host)
    return Row(without, cycles, cycles / whole, host, signal)
