"""B10: first layers with the window unit: programs compared with the reference, headers,
checker."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from chipsim.chip.npu_shape import NpuShape
from chipsim.npu.windows import PacketHeader
from mapper.compiler.artifacts.cycles import run_cycles
from mapper.compiler.artifacts.simulate import simulate
from mapper.compiler.artifacts.verify import verify_compiled
from mapper.compiler.ir.node import Pool, Window, WindowColumns
from mapper.compiler.ir.tensor import Pad
from mapper.errors import CheckFailedError, DoesNotFitError
from tests.compiler.networks import SAME, Builder
from tests.compiler.programs import (
    DUAL,
    FOUR,
    SHAPE,
    SMALL,
    WIDE,
    Made,
    check_image,
    compared,
    compiled,
)

pytestmark = pytest.mark.jit
UNEVEN = Window((3, 5), (2, 1), Pad(1, 0, 2, 1))


def network(window: Window, channels: int = 3, outputs: int = 20, pooled: bool = False) -> Builder:
    build = Builder(15, 21, channels, 1)
    made = build.relu(build.conv(build.input, outputs, window))
    if pooled:
        made = build.pool(made, Pool("max", Window((2, 2), (2, 2))))
    build.end(build.conv(made, 8))
    return build


def windows_loaded(made: Made) -> int:
    return sum(one.kind == "WIN" for one in made.compiled.code.program)


@pytest.mark.heavy
@pytest.mark.sample(0.5)
@pytest.mark.parametrize(("window", "channels", "shape", "pooled"), [
    (SAME, 3, SHAPE, False),
    (UNEVEN, 5, SHAPE, True),
    (UNEVEN, 5, SMALL, False),  # parts of rows
    (Window((7, 7), (2, 2), Pad(3, 3, 3, 3)), 1, SHAPE, False),
    (UNEVEN, 2, DUAL, False),
    (SAME, 6, replace(WIDE, filters=7), False),
    (SAME, 3, replace(FOUR, filters=3), False),
])  # fmt: skip
def test_b10_windows_on_the_core_give_the_same_bytes(
    window: Window, channels: int, shape: NpuShape, pooled: bool
) -> None:
    """B10, C10: maps equal the reference, and results are the same for all window options."""
    found = []
    for few in ("core", "host", "off"):
        build = network(window, channels, 40, pooled)
        made = compiled(build, shape, few_channels=few)
        by_core = few == "core" and shape.columns > 4  # elsewhere they save no calls
        assert bool(windows_loaded(made)) == by_core
        assert isinstance(made.compiled.graph.nodes[0].operator, WindowColumns) == by_core
        verify_compiled(made.folder)
        assert {one.differences for one in compared(build, made, 2)} == {0}
        build.random = np.random.default_rng(7)
        samples = np.ascontiguousarray(build.graph.inputs["x"].array(build.samples(2)))
        found.append(simulate(made.folder, samples, 1, check=False).stored)
        if by_core:
            run = run_cycles(made.folder, samples[:1])
            assert run.times[0].cycles == made.compiled.code.timeline.cycles
            assert run.bytes > 0
    for one in found[1:]:
        assert [data.tobytes() for data in one.values()] == [
            data.tobytes() for data in found[0].values()
        ]


def test_c11_headers_of_a_layer() -> None:
    """C04, C11: 8x8 pixels are two words; packets of four windows.

    Each packet lists the words of its pixels, and the padded position of the first one.
    """
    build = Builder(8, 8, 3, 1)
    build.end(build.conv(build.input, 4))
    made = compiled(build, SHAPE, few_channels="core")
    image = made.compiled.code.image()
    headers = [PacketHeader.of(bits) for bits in np.frombuffer(image.headers, "<u8").tolist()]
    # rows 0 to 2 are in the first word, rows 3 to 5 in both, rows 5 to 7 in the second
    assert headers[:2] == [PacketHeader(0, 1, 0, 0), PacketHeader(0, 1, 4, 0)]
    assert headers[8:10] == [PacketHeader(0, 2, 0, 4), PacketHeader(0, 2, 4, 4)]
    assert headers[14:] == [PacketHeader(1, 1, 0, 7), PacketHeader(1, 1, 4, 7)]
    (stored,) = [one for one in made.folder.manifest["maps"] if one["planes"]]
    assert (stored["address"] % 8, stored["vectors"]) == (0, 16)
    loads = [one.fields for one in made.compiled.code.program if one.kind == "WIN"]
    assert {one["src"] for one in loads} == {stored["address"] // 8}
    assert sum(one["packets"] for one in loads) == len(headers) == 16
    assert {
        (one["kh"], one["kw"], one["pad_t"], one["columns"], one["groups"]) for one in loads
    } == {(3, 3, 1, 8, 1)}


def test_headers_that_do_not_fit_are_named() -> None:
    """C09: the layer, and how many headers a core lacks; auto selects another option."""
    shape = replace(SHAPE, headers=78)
    text = "conv 'n0': header memory: 79 headers needed, a core has 78 .1 short"
    with pytest.raises(DoesNotFitError, match=text):
        compiled(network(SAME), shape, few_channels="core")
    made = compiled(network(SAME), shape)
    assert not windows_loaded(made)


@pytest.mark.heavy
def test_tiles_fit_the_header_memory() -> None:
    """Parts of rows take more packets than whole rows: cuts with too many headers are rejected."""
    made = compiled(network(SAME), replace(SHAPE, headers=79), few_channels="core")
    assert len(made.compiled.code.tables.headers) == 79


@pytest.mark.heavy
def test_the_checker_reads_headers() -> None:
    """R7.9: words without a packet, and words after the map."""
    made = compiled(network(SAME), SHAPE, few_channels="core")
    image = made.compiled.code.image()
    everything = np.arange(SHAPE.map_vectors)
    assert check_image(image, SHAPE, [everything], "good") == len(made.compiled.code.program)
    headers = np.frombuffer(image.headers, "<u8").copy()
    for bits, text in (
        (PacketHeader(0, 0, 0, 0).bits, "the window at .* has pixels outside them"),
        (PacketHeader(0, 99, 0, 0).bits, "reads word 98 of a map of 10"),
    ):
        headers[0] = bits
        with pytest.raises(CheckFailedError, match=rf"LOAD\.WIN.*{text}"):
            check_image(image._replace(headers=headers.tobytes()), SHAPE, [everything], "bad")
    (stored,) = [one for one in made.folder.manifest["maps"] if one["planes"]]
    some = np.setdiff1d(everything, stored["address"] + np.arange(16))
    with pytest.raises(CheckFailedError, match=r"LOAD\.WIN.*reads FM\[\d+\], .* never written"):
        check_image(image, SHAPE, [some], "bad")


@pytest.mark.heavy
@pytest.mark.sample(0.5)
def test_b10_cycles_of_a_first_layer() -> None:
    """B10: the first layer of ResNet-8, 3x3 over 3 channels of 32x32 pixels.

    At least 2.5x fewer cycles with windows on the core than with channels padded to 16; 9 calls
    become 3.
    """
    cycles = {}
    for few in ("core", "off"):
        build = Builder(32, 32, 3, 1)
        build.end(build.relu(build.conv(build.input, 16)))
        made = compiled(build, NpuShape(), few_channels=few)
        cycles[few] = made.compiled.code.timeline.cycles
    assert 2.5 * cycles["core"] <= cycles["off"], cycles
