"""Weights streamed from the host while layers run; tables loaded while a program runs."""

from __future__ import annotations

import numpy as np
import pytest

from chipsim.chip.npu_shape import NPU_SHAPES, NpuShape
from chipsim.npu.arrivals import HostLink
from chipsim.npu.cycles import WEIGHTS
from hw.npu.isa.table import Instruction
from mapper.compiler.artifacts.cycles import run_cycles
from mapper.compiler.artifacts.verify import verify_compiled
from mapper.compiler.ir.node import Add, Pool, Window
from mapper.compiler.program.image import Image
from mapper.compiler.program.presets import Preloaded
from mapper.compiler.tiling.units import timeline_of_functions
from mapper.errors import CheckFailedError, DoesNotFitError
from tests.compiler.networks import Builder
from tests.compiler.programs import Made, check_image, compared, compiled, exact

pytestmark = pytest.mark.jit


def little(words: int, **more: int) -> NpuShape:
    """Return a core with few weight words."""
    return NpuShape("little", weight_words=words, **{"instructions": 1 << 16, **more})  # type: ignore[arg-type]


def network(seed: int = 0) -> Builder:
    """Build layers of 27, 18, 36, 1 and 4 weight words: 86 in total."""
    build = Builder(9, 8, 40, seed)
    a = build.relu(build.conv(build.input, 16))
    b = build.relu(build.conv(a, 32))
    c = build.relu(build.conv(b, 32))
    d = build.pool(build.like(Add(), c, b), Pool("max", Window((2, 2), (2, 2))))
    e = build.conv(d, 20, Window((1, 1)))
    build.end(build.conv(e, 10, Window((e.height, e.width))))
    return build


def streams(made: Made) -> list[Instruction]:
    return [one for one in made.compiled.code.program if one.kind == "WSTREAM"]


@pytest.mark.heavy
@pytest.mark.sample(1)
@pytest.mark.parametrize("words", [1024, 100, 80, 64, 40, 30, 17, 10, 4, 2])
def test_c07_weights_streamed_from_the_host(words: int) -> None:
    """C07: results do not depend on the memory size; words are streamed when they do not fit."""
    build = network()
    made = exact(build, compiled(build, little(words)))
    assert bool(streams(made)) == (words < 115)
    assert len(made.compiled.code.tables.weights) <= words
    assert len(made.compiled.host_weights) == 0 or words < 115


@pytest.mark.heavy
@pytest.mark.sample(1)
@pytest.mark.parametrize("rule", ["optimal", "greedy"])
def test_either_rule_gives_the_same_results(rule: str) -> None:
    build = network(3)
    exact(build, compiled(build, little(60), weights=rule))


@pytest.mark.heavy
@pytest.mark.sample(0.5)
def test_a_layer_that_fits_is_requested_once() -> None:
    build = Builder(16, 16, 16)
    a = build.relu(build.conv(build.input, 32))
    build.end(build.conv(a, 32))
    made = exact(build, compiled(build, little(40)))
    asked = [one.fields["words"] for one in streams(made)]
    assert sum(asked) == len(made.compiled.host_weights) == 18 + 36


@pytest.mark.heavy
def test_a_large_layer_is_streamed_by_output_blocks() -> None:
    """All tiles of some output blocks are consecutive, so their words are loaded once."""
    build = Builder(16, 16, 32)
    build.end(build.conv(build.input, 64))
    made = exact(build, compiled(build, little(40)))
    assert sum(one.fields["words"] for one in streams(made)) == 72
    assert all(one.fields["words"] <= 20 for one in streams(made))
    waiting = [one for one in made.compiled.code.program if one.fields.get("dyn")]
    products = [one for one in made.compiled.code.program if one.op == "GEMM"]
    assert 0 < len(waiting) < len(products)


@pytest.mark.heavy
@pytest.mark.sample(1)
@pytest.mark.parametrize("words", [16, 2])
def test_c08_a_layer_larger_than_the_memory(words: int) -> None:
    """C08: 72 words, 18 per block of outputs: parts of a block are streamed consecutively.

    So no layer is rejected, and requests leave room for words in use.
    """
    build = Builder(9, 8, 32)
    build.end(build.conv(build.input, 64))
    made = exact(build, compiled(build, little(words)))
    assert all(one.fields["words"] <= words // 2 for one in streams(made))


@pytest.mark.heavy
def test_c07_a_slow_host_stalls_the_products() -> None:
    """C07: the slower the host, the later the end; the matrix unit stalls."""
    made = compiled(network(), little(40))
    compiled_ = made.compiled
    code = compiled_.code
    shape, ends, late = code.tables.shape, [], []
    before = Preloaded.of(compiled_.code.tables, compiled_.code.preset)
    for flits in (1.0, 0.5, 0.1, 0.02):
        link = HostLink(32, flits)
        found = timeline_of_functions(code.program, code.spans, shape, before, link)
        ends.append(found.cycles)
        late.append(int(found.late.sum()))
        assert found.busy.tolist() == compiled_.code.timeline.busy.tolist()
        # a waiting product ends after the arrival of all its words
        words = sum(one.fields["words"] for one in streams(made))
        assert found.cycles > words * 32 / flits
    assert ends == sorted(set(ends))
    assert late == sorted(set(late))
    assert compiled_.code.timeline.cycles == ends[0]


@pytest.mark.heavy
@pytest.mark.sample(1)
@pytest.mark.parametrize(("words", "more"), [(64, {}), (40, {}), (10, {}), (30, {"micro_ops": 40})])
def test_c07_compiler_and_simulator_agree_on_cycles(words: int, more: dict[str, int]) -> None:
    """C07, R11.3: both wait for the words of the host; micro-ops may be loaded again."""
    made = compiled(network(), little(words, **more))
    timeline, (core,) = made.compiled.code.timeline, run_cycles(made.folder, None).times
    assert core.cycles == timeline.cycles
    assert core.start.tolist() == timeline.start.tolist()
    assert core.end.tolist() == timeline.end.tolist()
    assert core.busy.tolist() == timeline.busy.tolist()
    assert core.waits[:, WEIGHTS].tolist() == [0, int(timeline.late.sum()), 0, 0]
    assert timeline.late.sum() > 0


@pytest.mark.heavy
@pytest.mark.sample(0.5)
def test_weights_follow_the_inputs_over_a_shared_path() -> None:
    """On a core with external memory, products start with the first of their words."""
    build = Builder(12, 12, 40)
    a = build.relu(build.conv(build.input, 96))
    build.end(build.conv(a, 40, Window((12, 12))))
    made = compiled(build, NPU_SHAPES["ref32"])
    timeline = made.compiled.code.timeline
    assert 0 < timeline.late.sum() < 0.06 * timeline.cycles
    assert timeline.busy[1] > 0.9 * timeline.cycles
    (times,) = run_cycles(made.folder, None).times
    assert times.cycles == timeline.cycles


def test_products_of_many_channels_do_not_wait_for_their_weights() -> None:
    """On a core with external memory: micro-ops are loaded before the weights, the words of paired
    output blocks alternate, and wide tiles need few iterations of the outer loop."""
    build = Builder(26, 26, 128)
    build.end(build.conv(build.input, 128))
    made = compiled(build, NPU_SHAPES["ref32"])
    timeline = made.compiled.code.timeline
    products = 26 * 26 // 2 * 9 * 4 * 4  # two at once
    assert timeline.cycles < 1.2 * products
    assert timeline.late.sum() < 0.02 * timeline.cycles
    assert {one.differences for one in compared(build, made, frames=1)} == {0}
    verify_compiled(made.folder)


def test_words_of_dense_layers() -> None:
    build = Builder(6, 6, 40)
    a = build.conv(build.input, 48, Window((6, 6)))
    build.end(build.conv(a, 10, Window((1, 1))))
    for words in (64, 12):
        exact(build, compiled(build, little(words)))
        build = Builder(6, 6, 40)
        a = build.conv(build.input, 48, Window((6, 6)))
        build.end(build.conv(a, 10, Window((1, 1))))


@pytest.mark.heavy
@pytest.mark.sample(0.5)
def test_dual_cores_and_external_memory() -> None:
    """`ref32`: 128 weight words, maps in external memory."""
    build = Builder(12, 12, 40)
    a = build.relu(build.conv(build.input, 96))
    b = build.relu(build.conv(a, 100))
    build.end(build.conv(b, 40, Window((12, 12))))
    made = exact(build, compiled(build, NPU_SHAPES["ref32"]))
    assert streams(made)


@pytest.mark.heavy
@pytest.mark.sample(0.25)
def test_addresses_beyond_a_field_have_a_base() -> None:
    """External maps of more than 65,536 vectors."""
    build = Builder(300, 260, 3)
    a = build.relu(build.conv(build.input, 16, Window((1, 1))))
    build.end(build.pool(a, Pool("max", Window((10, 10), (10, 10)))))
    shape = NpuShape("outside", map_vectors=0, instructions=0)
    made = compiled(build, shape)
    assert {one.differences for one in compared(build, made, frames=1)} == {0}
    verify_compiled(made.folder)
    assert any(one.kind == "BASE" for one in made.compiled.code.program)


# ---- the checker finds damage -------------------------------------------------------------------


def damaged(made: Made, number: int, **fields: int) -> Image:
    """Return the image with some fields of an instruction changed."""
    program = list(made.compiled.code.program)
    one = program[number]
    program[number] = one._replace(fields={**one.fields, **fields})
    kept, made.compiled.code.program = made.compiled.code.program, program
    image = made.compiled.code.image()
    made.compiled.code.program = kept
    return image


def numbers(made: Made, kind: str) -> list[int]:
    return [at for at, one in enumerate(made.compiled.code.program) if one.kind == kind]


def refused(made: Made, image: Image, text: str) -> None:
    shape = made.compiled.code.tables.shape
    everything = np.arange(shape.map_vectors)
    with pytest.raises(CheckFailedError, match=text):
        check_image(image, shape, [everything], "broken")


@pytest.mark.heavy
def test_products_that_do_not_wait_are_found() -> None:
    made = compiled(network(), little(40))
    check_image(damaged(made, 0), made.compiled.code.tables.shape, [np.arange(8192)], "whole")
    for number, one in enumerate(made.compiled.code.program):
        if one.fields.get("dyn"):
            refused(made, damaged(made, number, dyn=0), "may be in transit|which was never written")


@pytest.mark.heavy
@pytest.mark.sample(0.5)
def test_streams_over_words_in_use_are_found() -> None:
    made = compiled(network(), little(60))
    assert made.compiled.code.static_words > 0
    for number in numbers(made, "WSTREAM"):
        refused(made, damaged(made, number, dst=made.compiled.code.static_words - 1), "static")
        words = made.compiled.code.program[number].fields["words"]
        refused(made, damaged(made, number, words=words - 1), "arrive|never written|transit")


# ---- tables ------------------------------------------------------------------------------------


@pytest.mark.heavy
@pytest.mark.sample(1)
@pytest.mark.parametrize("more", [
    {"micro_ops": 64}, {"micro_ops": 40}, {"parameter_words": 24}, {"parameter_words": 12},
    {"micro_ops": 48, "parameter_words": 16},
])  # fmt: skip
def test_c09_tables_are_loaded_again(more: dict[str, int]) -> None:
    """C09: micro-ops and parameters of many layers through small memories."""
    build = network()
    made = exact(build, compiled(build, little(1024, **more)))
    loads = [one for one in made.compiled.code.program if one.kind == "TABLE"]
    assert {one.fields["memory"] for one in loads} == {
        number for number, name in enumerate(("micro_ops", "parameter_words")) if name in more
    }


@pytest.mark.heavy
@pytest.mark.sample(0.25)
def test_c09_a_memory_that_holds_no_layer_is_named() -> None:
    """C09: memory, need, capacity and layer."""
    for more, text in (
        ({"micro_ops": 2}, "micro-op memory: .* words needed at once, a core has 2 "),
        (
            {"parameter_words": 2},
            "conv 'n0': parameter memory: .* words needed at once, a core has 2",
        ),
        ({"instructions": 20}, "instruction memory: .* words needed, a core has 20"),
    ):
        with pytest.raises(DoesNotFitError, match=text):
            compiled(network(), little(1024, **more))


@pytest.mark.heavy
def test_damaged_tables_are_found() -> None:
    made = compiled(network(), little(1024, micro_ops=64))
    number = numbers(made, "TABLE")[-1]
    fields = made.compiled.code.program[number].fields
    refused(made, damaged(made, number, dst=fields["dst"] + 60), r"UM\[")
    refused(made, damaged(made, number, src=8190), "never written|table|outside|micro-op|FM|twice")
