"""Ways to cut the layers of a model for the cores of a chip, and the extent of each search."""

from __future__ import annotations

from typing import NamedTuple

from mapper.compiler.settings import SearchEffort
from mapper.compiler.tiling.onchip import Breadth

TRIES = 3
"""Maximum successful tries per way to cut."""


class Way(NamedTuple):
    """A way to cut layers.

    blocks : layers whose weights exceed the weight memory divided by this number are cut by output
        blocks, others by rows; more blocks send each row to more cores, but have less latency
    lag : see `Limits`
    fills : parts that take little time also fill up a core, so that more weights fit
    streams : weights that do not fit in any core come from the host
    spills : so do weights that do not fit in all cores: each core gets an equal excess
    lines : if above 0, cores keep some columns of each map; see `Lines.links`
    tight : see `Lines.tight`
    strip : if above 0, layers are cut together, see `chains_of`: minimum rows of a strip
    """

    blocks: float = 2
    lag: float = 0
    fills: bool = False
    streams: bool = False
    spills: bool = False
    lines: int = 0
    tight: bool = False
    strip: float = 0


WAYS = (Way(2, 0.1), Way(2, 0.1, strip=2), Way(2, 0.1, strip=3))
"""Ways to cut that are tried: with layers one by one, and in chains."""
MORE_WAYS = (
    Way(2, 0.2), Way(2, 0.05), Way(4, 0.1), Way(1, 0.1), Way(2, 0.1, strip=1),
    Way(2, 0.2, strip=2), Way(2, 0.2, strip=3),
)  # fmt: skip
"""Further ways: early rows are more valuable on many cores than on few, and blocks than rows."""
SHORT = (
    Way(2, 0.1, fills=True),
    Way(2, 0.1, streams=True),
    Way(2, 0.1, fills=True, streams=True, spills=True),
)
"""Ways to cut if memory is short; the first that fits is used. The last two are for cores that
cannot hold all weights."""
LINES = (Way(2, 0.1, lines=4), Way(2, 0.1, lines=4, tight=True))
"""Ways to cut if the cores cannot hold all feature maps: they keep some columns of each."""
MORE_LINES = (
    Way(2, 0.1, lines=8),
    Way(2, 0.1, lines=12),
    Way(2, 0.1, lines=8, streams=True),
    Way(2, 0.1, lines=8, tight=True, fills=True, streams=True, spills=True),
)
"""The same if tiles need more instructions to wait for each other, or if weights do not fit either:
the first that fits is used."""


class SearchPlan(NamedTuple):
    """Extent of a search.

    ways : ways to cut; tries : maximum simulated cuts per way
    again : number of best cuts whose parts are placed again
    breadth : of the search for the tiles of a layer
    """

    ways: tuple[Way, ...]
    tries: int = TRIES
    again: int = 1
    breadth: Breadth = Breadth()


PLANS: dict[SearchEffort, list[SearchPlan]] = {
    "fast": [SearchPlan(WAYS[:1], 2, 0, Breadth(4, 1, 1))],
    "default": [SearchPlan(WAYS)],
    "strong": [SearchPlan(WAYS), SearchPlan(MORE_WAYS, 2 * TRIES, 3, Breadth(24, 8, 4))],
}
"""Searches by effort. A search never replaces the result of the previous one by a worse one."""
