"""Regions of one slot are freed band by band.

Overlapping frames give the bytes of sequential frames, and the checker follows each credit.
"""

from __future__ import annotations

from copy import deepcopy
from functools import cache
from typing import Any

import numpy as np
import pytest

from chipsim.chip.model import Chip
from hw.npu.isa.table import UNITS, Instruction
from mapper.compiler.artifacts.cycles import run_frames
from mapper.compiler.artifacts.manifest import CompiledFolder
from mapper.compiler.artifacts.verify import verify_compiled
from mapper.compiler.log import CompileLog
from mapper.compiler.multicore import credits, plan, spread
from mapper.compiler.multicore.areas import Homes, taken_rows
from mapper.compiler.multicore.job import CompileJob, MacroPiece, Made, Whole
from mapper.compiler.multicore.rooms import Room
from mapper.compiler.program.inputs import Span
from mapper.compiler.tiling.tiles import extent_of
from mapper.errors import CheckFailedError
from tests.compiler.multicore.test_programs import HOW, anywhere, checked, folder, with_program
from tests.compiler.networks import Builder, residual
from tests.compiler.programs import SHAPE

pytestmark = pytest.mark.jit


def one_slot(*args: Any) -> Room:
    return Room(*args)._replace(slots=False)


def banded(seed: int) -> tuple[Builder, CompiledFolder]:
    build = residual(3, channels=20)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plan, "Room", one_slot)
        patch.setattr("mapper.compiler.pipeline.spread", lambda *a: anywhere(seed, *a))
        return build, folder(deepcopy(build), HOW, SHAPE)


@cache
def banded_once() -> CompiledFolder:
    return banded(2)[1]


@pytest.mark.heavy
@pytest.mark.sample(1)
@pytest.mark.parametrize("seed", range(1, 4))
def test_frames_overlap_in_bands(seed: int) -> None:
    build, found = banded(seed)
    counts = [count for one in found.manifest["cores"] for _, count in one["streams"]]
    assert max(counts) > 2  # this many bands are free at first
    assert {one.differences for one in checked(build, found)} == {0}
    samples = np.ascontiguousarray(build.graph.inputs["x"].array(build.samples(3)))
    run = run_frames(found, samples, 6)
    assert run.bytes > 0 and run.report.period is not None


def in_a_line(job: CompileJob, chip: Chip, log: CompileLog) -> Made:
    """Place each layer on its own core."""
    columns = job.shape.columns
    macros, places = job.partition.macros, spread.usable_places(chip)
    whole = Whole.of(job)
    rows = taken_rows(whole, Homes(job.places, columns), columns)
    placed = [
        (
            MacroPiece(number, rows[number], Span(0, extent_of(macro, job.shape).blocks)),
            places[number],
        )
        for number, macro in enumerate(macros)
    ]
    return spread.on_cores(job, placed, places[:1], log)


@pytest.mark.heavy
@pytest.mark.sample(0.5)
def test_bands_make_the_period_shorter(monkeypatch: pytest.MonkeyPatch) -> None:
    """A core may send the first rows of a frame while the last rows of the previous frame are
    read."""
    monkeypatch.setattr(plan, "Room", one_slot)
    monkeypatch.setattr("mapper.compiler.pipeline.spread", in_a_line)
    periods = []
    for bands in (1, 8):
        monkeypatch.setattr(credits, "BANDS", bands)
        run = run_frames(folder(residual(3, channels=20), HOW, SHAPE), None, 8)
        periods.append(run.report.period or 0)
    assert 0 < periods[1] < 0.9 * periods[0]


@pytest.mark.heavy
@pytest.mark.sample(0.25)
def test_too_many_credits_at_first_are_found() -> None:
    found = deepcopy(banded_once().manifest)
    core = max(
        found["cores"], key=lambda one: max(count for _, count in one["streams"] or [(0, 0)])
    )
    largest = max(core["streams"], key=lambda one: one[1])
    for change in (1, -largest[1]):
        largest[1] += change
        with pytest.raises(CheckFailedError, match="without a credit sent after"):
            verify_compiled(banded_once()._replace(manifest=found), made=True)
        largest[1] -= change


def control(one: Instruction, kind: str, queue: str) -> tuple[int, int, int] | None:
    """Return the core and stream of a sent credit, or the stream of an awaited one."""
    f = one.fields
    if (one.op, one.kind, f.get("queue")) != ("CTRL", kind, UNITS.index(queue)) or f["host"]:
        return None
    return f["x"], f["y"], f["stream"]


@pytest.mark.heavy
@pytest.mark.sample(1)
@pytest.mark.parametrize(("kind", "queue"), [("SEND", "LOAD"), ("WAIT", "STORE")])
def test_early_credits_and_late_waits_are_found(kind: str, queue: str) -> None:
    """Move all credits of a stream to the start of the program, or all its waits to the end.

    Some moves do no harm, because other awaited data comes later.
    """
    found, caught, missed = banded_once(), 0, 0
    for place, image in found.images.items():
        program = image.decoded()
        about = [control(one, kind, queue) for one in program]
        for stream in {one for one in about if one is not None}:
            some = [one for one, of in zip(program, about, strict=True) if of == stream]
            rest = [one for one, of in zip(program, about, strict=True) if of != stream]
            made = [*some, *rest] if kind == "SEND" else [*rest[:-1], *some, rest[-1]]
            try:
                verify_compiled(with_program(found, place, made), made=True)
                missed += 1
            except CheckFailedError as error:
                assert "without a credit sent after" in str(error)
                caught += 1
    assert caught > 10 and caught > 2 * missed
