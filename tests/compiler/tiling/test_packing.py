"""The cost of packing bits, and the savings of binary layers."""

from __future__ import annotations

import pytest

from chipsim.npu.cycles import run_queues
from mapper.compiler.tiling.packing import packing_cost, packs
from mapper.compiler.tiling.streams import HOST_LATENCY
from mapper.compiler.tiling.units import timed
from tests.compiler.binary_networks import BinaryBuilder
from tests.compiler.bireal import CORE, LAYERS, binary_layer, byte_layer, other_layers
from tests.compiler.networks import SAME
from tests.compiler.programs import SHAPE, compiled

pytestmark = pytest.mark.jit


@pytest.mark.heavy
@pytest.mark.sample(0.25)
def test_b11_packing_is_hidden_on_the_core() -> None:
    """B11: hidden by products; less than 2 % of a BiRealNet-18 layer, which packs the signs of its
    sums.
    """
    for layer in (LAYERS[0], LAYERS[2]):
        cycles, found = binary_layer(layer)
        first, stop = found.code.ends[-3:-1]
        queue = [timed(one, CORE) for one in found.code.program]
        for number in range(first, stop):
            if packs(found.code.program[number]):
                queue[number] = queue[number]._replace(cycles=0)
        assert 0 <= found.code.timeline.cycles - run_queues(queue, CORE).cycles < 0.02 * cycles
        cost = packing_cost([found.code.program], found.macros, CORE, 16)
        assert cost.frame == found.code.timeline.cycles
        assert cost.host > cost.core > 0
        assert cost.by_host == cost.frame - cost.core + cost.host


@pytest.mark.parametrize(("chunk", "transfers"), [(16, 60), (32, 30), (100, 10), (7, 138)])
def test_b11_chunks_that_the_host_packs(chunk: int, transfers: int) -> None:
    """A map of 5x6 pixels and 20 channels, of which two blocks are sent: 960 bytes."""
    build = BinaryBuilder(5, 6, 3)
    bits = build.sign(build.conv(build.input, 20))
    build.end(build.binary(bits, 10, alpha=False))
    found = compiled(build, SHAPE, pack_chunk=chunk).compiled
    assert found.packing.transfers == transfers
    whole, rest = divmod(960, chunk)
    flits = [-(-8 * size // 64) + -(-size // 64) for size in (chunk, rest)]
    wanted = whole * (HOST_LATENCY + flits[0]) + (rest > 0) * (HOST_LATENCY + flits[1])
    assert found.packing.host == wanted


def test_the_place_of_packing_changes_no_byte() -> None:
    programs = []
    for who in ("core", "host"):
        build = BinaryBuilder(5, 6, 3)
        build.end(build.binary(build.sign(build.conv(build.input, 20, SAME)), 10, alpha=False))
        programs.append(compiled(build, SHAPE, pack=who).compiled.code.program)
    assert programs[0] == programs[1]


@pytest.mark.heavy
@pytest.mark.sample(0.25)
def test_layers_of_bits_against_bytes() -> None:
    """The layers of BiRealNet-18: 6.1x by matrix calls, 4.3x for the whole network."""
    bits = bytes_ = 0
    for layer in LAYERS:
        fast, slow = binary_layer(layer)[0], byte_layer(layer)
        if layer.inputs % 128 == 0:
            assert slow / fast >= 7.5, layer
        bits += layer.count * fast
        bytes_ += layer.count * slow
    assert bytes_ / bits >= 6.0
    others = other_layers()
    assert (bytes_ + others) / (bits + others) >= 4.0
