"""Costs of parts of layers that earlier compilations left in the cache."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from chipsim.chip.npu_shape import NpuShape
from mapper.cache.cache import OFF, Cache
from mapper.compiler.codegen.searches import CutSearches
from mapper.compiler.ir.node import Add
from mapper.compiler.multicore.costs import PartCosts
from mapper.compiler.multicore.job import CompileJob, MacroPiece, Whole
from mapper.compiler.multicore.known_costs import KnownCosts
from mapper.compiler.multicore.line_buffers.lines import lines_of
from mapper.compiler.program.inputs import Span
from mapper.compiler.tiling.onchip import Breadth
from mapper.compiler.tiling.tiles import extent_of
from mapper.errors import DoesNotFitError
from tests.compiler.multicore.test_chains import fire, job_of
from tests.compiler.networks import SAME, Builder
from tests.compiler.programs import SHAPE

pytestmark = pytest.mark.jit


def costs(
    job: CompileJob, cache: Cache, lag: float = 0.0, cores: int = 0, whole: Whole | None = None,
    **how: Breadth,
) -> list[str]:  # fmt: skip
    """Return the costs of parts of all layers, or the reasons why they do not fit.

    lag : see `Limits`; cores : cores that share line buffers, 0 for whole maps; whole : layers
    """
    whole, known = whole or Whole.of(job), KnownCosts(cache)
    lines = lines_of(whole, job.shape, cores, 2) if cores else None
    searches, choices = CutSearches(**how), replace(job.choices, lag=lag)
    of = PartCosts(whole, job.shape, choices, searches, known=known, lines=lines)
    found = []
    for piece in pieces(whole, job.shape):
        try:
            found.append(str(of.of(piece)))
        except DoesNotFitError as error:
            found.append(str(error))
    known.keep()
    return found


def pieces(whole: Whole, shape: NpuShape) -> Iterator[MacroPiece]:
    """Yield parts at the first and last rows and in between, of all blocks and of the last ones."""
    for number, macro in enumerate(whole.macros):
        extent = extent_of(macro, shape)
        for first, stop in ((0, 3), (2, 5), (0, extent.rows)):
            rows = Span(max(0, first), min(stop, extent.rows))
            for block in range(extent.blocks):
                yield MacroPiece(number, rows, Span(block, extent.blocks))


def models() -> Iterator[Builder]:
    """Yield models with equal layers, whose maps are read by other layers or stored elsewhere."""
    for kind in ("alone", "read twice", "joined", "other weights", "taller"):
        build = Builder(9 if kind == "taller" else 8, 8, 8, 1 if kind == "other weights" else 0)
        first = build.relu(build.conv(build.input, 8, SAME))
        second = build.relu(build.conv(first, 8, SAME))
        if kind == "read twice":
            second = build.like(Add(), first, second)
        if kind == "joined":
            second = build.relu(build.concat(first, second))
        build.end(build.conv(second, 16, SAME))
        yield build


def test_costs_from_the_cache_are_the_measured_ones(tmp_path: Path) -> None:
    cache = Cache(tmp_path, 1 << 24)
    jobs = [job_of(build) for build in models()]
    jobs.append(jobs[0]._replace(shape=replace(SHAPE, map_vectors=100)))
    few = Breadth(followed=1, padded=0, equal=0)
    for job in jobs:
        for lag, cores, how in (
            (0.0, 0, {}), (0.1, 0, {}), (0.0, 4, {}), (0.0, 9, {}), (0.0, 0, {"breadth": few}),
        ):  # fmt: skip
            right = costs(job, OFF, lag, cores, **how)
            for _ in range(2):
                assert costs(job, cache, lag, cores, **how) == right


def test_models_with_equal_layers_share_costs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A second compilation measures only layers that are new."""
    cache = Cache(tmp_path, 1 << 24)
    whole = Whole.of(job := job_of(fire(12, 16)))
    *macros, last = whole.macros
    shorter = whole._replace(macros=macros, read=dict.fromkeys(last.inputs, 0))
    costs(job, cache, whole=shorter)
    count = cache.contents().kinds["costs"][0]
    measured: list[str] = []
    real = PartCosts._measured
    monkeypatch.setattr(
        PartCosts,
        "_measured",
        lambda self, piece, size: (
            measured.append(self.macros[piece.macro].label) or real(self, piece, size)  # type: ignore[func-returns-value]
        ),
    )
    costs(job, cache, whole=shorter)
    assert not measured
    costs(job, cache, whole=whole)
    assert set(measured) == {last.label}
    assert cache.contents().kinds["costs"][0] == count + 1
