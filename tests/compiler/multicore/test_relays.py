"""Layers that take more cores than one core can exchange data with."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import replace

import numpy as np
import pytest

from chipsim.chip.model import Chip
from chipsim.chip.npu_shape import NpuShape
from chipsim.npu.records import STREAMS
from mapper.compiler.artifacts.cycles import run_frames
from mapper.compiler.artifacts.manifest import Target
from mapper.compiler.compiled import Compiled
from mapper.compiler.ir.macro import Macro
from mapper.compiler.ir.node import Add, Relay, Window
from mapper.compiler.multicore import search
from mapper.compiler.pipeline import compile_model
from mapper.compiler.program.links import StreamsError
from mapper.compiler.transforms import relays
from tests.compiler.multicore.test_programs import HOW, checked
from tests.compiler.networks import SAME, Builder
from tests.compiler.programs import FOUR, folder_of, source_of

pytestmark = pytest.mark.jit
FEW = replace(FOUR, name="few", weight_words=40)  # an output block of 9 x 16 weights has 36 words
CHIP = Chip("mesh", 8, 8)
NAME = "mapper.compiler.transforms.registry.relay"


def network(outputs: int, height: int = 5, added: bool = False) -> Builder:
    """Build a network whose second layer takes a core per output block."""
    build = Builder(height, 6, 4)
    data = build.relu(build.conv(build.input, 16, SAME))
    made = build.relu(build.conv(data, outputs, SAME))
    made = build.conv(made, 16, Window((1, 1)))
    build.end(build.like(Add(), made, data) if added else made)
    return build


def compiled(build: Builder, shape: NpuShape, chip: Chip = CHIP, bits: int = 8) -> Compiled:
    source, samples = source_of(deepcopy(build))
    return compile_model(source, shape, samples, replace(HOW, bits=bits), chip=chip)


def is_relay(macro: Macro) -> bool:
    return isinstance(macro.nodes[0].operator, Relay)


CASES = {
    "blocks": (FEW, network(72), 3),
    "sum": (FEW, network(68, added=True), 3),
    "16 bits": (replace(FEW, multiplier="dual", weight_words=80), network(72), 3),
    "strips": (replace(FEW, map_vectors=200), network(36, 12), 3),
}


@pytest.mark.heavy
@pytest.mark.sample(1)
@pytest.mark.parametrize("case", CASES)
def test_exact(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every layer equals the reference, also if frames overlap on the mesh; a relay has its own
    core. Without relays the host must send weights while the program runs."""
    shape, build, parts = CASES[case]
    bits = 16 if case == "16 bits" else 8
    made = compiled(build, shape, bits=bits)
    found = folder_of(made, Target(CHIP, shape, HOW))
    layers = checked(build, found)
    assert [one.differences for one in layers] == [0] * len(layers)
    samples = np.ascontiguousarray(build.graph.inputs["x"].array(build.samples(2)))
    assert run_frames(found, samples, 2).bytes > 0
    assert sum(map(is_relay, made.macros)) == 2 * parts
    cores = [[is_relay(macro) for macro in code.macros] for code in made.codes]
    assert all(len(one) == 1 for one in cores if any(one))
    assert not made.host_weights.size
    monkeypatch.setattr(NAME, lambda *_: None)
    assert compiled(build, shape, bits=bits).host_weights.size


@pytest.mark.heavy
@pytest.mark.sample(1)
@pytest.mark.parametrize(
    ("outputs", "words", "parts"),
    [
        (4 * STREAMS, 40, 0),  # as many cores as streams
        (4 * STREAMS + 4, 40, 3),
        (4 * STREAMS + 4, 72, 0),  # two blocks per core
        (8 * STREAMS + 8, 72, 3),
    ],
)
def test_parts(outputs: int, words: int, parts: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each part takes at most `MOST_CORES` cores."""
    build = network(outputs)
    seen: list[int] = []
    split = relays.split_layer

    def splitting(graph: object, node: object, last: object, size: int) -> object:
        seen.append(-(-outputs // size))
        assert -(-size // 4) <= relays.MOST_CORES * (words // 36)
        return split(graph, node, last, size)  # type: ignore[arg-type]

    monkeypatch.setattr(relays, "split_layer", splitting)
    compiled(build, replace(FEW, weight_words=words))
    assert seen == [parts] * bool(parts)


def test_streamed_weights_need_no_relays() -> None:
    """Four cores cannot hold all weights, so the host sends them."""
    made = compiled(network(72), FEW, Chip("mesh", 2, 2))
    assert not any(map(is_relay, made.macros))


@pytest.mark.heavy
@pytest.mark.sample(0.5)
def test_many_parts_are_joined(monkeypatch: pytest.MonkeyPatch) -> None:
    """Layers whose cores need too many streams get larger parts."""
    build = Builder(16, 24, 16)
    data = build.input
    for _ in range(3):
        data = build.relu(build.conv(data, 64, SAME))
    build.end(data)
    shape = replace(FOUR, weight_words=1200)
    refused: list[StreamsError] = []
    simulate = search.simulated

    def simulated(*args: object, **more: object) -> object:
        try:
            return simulate(*args, **more)  # type: ignore[arg-type]
        except StreamsError as error:
            refused.append(error)
            raise

    monkeypatch.setattr(search, "simulated", simulated)
    joined = compiled(build, shape)
    assert refused
    assert all(one.streams > STREAMS for error in refused for one in error.crowded)
    assert max(len(code.links.counts) for code in joined.codes) <= STREAMS
