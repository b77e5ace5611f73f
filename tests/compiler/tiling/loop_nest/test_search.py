"""Tiles of layers with external memory, compared with brute force."""

from __future__ import annotations

from itertools import permutations, product

import numpy as np
import pytest

from chipsim.chip.npu_shape import NPU_SHAPES, NpuShape
from mapper.compiler.tiling.loop_nest.external import simulated
from mapper.compiler.tiling.loop_nest.fixed import RULES, fixed
from mapper.compiler.tiling.loop_nest.search import search, search_all
from mapper.compiler.tiling.loop_nest.steps import (
    cost_of,
    matrix_cycles,
    nest_cycles,
    network_cost,
    overlaps,
    steps_of,
)
from mapper.compiler.tiling.loop_nest.traffic import (
    BATCH,
    DEPENDS,
    IC,
    LOOPS,
    OH,
    ORDERS,
    OW,
    Convolution,
    LoopNest,
    Tiling,
    contents_of,
    fits,
    layer_of,
    partial_sums,
    replacements,
)
from mapper.compiler.tiling.tiles import parts_in
from mapper.errors import DoesNotFitError
from tests.compiler.tiling.loop_nest.topologies import NETWORKS, yolov4_tiny

REF32 = NPU_SHAPES["ref32"]


def layers_of(network: str, numbers: str) -> list[LoopNest]:
    return [layer_of(form, REF32, numbers) for form in NETWORKS[network]()]


def random_layer(rng: np.random.Generator) -> LoopNest:
    kernel = int(rng.choice([1, 3]))
    form = Convolution(
        int(rng.integers(1, 40)), int(rng.integers(1, 40)), int(rng.integers(1, 200)),
        int(rng.integers(1, 200)), (kernel, kernel), (int(rng.integers(1, 3)),) * 2,
        batch=int(rng.integers(1, 3)),
    )  # fmt: skip
    return layer_of(form, REF32, str(rng.choice(["int8", "pairs", "int16"])))


def random_tiling(rng: np.random.Generator, layer: LoopNest) -> Tiling:
    sizes = tuple(int(rng.choice(parts_in(count))) for count in layer.counts)
    return Tiling(sizes, ORDERS[rng.integers(len(ORDERS))], bool(rng.integers(2)))


def test_counts_decreasing_outwards_take_fewest_cycles() -> None:
    """A36: compared with all 720 orders of six loops."""
    rng = np.random.default_rng(1)
    for _ in range(300):
        counts = [int(n) for n in rng.integers(1, 20, 6)]
        least = min(nest_cycles(order, 2) for order in permutations(counts))
        assert nest_cycles(sorted(counts, reverse=True), 2) == least
    assert nest_cycles((5, 3), 2) == 3 * (5 + 2)


def plain_walk(layer: LoopNest, tiling: Tiling) -> list[tuple[int, int, int]]:
    """Return bits loaded and stored at each step, and replaced buffers, by walking over the
    loops."""
    counts = tiling.counts(layer)
    held: dict[str, tuple[int, ...]] = {}
    entry = 0
    found: list[list[int]] = []
    for places in product(*(range(counts[loop]) for loop in tiling.order)):
        index = dict(zip(tiling.order, places, strict=True))
        sizes = [
            min(size, layer.counts[loop] - index[loop] * size)
            for loop, size in enumerate(tiling.sizes)
        ]
        batch, ow, oh, ic, oc = sizes
        words = ic * oc * layer.kernel[0] * layer.kernel[1]
        blocks = layer.counts[IC] if tiling.held else ic
        rows = (oh - 1) * layer.stride[0] + layer.reach[0]
        columns = (ow - 1) * layer.stride[1] + layer.reach[1]
        bits = {
            "input": batch * rows * columns * blocks * layer.input_bits,
            "weights": words * layer.weight_bits,
            "bias": oc * layer.bias_bits,
            "output": 0,
        }
        came = 0
        for name, loops in DEPENDS.items():
            loops = [loop for loop in loops if (name, loop, tiling.held) != ("input", IC, True)]
            content = tuple(index[loop] for loop in loops)
            if held.get(name) == content:
                continue
            if name == "output":
                if found:
                    found[-1][1] = entry
                if index[IC]:
                    came += batch * ow * oh * oc * layer.partial_bits
            held[name] = content
            came += bits[name]
        done = index[IC] == counts[IC] - 1
        entry = batch * ow * oh * oc * (layer.output_bits if done else layer.partial_bits)
        found.append([came, 0, 0])
    found[-1][1] = entry
    return [(a, b, c) for a, b, c in found]


@pytest.mark.heavy
def test_traffic_between_steps() -> None:
    """A35, A37: which loop replaces which buffer, compared with a walk over all contents."""
    assert {name: [LOOPS[loop] for loop in loops] for name, loops in DEPENDS.items()} == {
        "input": ["batch", "ow", "oh", "ic"],
        "weights": ["ic", "oc"],
        "output": ["batch", "ow", "oh", "oc"],
        "bias": ["oc"],
    }
    rng = np.random.default_rng(2)
    for _ in range(200):
        layer = random_layer(rng)
        tiling = random_tiling(rng, layer)
        if np.prod(tiling.counts(layer)) > 3000:
            continue
        steps = steps_of(layer, tiling, REF32)
        walked = plain_walk(layer, tiling)
        assert steps.load.tolist() == [one[0] for one in walked]
        assert steps.store.tolist() == [one[1] for one in walked]
        leaves = np.count_nonzero(steps.store)
        assert leaves == replacements(tiling, layer, "output")
        whole = np.prod(layer.counts[:3]) * layer.counts[4] * layer.output_bits
        assert (steps.store.sum() > whole) == partial_sums(tiling, layer)


def test_stalls_by_hand() -> None:
    """A37: a step stalls for traffic beyond its computation; first load and last store are all
    stall.
    """
    layer = layer_of(Convolution(16, 8, 32, 32), REF32, "int8")
    tiling = Tiling((1, 16, 4, 1, 1), ORDERS[0])
    steps = steps_of(layer, tiling, REF32)
    word, plane = 32 * 32 * 8, 64 * 32 * 8  # bits of a weight word, and of a tile's pixels
    assert steps.load.tolist() == [plane + word + 32 * 32, plane]
    assert steps.store.tolist() == [plane, plane]
    compute = 4 * (16 + 2) + 4 * 2  # four loops of one iteration around the plane
    assert steps.compute.tolist() == [compute, compute]
    move = plane // 256
    first = -(-(plane + word + 32 * 32) // 256)
    assert steps.alu.tolist() == [64, 64]
    assert cost_of(steps, REF32).cycles == first + 2 * max(compute, move) + 64 + move
    found = search(layer, REF32)
    assert found.cost.stalls == found.cost.cycles - found.cost.compute


def test_small_planes_wait_for_weights() -> None:
    """A39: a weight word takes 32 cycles to enter row by row; planes of fewer pixels wait."""
    layer = layer_of(Convolution(64, 64, 32, 32), REF32)
    by_word = NpuShape("word", 32, 32, multiply_lanes=32, loop_overhead=2)
    for sizes, waits in (((1, 8, 4, 1, 1), 0), ((1, 8, 8, 1, 1), 0), ((1, 5, 5, 1, 1), 7),
                         ((1, 1, 1, 1, 1), 31)):  # fmt: skip
        row, word = (int(matrix_cycles(layer, sizes, one)) for one in (REF32, by_word))
        assert row - word == waits
    assert REF32.load_bits == 32 * 32 * 8 // 32


def test_tiles_fit_half_of_the_buffers() -> None:
    """A34: channels in blocks, whole kernels."""
    layer = layer_of(Convolution(100, 100, 40, 70, (3, 3), (2, 2)), REF32, "int16")
    assert layer.counts == (1, 100, 100, 2, 3)
    held = contents_of(layer, (1, 10, 8, 2, 1))
    assert (held.input, held.weights, held.output, held.bias) == (17 * 21 * 2, 36, 80, 1)
    assert fits(layer, (1, 10, 8, 2, 1), REF32)
    assert not fits(layer, (1, 32, 33, 1, 1), REF32)  # accumulators
    assert not fits(layer, (1, 10, 8, 2, 2), REF32)  # weights
    assert not fits(layer, (1, 20, 20, 1, 1), REF32)  # inputs
    with pytest.raises(DoesNotFitError, match="kernel of 7x7: no tile fits in half"):
        search(layer_of(Convolution(9, 9, 3, 8, (7, 7)), REF32, "int16"), REF32)


@pytest.mark.heavy
@pytest.mark.sample(1)
@pytest.mark.parametrize("seed", range(8))
def test_search_finds_what_enumeration_finds(seed: int) -> None:
    """A38: all orders and sizes computed step by step, with and without the input held."""
    rng = np.random.default_rng(seed)
    kernel = int(rng.choice([1, 3]))
    form = Convolution(
        int(rng.integers(2, 14)), int(rng.integers(2, 14)), int(rng.integers(1, 100)),
        int(rng.integers(1, 100)), (kernel, kernel),
    )  # fmt: skip
    layer = layer_of(form, REF32, str(rng.choice(["int8", "pairs", "int16"])))
    best = None
    for sizes in product(*map(parts_in, layer.counts)):
        for held in (False, True):
            if not fits(layer, sizes, REF32, held):
                continue
            for order in ORDERS:
                if order[0] != BATCH:
                    continue  # a loop of one iteration may be at any level
                cost = cost_of(steps_of(layer, Tiling(sizes, order, held), REF32), REF32)
                best = min(best or (cost.cycles, cost.bits), (cost.cycles, cost.bits))
    found = search(layer, REF32)
    assert (found.cost.cycles, found.cost.bits) == best


@pytest.mark.heavy
@pytest.mark.sample(0.5)
@pytest.mark.parametrize("numbers", ["pairs", "int16"])
@pytest.mark.parametrize("network", NETWORKS)
def test_search_against_fixed_rules(network: str, numbers: str) -> None:
    """A38: fewer cycles than planes, never more than any rule; independent of the number of
    threads.

    The ranking model and the simulator agree closely. A37: stalls are few.
    """
    layers = layers_of(network, numbers)
    found = search_all(layers, REF32)
    assert found == search_all(layers, REF32, threads=3)
    cycles = sum(one.cost.cycles for one in found)
    least = {"plane8": 0.15 if numbers == "pairs" else 0.25, "plane16": 0.05, "rows": 0}
    for rule in RULES:
        others = [fixed(rule, layer, REF32) for layer in layers]
        assert all(a.cost.cycles <= b.cost.cycles for a, b in zip(found, others, strict=True))
        assert cycles <= (1 - least[rule]) * sum(one.cost.cycles for one in others)
    assert max(abs(one.modelled / one.cost.cycles - 1) for one in found) < 0.01
    for layer, one in zip(layers, found, strict=True):
        timeline = simulated([(layer, one.tiling)], REF32)
        assert abs(timeline.cycles / one.cost.cycles - 1) < 0.05
    stop = network_cost(
        [steps_of(layer, one.tiling, REF32) for layer, one in zip(layers, found, strict=True)],
        REF32,
    )
    tiled = [(layer, one.tiling) for layer, one in zip(layers, found, strict=True)]
    assert abs(simulated(tiled, REF32).cycles / stop.cycles - 1) < 0.01
    assert stop.cycles < cycles
    assert stop.stalls <= 0.04 * stop.cycles


def test_held_input_by_hand() -> None:
    """A34, A35: the input of all 16 blocks is loaded once, where weights leave room for one of
    them.

    If it is held for the whole result, it has both halves of its buffer.
    """
    layer = layer_of(Convolution(7, 7, 512, 512, (3, 3)), REF32, "int16")
    order = ORDERS[0]
    tilings = [Tiling((1, 7, 7, 1, 1), order, held) for held in (False, True)]
    steps = [steps_of(layer, one, REF32) for one in tilings]
    assert [np.count_nonzero(one.input) for one in steps] == [16, 1]
    assert [one.input[0] for one in steps] == [81 * 512, 16 * 81 * 512]  # bits
    assert [replacements(one, layer, "input") for one in tilings] == [16, 1]
    assert (steps[0].weights == steps[1].weights).all()
    assert search(layer, REF32).tiling.held
    wide = layer_of(Convolution(7, 7, 256, 512, (3, 3), (2, 2)), REF32, "int16")
    assert REF32.input_vectors // 2 < 8 * 15 * 15 <= REF32.input_vectors
    assert fits(wide, (1, 7, 7, 1, 3), REF32, held=True)
    assert not fits(wide, (1, 7, 6, 1, 3), REF32, held=True)  # another one follows


def test_first_weights_are_loaded_during_the_previous_layer() -> None:
    """A37: they do not wait for results; limited to the idle time there."""
    layer = layer_of(Convolution(16, 8, 32, 32), REF32, "int8")
    steps = steps_of(layer, Tiling((1, 16, 4, 1, 1), ORDERS[0]), REF32)
    word = 32 * 32 * 8 + 32 * 32  # with its bias
    idle = int(steps.compute[-1]) - 64 + 64  # during the store of one tile, and after the last
    assert overlaps(steps, steps, REF32) == min(idle, word // 256) == 36
    alone = cost_of(steps, REF32)
    assert network_cost([steps, steps, steps], REF32).cycles == 3 * alone.cycles - 2 * 36
    assert network_cost([steps], REF32) == alone


@pytest.mark.heavy
@pytest.mark.sample(0.25)
def test_sixteen_bits_take_nearly_twice_the_cycles() -> None:
    cycles = [
        sum(one.cost.cycles for one in search_all(layers_of("YOLOv4-tiny", numbers), REF32))
        for numbers in ("pairs", "int16")
    ]
    assert 1.9 <= cycles[1] / cycles[0] <= 2


def test_first_tile() -> None:
    """A40: planes of 8x8 in the first layer of YOLOv4-tiny with paired rows: 240 / 8 columns, 88 /
    8 rows.
    """
    layer = layer_of(yolov4_tiny(480, 352)[0], REF32, "pairs")
    found = search(layer, REF32, {OW: 8, OH: 8})
    assert dict(found.tiling.outer(layer)) == {"oh": 11, "ow": 30}
