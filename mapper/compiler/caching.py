"""Inputs of a compilation, on which the keys of its results in the cache depend."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

from chipsim.chip.model import Chip
from chipsim.chip.npu_shape import NpuShape
from mapper.cache.cache import NO_SLOT, Cache, Slot
from mapper.cache.digests import digest
from mapper.compiler.model import Model
from mapper.compiler.quantisation.ranges import RangesFile
from mapper.compiler.settings import CompileSettings
from storage.formats.layers.onnxgraph import whole_model
from storage.samples import SampleArrays


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


def cuts_slot(
    cache: Cache, inputs: CompileInputs, chip: Chip, settings: CompileSettings, shape: NpuShape
) -> Slot:
    """Return the place of the cut over cores, which does not depend on the placement."""
    return slot_of(cache, "cuts", inputs, chip, replace(settings, placement="mapper"), shape)
