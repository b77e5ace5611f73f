"""Programs of every integer operator on the full-size cores of chip presets."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from chipsim.chip.npu_shape import NPU_SHAPES
from mapper.compiler.ir.node import Activation, Add, Pool, Upsample, Window
from mapper.compiler.ir.tensor import Pad
from tests.compiler.networks import Builder, residual
from tests.compiler.programs import compiled, exact

pytestmark = pytest.mark.jit  # their reference implementations are tested in tests/chipsim/npu

SAME = Window((3, 3), (1, 1), Pad(1, 1, 1, 1))
POINT, WHOLE = Window((1, 1)), Window((4, 4))


def _of(make: Callable[[Builder], object], channels: int = 4, side: int = 4) -> Builder:
    build = Builder(side, side, channels)
    build.end(make(build))  # type: ignore[arg-type]
    return build


NETWORKS: dict[str, Callable[[], Builder]] = {
    "conv": lambda: _of(lambda b: b.conv(b.input, 4, SAME)),
    "depthwise": lambda: _of(lambda b: b.conv(b.input, 4, SAME, 4)),
    "groups": lambda: _of(lambda b: b.conv(b.input, 8, POINT, 2)),
    "max pool": lambda: _of(lambda b: b.pool(b.input, Pool("max", SAME))),
    "mean": lambda: _of(lambda b: b.pool(b.input, Pool("average", SAME))),
    "global mean": lambda: _of(lambda b: b.pool(b.input, Pool("average", WHOLE))),
    "leaky": lambda: _of(lambda b: b.like(Activation(slope=0.1), b.input)),
    "upsample": lambda: _of(lambda b: b.node(Upsample(), [b.input], (8, 8, 4))),
    "add": lambda: _of(lambda b: b.like(Add(), b.input, b.conv(b.input, 4, POINT))),
    "dense": lambda: _of(lambda b: b.conv(b.input, 9, POINT), 40, 1),
    "residual": lambda: residual(channels=4),
}


@pytest.mark.sample(9)
@pytest.mark.parametrize("what", NETWORKS)
@pytest.mark.parametrize(
    ("preset", "bits"),
    [
        (name, bits)
        for name, shape in NPU_SHAPES.items()
        for bits in ((8, 16) if shape.multiplier == "dual" else (8,))
    ],
)
def test_d05_d10_programs_equal_the_reference(what: str, preset: str, bits: int) -> None:
    """D05, D06, D10: padding with the zero point, folded biases, and every ALU operation."""
    build = NETWORKS[what]()
    exact(build, compiled(build, NPU_SHAPES[preset], bits=bits))
