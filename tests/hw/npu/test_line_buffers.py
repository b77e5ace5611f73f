"""Compiled models with line buffers on chips in Amaranth: every byte, and every cycle."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from chipsim.chip.model import Chip
from mapper.compiler.artifacts.chip_hardware import check_hardware
from mapper.compiler.artifacts.manifest import CompiledFolder
from mapper.compiler.ir.node import Add, Pool, Window
from mapper.compiler.ir.tensor import Pad
from tests.compiler.multicore.test_lines import made_of
from tests.compiler.multicore.test_programs import checked
from tests.compiler.networks import Builder
from tests.hw.npu.test_models import FOUR

CHIPS = {"2x2": Chip("square", 2, 2), "4x1": Chip("line", 4, 1)}
WITHOUT_WRAPS = (2, 3, 7, 11, 14, 23, 30, 31, 34, 38)
"""Chains of which no load or store reaches beyond the end of a ring."""
SEEDS = [seed for seed in range(42) if seed not in WITHOUT_WRAPS]
FRAMES = 2


def chain(seed: int) -> Builder:
    """Build a chain of two to three random layers on an image of few rows and many columns."""
    rng = np.random.default_rng(seed)
    build = Builder(int(rng.integers(2, 5)), int(rng.integers(16, 25)), 4, seed)
    data = build.input
    for _ in range(int(rng.integers(2, 4))):
        channels = int(rng.choice([3, 4, 8]))
        kind = int(rng.integers(4))
        if kind == 0:
            data = build.relu(build.conv(data, channels))
        elif kind == 1:
            wide = Window((1, 5), (1, int(rng.integers(1, 3))), Pad(0, 0, 2, int(rng.integers(3))))
            data = build.conv(data, channels, wide)
        elif kind == 2:
            pairs = Pool("max", Window((min(2, data.height), 2), (1, 2)))
            data = build.pool(build.relu(build.conv(data, channels)), pairs)
        else:
            data = build.relu(build.like(Add(), build.conv(data, data.channels), data))
    build.end(build.conv(data, 4))
    return build


def wraps(folder: CompiledFolder) -> Iterator[bool]:
    """Return whether each load and store reaches beyond the end of a ring."""
    for image in folder.images.values():
        yield from (one.fields.get("wrap", 0) > 0 for one in image.decoded())


@pytest.mark.heavy
@pytest.mark.jit
@pytest.mark.sample(1)
@pytest.mark.parametrize("seed", SEEDS)
def test_random_chains(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Integer reference, functional simulator, mesh simulator and Amaranth are equal."""
    build, chip = chain(seed), list(CHIPS.values())[seed % 2]
    found = made_of(build, seed, monkeypatch, (FOUR, 8, chip), slack=(0.0, 0.5)[seed // 2 % 2])
    assert any(wraps(found))
    layers = checked(build, found)
    assert [one.differences for one in layers] == [0] * len(layers)
    samples: Any = np.ascontiguousarray(build.graph.inputs["x"].array(build.samples(FRAMES)))
    run = check_hardware(found, samples)
    assert run.frames == FRAMES and run.flits and run.bytes
