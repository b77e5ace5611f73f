"""Choice of the layers that keep their weights in a core; the others stream them in every frame.

The weight memory has a static part, loaded once, followed by a dynamic part that is filled during
computation. The dynamic part has the size of the largest layer that uses it; all dynamic layers
share it.

    minimise     sum of delays of the dynamic layers
    subject to   words of the static layers + words of the largest dynamic one <= capacity

Exact: for each choice of the largest dynamic layer all larger layers are static, and the smaller
static ones solve a knapsack problem. In order of size one table over capacities serves all choices.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from chipsim.chip.npu_shape import NpuShape
from mapper.compiler.codegen.builder import WeightPlan
from mapper.compiler.codegen.kernels import weight_words
from mapper.compiler.ir.macro import Macro
from mapper.compiler.settings import WeightRule
from mapper.compiler.tiling.streams import HOST_LATENCY, word_cycles
from mapper.compiler.tiling.tiles import largest_cut
from mapper.errors import DoesNotFitError, MapperError


def plan_weights(
    macros: Sequence[Macro], shape: NpuShape, rule: WeightRule = "optimal"
) -> WeightPlan:
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


class Need(NamedTuple):
    """Demand of a layer: weight words, and cycles added to a frame if it is dynamic."""

    words: int
    delay: int


class WeightChoice(NamedTuple):
    """dynamic : True for each dynamic layer; delay : total cycles

    part : minimum words of the dynamic part
    """

    dynamic: tuple[bool, ...]
    delay: int
    part: int


def choose(
    needs: Sequence[Need], capacity: int, rule: WeightRule = "optimal"
) -> WeightChoice | None:
    """Choose the dynamic layers; None if a layer is larger than the memory."""
    if sum(one.words for one in needs) <= capacity:
        return WeightChoice((False,) * len(needs), 0, 0)
    return greedy(needs, capacity) if rule == "greedy" else optimal(needs, capacity)


def choice_of(needs: Sequence[Need], dynamic: Sequence[bool]) -> WeightChoice:
    """Return a choice with its cost."""
    taken = [one for one, yes in zip(needs, dynamic, strict=True) if yes]
    return WeightChoice(
        tuple(dynamic),
        sum(one.delay for one in taken),
        max((one.words for one in taken), default=0),
    )


def fits(needs: Sequence[Need], choice: WeightChoice, capacity: int) -> bool:
    static = sum(
        one.words for one, yes in zip(needs, choice.dynamic, strict=True) if not yes
    )  # fmt: skip
    return static + choice.part <= capacity


def greedy(needs: Sequence[Need], capacity: int) -> WeightChoice | None:
    """Make the largest layers dynamic, one by one, until the others fit."""
    dynamic = [False] * len(needs)
    for at in sorted(range(len(needs)), key=lambda one: (-needs[one].words, one)):
        dynamic[at] = True
        choice = choice_of(needs, dynamic)
        if fits(needs, choice, capacity):
            return choice
    return None


def optimal(needs: Sequence[Need], capacity: int) -> WeightChoice | None:
    """Minimise the delay; break ties by the smaller dynamic part, then by the order of layers."""
    order = sorted(range(len(needs)), key=lambda one: (needs[one].words, one))
    saved = np.zeros(capacity + 1, np.int64)  # delay saved by static layers, by capacity
    taken = np.zeros((len(order), capacity + 1), bool)
    larger = sum(one.words for one in needs)
    whole, kept = sum(one.delay for one in needs), 0  # delay of all layers, of static larger ones
    kept = whole
    best: tuple[int, int, int] | None = None  # delay, words, number
    for number, at in enumerate(order):
        words, delay = needs[at]
        larger -= words
        kept -= delay  # delay of larger layers, which are static
        room = capacity - words - larger
        if room >= 0:
            cost = whole - kept - int(saved[room])
            if best is None or (cost, words) < best[:2]:
                best = cost, words, number
        if words <= capacity:
            with_it = np.full(capacity + 1, -1, np.int64)
            with_it[words:] = saved[: capacity + 1 - words] + delay
            taken[number] = with_it > saved
            saved = np.maximum(saved, with_it)
    if best is None:
        return None
    dynamic, last = [False] * len(needs), best[2]
    dynamic[order[last]] = True
    room = capacity - best[1] - sum(needs[at].words for at in order[last + 1 :])
    for number in range(last - 1, -1, -1):
        at = order[number]
        if taken[number, room]:
            room -= needs[at].words
        else:
            dynamic[at] = True
    return choice_of(needs, dynamic)
