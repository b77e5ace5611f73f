"""Known costs of parts of layers: of this compilation, and of earlier ones in the cache.

The cache has an entry per layer, by its content: models and chips with equal layers share it.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, NamedTuple

import msgspec

from mapper.cache.cache import NO_SLOT, OFF, Cache, Slot
from mapper.errors import DoesNotFitError


class PartCost(NamedTuple):
    """Cost of a part of a layer.

    cycles : cycles per frame, with every result sent to one core per layer that reads it
    vectors : input feature maps; words, parameters... : entries of the memories. Weights that come
        from the host pass through half of the weight memory
    """

    cycles: int
    vectors: int
    words: int
    parameters: int
    micro_ops: int
    instructions: int
    headers: int


class LayerCosts(dict[bytes, PartCost]):
    """Costs of the parts of a layer, by `key`. slot : their place in the cache"""

    def __init__(self, slot: Slot) -> None:
        super().__init__(_costs_in(slot))
        self._slot, self._kept = slot, len(self)

    @staticmethod
    def key(*parts: Any) -> bytes:
        return packed(parts)

    def keep(self) -> None:
        """Put new costs into the cache."""
        if len(self) > self._kept:
            self.update(_costs_in(self._slot))  # other processes may have measured more
            self._slot.put(packed(dict(self)))
            self._kept = len(self)


class KnownCosts:
    """Costs of parts so far.

    parts : by size and lag, or the reason why they do not fit; cuts : by size and cut
    """

    def __init__(self, cache: Cache = OFF) -> None:
        self.parts: dict[Hashable, PartCost | DoesNotFitError] = {}
        self.cuts: dict[Hashable, PartCost] = {}
        self._cache = cache
        self._layers: dict[int, LayerCosts] = {}

    def layer(self, number: int, inputs: Callable[[int], tuple[Any, ...]]) -> LayerCosts:
        """Return the known costs of a layer. inputs : returns all that they depend on"""
        if number not in self._layers:
            on = self._cache.is_on
            slot = self._cache.slot("costs", *inputs(number)) if on else NO_SLOT
            self._layers[number] = LayerCosts(slot)
        return self._layers[number]

    def keep(self) -> None:
        """Put new costs into the cache."""
        for layer in self._layers.values():
            layer.keep()


def packed(value: Any) -> bytes:
    """Return a value in MessagePack; numbers of numpy are converted."""
    return msgspec.msgpack.encode(value, enc_hook=lambda one: one.item())


def _costs_in(slot: Slot) -> dict[bytes, PartCost]:
    data = slot.get()
    return {} if data is None else msgspec.msgpack.decode(data, type=dict[bytes, PartCost])
