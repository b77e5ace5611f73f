"""Fixed tiling rules as a baseline for the search: whole rows, and square planes."""

from __future__ import annotations

from collections.abc import Mapping

from chipsim.chip.npu_shape import NpuShape
from mapper.compiler.tiling.loop_nest.search import Found
from mapper.compiler.tiling.loop_nest.steps import cost_of, steps_of
from mapper.compiler.tiling.loop_nest.traffic import BATCH, IC, OC, OH, OW, LoopNest, Tiling, fits
from mapper.compiler.tiling.tiles import PLANES
from mapper.errors import DoesNotFitError

ORDER = (BATCH, OH, OW, OC, IC)
RULES = ("rows", *PLANES)


def fixed(
    rule: str, layer: LoopNest, shape: NpuShape, given: Mapping[int, int] | None = None
) -> Found:
    """Return the tiling of a rule, with one block of inputs and outputs.

    `rows` uses the largest number of whole rows that fits; planes shrink by rows, then by columns,
    until they fit.
    given : fixed sizes, by loop; raises `DoesNotFitError` if not even one pixel fits
    """
    _, width, height, _, _ = layer.counts
    most = (width, height) if rule == "rows" else (PLANES[rule],) * 2
    wide = min((given or {}).get(OW, most[0]), width)
    high = min((given or {}).get(OH, most[1]), height)
    for columns in range(wide, 0, -1):
        for rows in range(high, 0, -1):
            tiling = Tiling((1, columns, rows, 1, 1), ORDER)
            if fits(layer, tiling.sizes, shape):
                cost = cost_of(steps_of(layer, tiling, shape), shape)
                return Found(tiling, cost, cost.cycles)
    raise DoesNotFitError("not even one pixel fits in half of the buffers; use a larger core")
