"""Programs of small networks, compared with the reference."""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from numpy.typing import NDArray

from chipsim.chip.model import Chip
from chipsim.chip.npu_shape import NPU_SHAPES, NpuShape
from mapper.compiler.artifacts.checks.checker import check_program
from mapper.compiler.artifacts.checks.touches import Cells, instructions_of
from mapper.compiler.artifacts.manifest import CompiledFolder, Target, folder_in_memory
from mapper.compiler.artifacts.simulate import Compared, simulate
from mapper.compiler.artifacts.verify import verify_compiled
from mapper.compiler.compiled import Compiled
from mapper.compiler.model import Model, open_model
from mapper.compiler.pipeline import compile_model
from mapper.compiler.program.image import Image
from mapper.compiler.settings import CompileSettings
from mapper.errors import DoesNotFitError
from storage.samples import SampleArrays
from tests.compiler.networks import Builder

SMALL = NpuShape("small", input_vectors=96, entries=96, map_vectors=4096, instructions=1 << 16)
"""A core whose buffers hold a few pixels, so that layers have many tiles and loads."""
FOUR = NpuShape("four", 4, 4, multiply_lanes=4, map_vectors=1 << 14, weight_words=4096,
                instructions=1 << 16)  # fmt: skip
WIDE = NpuShape("wide", 32, 32, multiply_lanes=32, instructions=1 << 16)
DUAL = NpuShape("dual", multiplier="dual", weight_words=4096)
REF = replace(NPU_SHAPES["ref32"], name="ref", map_vectors=1 << 14, weight_words=2048)
SHAPE = NpuShape("large", weight_words=4096, micro_ops=1024, instructions=1 << 16)


class Made(NamedTuple):
    compiled: Compiled
    folder: CompiledFolder


def source_of(build: Builder) -> tuple[Model, SampleArrays]:
    """Return a network as a model, and calibration samples."""
    view = build.graph.inputs["x"]
    source = Model(
        Path("model.onnx"), "x", view, [("", 17)], False, lambda _: deepcopy(build.graph)
    )
    return source, SampleArrays(np.ascontiguousarray(view.array(build.samples(6))), None, [])


def compiled(build: Builder, shape: NpuShape = SHAPE, **settings: object) -> Made:
    """Compile a network for the core (1, 0) of a chip of 2x2."""
    source, samples = source_of(build)
    return _made(source, samples, shape, settings)


def compiled_model(
    path: Path, samples: NDArray[np.float32] | None, shape: NpuShape = SHAPE, **settings: object
) -> Made:
    """Compile a model for that core; samples : for a floating-point model"""
    arrays = None if samples is None else SampleArrays(samples, None, [])
    return _made(open_model(path), arrays, shape, settings)


def _made(
    source: Model, samples: SampleArrays | None, shape: NpuShape, settings: dict[str, object]
) -> Made:
    some = {"method": "minmax", "min_signal": -100, "max_loss": 100, "cores": 1} | settings
    how = CompileSettings(**some)  # type: ignore[arg-type]
    target = Target(Chip("two", 2, 2, unavailable=(0,)), shape, how)
    made = compile_model(source, shape, samples, how, chip=target.chip)
    return Made(made, folder_of(made, target))


def folder_of(made: Compiled, target: Target) -> CompiledFolder:
    """Return the contents of its folder."""
    return folder_in_memory(Path("out"), made, target)


def check_image(image: Image, shape: NpuShape, presets: Sequence[Cells], where: str) -> int:
    """Check the program of a single core; return the number of its instructions."""
    program = list(instructions_of(image, shape, where))
    check_program(program, image, shape, presets, where)
    return len(program)


def exact(build: Builder, made: Made) -> Made:
    """Check that every layer equals the reference, and that the checker accepts the programs."""
    found = compared(build, made)
    assert found
    assert {one.differences for one in found} == {0}, found
    assert verify_compiled(made.folder)["instructions"] == len(made.compiled.code.program)
    return made


def fitting(build: Builder, shape: NpuShape, **settings: object) -> Made:
    """Compile a network; skip the test if micro-ops or weights do not fit in a small core."""
    try:
        return compiled(build, shape, **settings)
    except DoesNotFitError as error:
        expected = shape.name.startswith(("small", "four")) or "micro-op memory" in str(error)
        if not expected and "weight memory" not in str(error):
            raise
        pytest.skip(str(error))


def same(build: Builder, shape: NpuShape, **settings: object) -> Made:
    """Compile a network, check every layer and the programs; skip if a small core is too small."""
    return exact(build, fitting(build, shape, **settings))


def compared(build: Builder, made: Made, frames: int = 3) -> list[Compared]:
    """Compare every layer of some random frames with the reference."""
    samples = np.ascontiguousarray(build.graph.inputs["x"].array(build.samples(frames)))
    return simulate(made.folder, samples, threads=1, check=True).compared
