"""Choice of the layers whose weights stay in the core; the others stream them from the host."""

from __future__ import annotations

from chipsim.chip.npu_shape import NpuShape
from mapper.compiler.codegen.builder import WeightPlan
from mapper.compiler.codegen.kernels import weight_words
from mapper.compiler.ir.macro import Macro
from mapper.compiler.memory.weights import Need, choose
from mapper.compiler.settings import WeightRule
from mapper.compiler.tiling.tiles import largest_cut
from mapper.errors import DoesNotFitError, MapperError

HOST_LATENCY = 32
"""Cycles from a request to the arrival of its first words."""


def word_cycles(shape: NpuShape) -> float:
    """Return the cycles between two weight words of the host: one flit per cycle, or limited by the
    width of the external memory."""
    bits = 8 * shape.rows * shape.columns
    return bits / (shape.load_bits if shape.map_vectors == 0 else shape.payload_bits)


def plan_weights(macros: list[Macro], shape: NpuShape, rule: WeightRule = "optimal") -> WeightPlan:
    """Choose the layers with dynamic weights so that a frame is delayed least.

    A layer that is larger than the weight memory is streamed in parts, through half of it.
    """
    needs: dict[int, Need] = {}
    for number, macro in enumerate(macros):
        if macro.conv is not None:
            words = weight_words(macro, shape)
            needs[number] = Need(words, delay(macro, words, shape))
    capacity = shape.weight_words
    large = {number for number, one in needs.items() if one.words > capacity}
    rest = {number: one for number, one in needs.items() if number not in large}
    through = [Need(-(-capacity // 2), 0)] if large else []
    choice = choose([*rest.values(), *through], capacity, rule)
    if choice is None:
        raise MapperError("no weight plan found, although each layer fits")  # pragma: no cover
    chosen = {number for number, yes in zip(rest, choice.dynamic, strict=False) if yes}
    static = sum(one.words for number, one in rest.items() if number not in chosen)
    for number in sorted(large | chosen):
        if needs[number].words > capacity - static:
            _require_part(macros[number], shape, capacity - static)
    return WeightPlan(frozenset(large | chosen), static)


def _require_part(macro: Macro, shape: NpuShape, size: int) -> None:
    """Limit the tiles of a layer to half of the dynamic part, so that words arrive while others are
    in use; allow all of it if no smaller tile fits."""
    macro.words = size // 2
    try:
        largest_cut(macro, shape)
    except DoesNotFitError:
        macro.words = size


def delay(macro: Macro, words: int, shape: NpuShape) -> int:
    """Return the cycles that streaming the weights of a layer adds to a frame: words arrive while
    it computes, but its first pixels wait for all of them."""
    made = macro.nodes[0].output
    calls = words * made.height * made.width * (shape.loop_overhead + 1)
    return HOST_LATENCY + max(0, round(words * word_cycles(shape) - calls / 4))
