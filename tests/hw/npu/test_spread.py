"""Compiled models that several cores share, on chips in Amaranth: every byte, and every cycle."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mapper.compiler.chip_hardware import MOST_NODES, check_hardware
from mapper.errors import DoesNotFitError
from tests.compiler.networks import residual
from tests.compiler.programs import compiled
from tests.hw.npu.test_models import FOUR, pooled

FRAMES = 3


@pytest.mark.jit
@pytest.mark.slow_hw
@pytest.mark.parametrize("network", [pooled, lambda: residual(3, 10)], ids=["pooled", "residual"])
def test_networks_on_three_cores(network: Any) -> None:
    """N12.1: layers in parts on three cores of four, three frames one behind the other."""
    build = network()
    made = compiled(build, FOUR, cores=None)
    assert len(made.folder.images) == MOST_NODES - 1
    samples = np.ascontiguousarray(build.graph.inputs["x"].array(build.samples(FRAMES)))
    run = check_hardware(made.folder, samples)
    assert run.frames == FRAMES and run.flits and run.bytes


@pytest.mark.jit
def test_large_chips_are_refused() -> None:
    build = residual(3, 10)
    made = compiled(build, FOUR, cores=None)
    made.folder.manifest["chip"]["width"] = 3
    samples = np.ascontiguousarray(build.graph.inputs["x"].array(build.samples(1)))
    with pytest.raises(DoesNotFitError, match="3x2 cores; at most 4 run in Amaranth's simulator"):
        check_hardware(made.folder, samples)
