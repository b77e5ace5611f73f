"""Inputs of a compilation, on which the keys of its results in the cache depend."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import msgspec
import numpy as np

from chipsim.chip.model import Chip
from chipsim.chip.npu_shape import NpuShape
from mapper.cache.cache import NO_SLOT, Cache, Slot
from mapper.cache.digests import digest
from mapper.compiler.ir.graph import Graph, part_of
from mapper.compiler.ir.node import Host, Node
from mapper.compiler.ir.tensor import Tensor
from mapper.compiler.ir.text import graph_to_json
from mapper.compiler.model import Model
from mapper.compiler.quantisation.ranges import Feeds, Measure, Range, RangesFile, measure_ranges
from mapper.compiler.settings import CompileSettings
from mapper.compiler.transforms.base import Taken, Trial
from storage.formats.layers.onnxgraph import whole_model
from storage.samples import SampleArrays

ENDS = ("inputs", "outputs")


class CompileInputs(NamedTuple):
    """A model and the samples that it is compiled with.

    samples, test : as for `compile_model`
    """

    model: Model
    samples: SampleArrays | RangesFile | None
    test: SampleArrays | None

    def digest(self) -> bytes:
        """Return the digest of the model's data, the way to read it, and the samples."""
        model, data = self.model, self.model.data
        in_part = model.build_in_part is not None
        return digest(
            whole_model(model.path) if data is None else data, model.name, model.quantised,
            model.guessed, in_part, _values(self.samples), _values(self.test),
        )  # fmt: skip


def _values(samples: SampleArrays | RangesFile | None) -> Any:
    """Return the parts of samples that a compilation reads."""
    if isinstance(samples, RangesFile):
        return samples[1:]
    return None if samples is None else samples[:2]


def slot_of(
    cache: Cache, kind: str, inputs: CompileInputs, chip: Chip, settings: CompileSettings,
    *more: Any,
) -> Slot:  # fmt: skip
    """Return the place of a result in the cache; none for a search that a time limit may end.

    more : further values that it depends on
    """
    if not cache.is_on or settings.time_limit is not None:
        return NO_SLOT
    return cache.slot(kind, inputs.digest(), chip, settings, *more)


def kept_ranges(
    cache: Cache, inputs: CompileInputs, shape: NpuShape, settings: CompileSettings
) -> Measure:
    """Return a function that takes the ranges of maps from the cache, or measures and keeps them.

    inputs, shape, settings : of the compilation
    """
    if not cache.is_on:
        return measure_ranges
    model = inputs._replace(test=None).digest()

    def kept(graph: Graph, feeds: Feeds, tensors: Sequence[Tensor]) -> dict[Tensor, Range]:
        host = [node.sources for node in graph.nodes if isinstance(node.operator, Host)]
        names = [tensor.name for tensor in tensors]
        slot = cache.slot("ranges", model, settings.samples, settings.off, shape, host, names)
        data = slot.get()
        if data is not None:
            found = msgspec.msgpack.decode(data, type=list[tuple[float, float, list[int]]])
            ranges = [Range(low, high, np.array(counts, np.int64)) for low, high, counts in found]
            return dict(zip(tensors, ranges, strict=True))
        measured = measure_ranges(graph, feeds, tensors)
        rows = [(*measured[one][:2], measured[one].counts.tolist()) for one in tensors]
        slot.put(msgspec.msgpack.encode(rows))
        return measured

    return kept


def kept_trials(trial: Trial, cache: Cache, *inputs: Any) -> Trial:
    """Return a function that takes the costs of nodes from the cache, or measures and keeps them.

    inputs : all that the costs depend on, besides the nodes. Names do not count, so that models
        with equal layers share results
    """
    if not cache.is_on:
        return trial

    def kept(nodes: Sequence[Node], results: Sequence[Tensor]) -> Taken | None:
        slot = cache.slot("trials", nameless(nodes, results), *inputs)
        found = slot.get()
        if found is None:
            taken = trial(nodes, results)
            slot.put(msgspec.msgpack.encode(taken))
            return taken
        return msgspec.msgpack.decode(found, type=Taken | None)

    return kept


def nameless(nodes: Sequence[Node], results: Sequence[Tensor]) -> tuple[Any, ...]:
    """Return all of some nodes except names."""
    graph, arrays = graph_to_json(part_of(nodes, results))
    for tensor in graph["tensors"]:
        del tensor["name"]
    for node in graph["nodes"]:
        del node["sources"]
    ends = [[one["tensor"] for one in graph.pop(role).values()] for role in ENDS]
    return graph, arrays, ends


def cuts_slot(
    cache: Cache, inputs: CompileInputs, chip: Chip, settings: CompileSettings, shape: NpuShape
) -> Slot:
    """Return the place of the cut over cores, which does not depend on the placement."""
    return slot_of(cache, "cuts", inputs, chip, replace(settings, placement="mapper"), shape)
