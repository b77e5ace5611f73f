"""Chains: layers that are cut together, so that the maps between them stay on their cores."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from chipsim.chip.model import Chip
from chipsim.chip.npu_shape import NpuShape
from mapper.compiler.artifacts.cycles import run_frames
from mapper.compiler.codegen.searches import CutSearches
from mapper.compiler.ir.node import Pool, Window
from mapper.compiler.log import CompileLog
from mapper.compiler.multicore import search
from mapper.compiler.multicore.areas import taken_rows
from mapper.compiler.multicore.costs import PartCosts
from mapper.compiler.multicore.cuts.period import Line
from mapper.compiler.multicore.cuts.ways import SearchPlan, Way
from mapper.compiler.multicore.job import CompileJob, Made, Whole
from mapper.compiler.multicore.tiles import flits_of
from mapper.compiler.pipeline import compile_model
from mapper.compiler.program.inputs import Span
from tests.compiler.multicore.test_programs import HOW, checked, folder
from tests.compiler.networks import SAME, Builder
from tests.compiler.programs import SHAPE, source_of

pytestmark = pytest.mark.jit
CHIP = Chip("mesh", 4, 3)
POINT = Window((1, 1))


def fire(height: int = 40, outputs: int = 32) -> Builder:
    """Build two modules of a narrow layer, and two wide ones that are concatenated."""
    build = Builder(height, 16, 16)
    data = build.input
    for _ in range(2):
        narrow = build.relu(build.conv(data, 16, POINT))
        near, far = build.conv(narrow, outputs, POINT), build.conv(narrow, outputs, SAME)
        data = build.relu(build.concat(near, far))
        data = build.pool(data, Pool("max", Window((2, 2), (2, 2))))
    build.end(build.conv(data, 8, POINT))
    return build


def job_of(build: Builder, shape: NpuShape = SHAPE) -> CompileJob:
    """Return the input of the distribution of a network over cores."""
    jobs: list[CompileJob] = []

    class StoppedError(Exception):
        pass

    def stop(job: CompileJob, *_: object) -> Made:
        jobs.append(job)
        raise StoppedError

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("mapper.compiler.pipeline.spread", stop)
        source, samples = source_of(deepcopy(build))
        with pytest.raises(StoppedError):
            compile_model(source, shape, samples, HOW, chip=CHIP)
    return jobs[0]


def line_of(build: Builder, strip: float, shape: NpuShape = SHAPE) -> Line:
    job = job_of(build, shape)
    whole = Whole.of(job)
    costs = PartCosts(whole, job.shape, job.choices, CutSearches())
    rows = taken_rows(whole, costs.homes, job.shape.columns)
    return Line(costs, rows, CHIP.cores, Way(2, 0.1, strip=strip))


@pytest.mark.parametrize("strip", [1, 2, 3])
def test_layers_of_a_chain_are_consecutive_and_cut_in_strips(strip: float) -> None:
    """A cut covers the rows of each layer once, in strips on the same cores."""
    line = line_of(fire(), strip)
    assert [one for chain in line.chains for one in chain] == list(range(len(line.rows)))
    assert max(map(len, line.chains)) > 1
    _, found = line.shortest()
    for chain in line.chains:
        cores: list[list[int]] = []
        for layer in chain:
            mine = [at for at, piece in enumerate(found.pieces) if piece.macro == layer]
            rows = [found.pieces[at].rows for at in mine]
            whole = line.rows[layer]
            if line.by_rows[line.chains.index(chain)]:
                ends = [whole.first, *(one.stop for one in rows)]
                assert rows == [Span(a, b) for a, b in pairwise(ends)]
                assert ends[-1] == whole.stop
            cores.append([found.groups[at] for at in mine])
        assert all(one == cores[0] for one in cores)


def test_chains_share_the_weight_memory() -> None:
    """All cores of a chain hold its weights, so they are small."""
    line = line_of(fire(), 1)
    few = line_of(fire(), 1, replace(SHAPE, weight_words=24))
    for one in (line, few):
        for chain in one.chains:
            words = sum(one.costs.words(layer) for layer in chain)
            assert len(chain) == 1 or 2 * words <= one.costs.shape.weight_words
    assert len(few.chains) > len(line.chains)


def test_no_chains_of_few_rows() -> None:
    assert all(len(chain) == 1 for chain in line_of(fire(), 24).chains)


@pytest.mark.heavy
@pytest.mark.sample(1)
def test_fewer_flits_and_exact(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every layer equals the reference, also if frames overlap; fewer flits leave the cores."""
    build, spread = fire(), search.spread
    made: list[Made] = []

    def keep(job: CompileJob, chip: Chip, log: CompileLog) -> Made:
        made.append(spread(job, chip, log))
        return made[-1]

    monkeypatch.setattr("mapper.compiler.pipeline.spread", keep)
    for strip in (0, 2):
        plan = SearchPlan((Way(2, 0.1, strip=strip),))
        monkeypatch.setattr(search, "PLANS", {"default": [plan]})
        found = folder(deepcopy(build), HOW, SHAPE, CHIP)
        layers = checked(build, found)
        assert [one.differences for one in layers] == [0] * len(layers)
        samples = np.ascontiguousarray(build.graph.inputs["x"].array(build.samples(2)))
        assert run_frames(found, samples, 2).bytes > 0
    before, after = map(sent, made)
    assert after < 0.85 * before


def sent(made: Made) -> int:
    """Return the flits per frame between cores, and to and from the host."""
    ends = [*(code.place for code in made.codes for _ in code.macros), *made.ports]
    counted = flits_of(made.codes, SHAPE, made.ports)
    return sum(count for (a, b), count in counted.items() if ends[a] != ends[b])
