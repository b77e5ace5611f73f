"""Addresses of the regions of a core that works with others.

What others send is there for ever: its next frame may come while the last layers of this one still
run. With two slots the odd frames lie a power of two behind the even ones, and something else may
lie between. What only layers of the core itself make and take has its vectors while they need it.
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

    size : vectors; lives : None if it is there for ever
    planes : whether it begins at a whole word; slots : whether it wants two of them
    """

    key: Hashable
    name: str
    size: int
    lives: Lives | None
    planes: bool
    slots: bool


class Address(NamedTuple):
    """slots : field `pp` of instructions, 0 for one slot"""

    base: int
    slots: int


class Rooms(NamedTuple):
    addresses: dict[Hashable, Address]
    used: int


def place_rooms(rooms: Sequence[Room], capacity: int, where: str) -> Rooms:
    """Addresses of all regions; the largest give up their second slots, one after the other, until
    all fit.

    where : the core, for the error. Raises `DoesNotFitError`.
    """
    two = sorted((one for one in rooms if one.slots), key=lambda one: one.size)
    while True:
        names = {one.key for one in two}
        found = _placed([one._replace(slots=one.key in names) for one in rooms])
        if found.used <= capacity:
            return found
        if not two:
            break
        two.pop()
    largest = sorted(rooms, key=lambda one: -one.size)[:4]
    raise DoesNotFitError(
        f"{where}: feature memory: {found.used:,} vectors needed, a core has {capacity:,} "
        f"({found.used - capacity:,} short); most for {', '.join(one.name for one in largest)}; "
        "take more cores, or a core with more"
    )


def distance_field(size: int) -> int:
    """The field `pp` of two slots of a size."""
    return max(LEAST_DISTANCE, (size - 1).bit_length()) - 2


def _placed(rooms: Sequence[Room]) -> Rooms:
    """First fit, in order of falling size."""
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
    return Rooms(found, used)
