"""Compiled models on several cores, on chips in Amaranth: every byte, and every cycle."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from chipsim.chip.host import ChipHost
from chipsim.chip.model import Chip
from chipsim.npu.mesh.run import run_mesh
from hw.npu.flit import Kind
from mapper.compiler.artifacts.chip_hardware import MOST_NODES, check_hardware
from mapper.compiler.artifacts.cycles import chip_of
from mapper.compiler.artifacts.manifest import Target
from mapper.compiler.pipeline import compile_model
from mapper.compiler.settings import CompileSettings
from mapper.errors import DoesNotFitError
from tests.compiler.networks import residual
from tests.compiler.programs import compiled, folder_of, source_of
from tests.hw.npu.test_models import FOUR, pooled

FRAMES = 3


@pytest.mark.jit
@pytest.mark.slow_hw
@pytest.mark.parametrize("network", [pooled, lambda: residual(3, 10)], ids=["pooled", "residual"])
def test_networks_on_three_cores(network: Any) -> None:
    """N12.1: layers in parts on three of four cores, three consecutive frames."""
    build = network()
    made = compiled(build, FOUR, cores=None)
    assert len(made.folder.images) == MOST_NODES - 1
    samples = np.ascontiguousarray(build.graph.inputs["x"].array(build.samples(FRAMES)))
    run = check_hardware(made.folder, samples)
    assert run.frames == FRAMES and run.flits and run.bytes


@pytest.mark.jit
@pytest.mark.slow_hw
def test_two_ports_of_the_host() -> None:
    """N10.5: inputs, results and streamed weights by the nearest port, a flit every two cycles."""
    build = residual(3, 10)
    shape = replace(FOUR, name="few", weight_words=40)
    chip = Chip("ports", 2, 2, unavailable=(0,), host=ChipHost((1, 2), latency=7, flits=0.5))
    how = CompileSettings(method="minmax", min_signal=-100, max_loss=100)
    source, arrays = source_of(build)
    folder = folder_of(
        compile_model(source, shape, arrays, how, chip=chip), Target(chip, shape, how)
    )
    assert folder.weights is not None
    mesh = chip_of(folder)
    assert mesh.ports == {(1, 0): (1, 0), (0, 1): (0, 1), (1, 1): (1, 0)}
    flits = run_mesh(mesh, flits=True).deliveries
    assert flits is not None
    asked = set(flits.target[flits.kind == Kind.WEIGHTS].tolist())
    assert {2, 3} <= asked, "each asks another port"
    samples = np.ascontiguousarray(build.graph.inputs["x"].array(build.samples(FRAMES)))
    run = check_hardware(folder, samples)
    assert run.frames == FRAMES and run.flits and run.bytes


@pytest.mark.heavy
@pytest.mark.sample(0.25)
@pytest.mark.jit
def test_large_chips_are_refused() -> None:
    build = residual(3, 10)
    made = compiled(build, FOUR, cores=None)
    made.folder.manifest["chip"]["width"] = 3
    samples = np.ascontiguousarray(build.graph.inputs["x"].array(build.samples(1)))
    with pytest.raises(DoesNotFitError, match="3x2 cores; at most 4 run in Amaranth's simulator"):
        check_hardware(made.folder, samples)
