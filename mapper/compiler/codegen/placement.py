"""Which layers of a program have their weights in the core, and which get them from the host."""

from __future__ import annotations

from chipsim.chip.npu_shape import NpuShape
from mapper.compiler.codegen.builder import WeightPlan
from mapper.compiler.codegen.kernels import weight_words
from mapper.compiler.graph.macro import Macro
from mapper.compiler.memory.weights import Need, Rule, choose
from mapper.compiler.schedule.tiles import largest_cut
from mapper.errors import DoesNotFitError, MapperError

HOST_LATENCY = 32
"""Cycles until the first words of a request arrive."""


def word_cycles(shape: NpuShape) -> float:
    """Cycles between two weight words of the host: one flit a cycle, or external memory's bits."""
    bits = 8 * shape.rows * shape.columns
    return bits / (shape.load_bits if shape.map_vectors == 0 else shape.payload_bits)


def plan_weights(macros: list[Macro], shape: NpuShape, rule: Rule = "optimal") -> WeightPlan:
    """The layers that are dynamic, by number, so that a frame takes least longer.

    A layer that is larger than the memory comes part by part, through half of it.
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
        raise MapperError("weights that fit one by one fit in no way")  # pragma: no cover
    chosen = {number for number, yes in zip(rest, choice.dynamic, strict=False) if yes}
    static = sum(one.words for number, one in rest.items() if number not in chosen)
    for number in sorted(large | chosen):
        if needs[number].words > capacity - static:
            _require_part(macros[number], shape, capacity - static)
    return WeightPlan(frozenset(large | chosen), static)


def _require_part(macro: Macro, shape: NpuShape, size: int) -> None:
    """Let the tiles of a layer take half of the dynamic part each, so that words come while others
    are worked with; all of it, if nothing smaller fits."""
    macro.words = size // 2
    try:
        largest_cut(macro, shape)
    except DoesNotFitError:
        macro.words = size


def delay(macro: Macro, words: int, shape: NpuShape) -> int:
    """Cycles that a frame takes longer if the weights of a layer come from the host: they come
    while it works, but its first pixels wait for all of them."""
    made = macro.nodes[0].output
    calls = words * made.height * made.width * (shape.loop_overhead + 1)
    return HOST_LATENCY + max(0, round(words * word_cycles(shape) - calls / 4))
