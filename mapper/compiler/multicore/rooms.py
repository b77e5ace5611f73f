"""Addresses of the regions of a core that communicates with others.

Regions that others write are reserved permanently: data of the next frame may arrive while the last
layers of this frame still run. With two slots, odd frames are stored a power of two after the even
ones, and other regions may be between them. Regions that only the core itself writes and reads are
reserved for their lifetime.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import NamedTuple

from mapper.compiler.memory.layouts import WORD_VECTORS
from mapper.compiler.memory.planner import Lives
from mapper.errors import DoesNotFitError

LEAST_DISTANCE = 3  # slots are 2^(pp + 2) vectors apart, and pp is at least 1


class Room(NamedTuple):
    """A region that needs an address.

    size : vectors; lives : lifetime; None if it is permanent
    planes : it starts at a whole word; slots : two slots are preferred
    """

    key: Hashable
    name: str
    size: int
    lives: Lives | None
    planes: bool
    slots: bool


class Address(NamedTuple):
    """Address of a region.

    slots : field `pp` of instructions, 0 for one slot
    ring : columns that are kept, and number of the first vector; 0 for a whole map
    """

    base: int
    slots: int
    ring: tuple[int, int] = (0, 0)


def place_rooms(rooms: Sequence[Room], capacity: int, where: str) -> dict[Hashable, Address]:
    """Return the addresses of all regions; until all fit, the largest region loses its second slot.

    where : core, for errors. Raises `DoesNotFitError`.
    """
    two = sorted((one for one in rooms if one.slots), key=lambda one: one.size)
    while True:
        names = {one.key for one in two}
        found, used = _placed([one._replace(slots=one.key in names) for one in rooms])
        if used <= capacity:
            return found
        if not two:
            break
        two.pop()
    largest = sorted(rooms, key=lambda one: -one.size)[:4]
    raise DoesNotFitError(
        f"{where}: feature memory: {used:,} vectors needed, a core has {capacity:,} "
        f"({used - capacity:,} short); largest regions: "
        f"{', '.join(one.name for one in largest)}; use more or larger cores"
    )


def distance_field(size: int) -> int:
    """Return the field `pp` for two slots of a size."""
    return max(LEAST_DISTANCE, (size - 1).bit_length()) - 2


def _placed(rooms: Sequence[Room]) -> tuple[dict[Hashable, Address], int]:
    """Place regions by first fit, in order of decreasing size; return also the used vectors."""
    found: dict[Hashable, Address] = {}
    placed: list[tuple[int, int, Lives | None]] = []
    used = 0
    for one in sorted(rooms, key=lambda one: (-one.size * (1 + one.slots), one.name)):
        slots = distance_field(one.size) if one.slots else 0
        starts = [0] + ([1 << slots + 2] if slots else [])
        step = WORD_VECTORS if one.planes else 1
        busy = [
            (first, stop)
            for first, stop, lives in placed
            if lives is None or one.lives is None or lives.meet(one.lives)
        ]
        begins = {0, *(stop for _, stop in busy)}
        begins |= {stop - start for _, stop in busy for start in starts if stop >= start}
        for begin in sorted({-(-at // step) * step for at in begins}):
            mine = [(begin + start, begin + start + one.size) for start in starts]
            if not any(a < d and c < b for a, b in mine for c, d in busy):
                break
        found[one.key] = Address(begin, slots)
        placed += [(*span, one.lives) for span in mine]
        used = max(used, *(stop for _, stop in mine))
    return found, used
