"""Metrics in one call, for most tests."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from chipsim.chip.model import Chip
from chipsim.protocols import BlockSource, Int32Array, SynapseBlock
from chipsim.traffic.arrays import measure
from chipsim.traffic.metrics import summarise


def score(
    chip: Chip, core: Int32Array, blocks: Iterable[SynapseBlock] | BlockSource, **options: Any
) -> dict[str, Any]:
    """Return all metrics of a mapping; options as for `measure`."""
    return summarise(chip, measure(chip, core, blocks, **options))
