"""Where stored maps lie in the feature memory of a core."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from mapper.compiler.graph.macro import Macro
from mapper.compiler.graph.tensor import Tensor
from mapper.compiler.memory.regions import Place, Places
from mapper.errors import DoesNotFitError

VECTORS_OF_ENTRY = 4
"""Of an accumulator, in memory."""
VECTORS = {"int16": 2, "int32": VECTORS_OF_ENTRY}
"""Of a block of a pixel."""


class Region(NamedTuple):
    """A map in memory.

    born, dies : numbers of the macro nodes that write it and read it last
    pixel, row : vectors from a pixel to the next, and from a row to the next
    high : vectors from the low bytes of 16 bits to the high ones, which are of the same pixel
    owner : the map whose region it is a part of; None if it has one of its own
    """

    tensor: Tensor
    first: int
    vectors: int
    born: int
    dies: int
    pixel: int
    row: int
    high: int = 0
    owner: Tensor | None = None

    def vector(self, row: Any, column: Any, block: Any) -> Any:
        """Where a block of a pixel lies; numbers or arrays."""
        return self.first + row * self.row + column * self.pixel + block


def blocks_of(channels: int, columns: int) -> int:
    """Vectors of a pixel."""
    return -(-channels // columns)


def blocks_of_vector(rows: int, columns: int) -> int:
    """Output blocks whose bits fill a vector of bits."""
    return 8 * columns // rows


def pixel_vectors(tensor: Tensor, columns: int) -> int:
    """Vectors of a pixel of a map: of bytes, of bits, of 16 bits, or of whole sums (int32)."""
    if tensor.type == "bits":
        return blocks_of(tensor.channels, 8 * columns)
    return blocks_of(tensor.channels, columns) * VECTORS.get(tensor.type, 1)


class Lives(NamedTuple):
    """Numbers of the macro nodes that write a map first, and read it last."""

    born: int
    dies: int

    def meet(self, other: Lives) -> bool:
        return self.born <= other.dies and other.born <= self.dies


class Stored(NamedTuple):
    """What is to be planned.

    inputs : maps that the host writes, and numbers of the macro nodes before which it does, -1
        before all; outputs : that it reads, and of those that run last before it does
    places : of maps that lie in others
    """

    macros: list[Macro]
    inputs: Mapping[Tensor, int]
    outputs: Mapping[Tensor, int]
    places: Places

    def owner(self, tensor: Tensor) -> Tensor:
        return self.places[tensor].owner if tensor in self.places else tensor

    def lives(self) -> dict[Tensor, Lives]:
        """Of each map that owns a region: from the first write of any part to the last read."""
        found: dict[Tensor, Lives] = {}

        def at(tensor: Tensor, number: int) -> None:
            owner = self.owner(tensor)
            one = found.setdefault(owner, Lives(number, number))
            found[owner] = Lives(min(one.born, number), max(one.dies, number))

        for tensor, number in self.inputs.items():
            at(tensor, number)
        for number, macro in enumerate(self.macros):
            for tensor in (*macro.inputs, *macro.outputs):
                at(tensor, number)
        for tensor, number in self.outputs.items():
            at(tensor, number)
        return found

    def members(self) -> dict[Tensor, list[Tensor]]:
        """The maps of each region, without its owner."""
        found: dict[Tensor, list[Tensor]] = {}
        for tensor, place in self.places.items():
            found.setdefault(place.owner, []).append(tensor)
        return found


def plan_memory(
    stored: Stored, columns: int, capacity: int, reuse: bool = True
) -> dict[Tensor, Region]:
    """Addresses of all stored maps; maps whose lives do not meet may share vectors.

    capacity : vectors of a core; 0 for external memory, which is as large as it has to be
    Best fit in order of falling size; without reuse one behind the other.
    Raises `DoesNotFitError` that names the largest sum of maps that are alive at once.
    """
    lives, members = stored.lives(), stored.members()
    sizes = {t: t.height * t.width * pixel_vectors(t, columns) for t in lives}
    placed: list[Region] = []
    order = sorted(lives, key=lambda one: (-sizes[one] * reuse, lives[one].born))
    for tensor in order:
        busy = sorted(
            (one.first, one.first + one.vectors)
            for one in placed
            if not reuse or lives[tensor].meet(Lives(one.born, one.dies))
        )
        gaps, end = [], 0
        for first, behind in busy:
            if first - end >= sizes[tensor]:
                gaps.append((first - end, end))
            end = max(end, behind)
        first = min(gaps)[1] if gaps else end
        pixel = pixel_vectors(tensor, columns)
        row, high = tensor.width * pixel, pixel // 2 if tensor.type == "int16" else 0
        placed.append(Region(tensor, first, sizes[tensor], *lives[tensor], pixel, row, high))
    used = max((one.first + one.vectors for one in placed), default=0)
    if capacity and used > capacity:
        most = max(
            range(-1, len(stored.macros) + 1),
            key=lambda at: sum(one.vectors for one in placed if one.born <= at <= one.dies),
        )
        names = [one.tensor.name for one in placed if one.born <= most <= one.dies]
        raise DoesNotFitError(
            f"feature memory: {used:,} vectors needed, a core has {capacity:,} "
            f"({used - capacity:,} short); most at {', '.join(names[:4])}; take a core with more, "
            "or more cores"
        )
    found = {}
    for one in placed:
        found[one.tensor] = one
        for tensor in members.get(one.tensor, []):
            found[tensor] = _part(one, tensor, stored.places[tensor], columns)
    for tensor, region in found.items():
        tensor.address = region.first
    return found


def _part(region: Region, tensor: Tensor, place: Place, columns: int) -> Region:
    """The region of a map that lies in another one: its vectors are not one behind the other."""
    lanes = 8 * columns if tensor.type == "bits" else columns
    block = place.channel // lanes * (VECTORS_OF_ENTRY if tensor.type == "int32" else 1)
    first = int(region.vector(place.row, place.column, block))
    vectors = tensor.height * tensor.width * pixel_vectors(tensor, columns)
    return region._replace(tensor=tensor, first=first, vectors=vectors, owner=region.tensor)


class Use(NamedTuple):
    """Vectors of the feature memory that are used, and the largest sum that is alive at once: no
    plan takes less."""

    used: int
    bound: int


def memory_use(regions: dict[Tensor, Region]) -> Use:
    owners = [one for one in regions.values() if one.owner is None]
    ends = sorted({one.born for one in owners})
    bound = max(
        (sum(one.vectors for one in owners if one.born <= at <= one.dies) for at in ends), default=0
    )
    return Use(max((one.first + one.vectors for one in owners), default=0), bound)
