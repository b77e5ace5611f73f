"""Latency, period and bottleneck of a pipeline that is computed by hand."""

from __future__ import annotations

import numpy as np
import pytest

from chipsim.npu.cycles import CAUSES
from chipsim.npu.mesh.report import chip_report
from chipsim.npu.mesh.run import run_mesh
from tests.chipsim.npu.test_mesh_run import pipeline

pytestmark = pytest.mark.jit


def test_a_pipeline() -> None:
    chip = pipeline()
    found = chip_report(chip, run_mesh(chip, 20))
    assert found.latency == 78
    assert found.period == 26
    assert found.frames_per_second(26) == 1e6
    # load 6, move 8, store 7 and the end, from cycle 2 on; the next frame is fetched 2 later
    assert found.cores[0, 0].cycles == 2 + 6 + 8 + 7 + 1 + 2
    assert found.bound == (26, "core (0, 0)")
    assert found.links[0].tolist() == [[4, 4, 0]]
    assert found.links[1].tolist() == [[0, 5, 5]]
    for core in found.cores.values():
        assert np.allclose(core.busy + core.waits.sum(1), 1)
    waits = dict(zip(CAUSES, found.cores[2, 0].waits[0].tolist(), strict=True))
    assert waits["stream"] > 0
    assert waits["router"] == waits["weights"] == waits["credit"] == 0


@pytest.mark.parametrize(("frames", "period"), [(1, None), (2, 26), (3, 26), (4, 26)])
def test_few_frames(frames: int, period: float | None) -> None:
    chip = pipeline()
    found = chip_report(chip, run_mesh(chip, frames))
    assert found.period == period
    if period is None:
        assert found.frames_per_second(78) == 1e6


def test_bottleneck() -> None:
    """86 more input vectors, which the core never waits for.

    With the other 4, 4 results and 2 credits they leave the mesh at the node of host and first
    core.
    """
    chip = pipeline()
    (host,) = chip.hosts
    inputs = host.inputs._replace(waits=host.inputs.consumed)
    more = [np.concatenate([one, np.repeat(one[-1:], 86, 0)]) for one in inputs]
    stream = np.array([0] * 4 + [9] * 86)
    whole = inputs._make(more)._replace(stream=stream, slots=np.full(90, 99))
    chip = chip._replace(hosts=[host._replace(inputs=whole)])
    found = chip_report(chip, run_mesh(chip, 9))
    assert found.bound == (90 + 4 + 2, "port out of the mesh at (0, 0)")
    assert found.period is not None
    assert found.period >= found.bound.cycles
