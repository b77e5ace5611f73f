"""Where stored maps lie in the feature memory of a core."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from mapper.compiler.graph.macro import Macro
from mapper.compiler.graph.tensor import NO_PAD, Tensor
from mapper.compiler.memory.layouts import WORD_VECTORS, plane_words
from mapper.compiler.memory.padding import NO_BORDERS, Border, outer
from mapper.compiler.memory.regions import Place, Places
from mapper.errors import DoesNotFitError

VECTORS_OF_ENTRY = 4
"""Of an accumulator, in memory."""
VECTORS = {"int16": 2, "int32": VECTORS_OF_ENTRY}
"""Of a block of a pixel."""


NO_BORDER = Border(NO_PAD, 0)


class Region(NamedTuple):
    """A map in memory.

    first : the vector of its first pixel, behind its border
    vectors : of the map without its border
    born, dies : numbers of the macro nodes that write it and read it last
    pixel, row : vectors from a pixel to the next, and from a row to the next; 0 of planes
    high : vectors from the low bytes of 16 bits to the high ones, which are of the same pixel
    owner : the map whose region it is a part of; None if it has one of its own
    border : pixels around it that are preset with a value, and read as padding
    slots : of maps that other cores send, field `pp` of loads and stores: of two frames in flight
        the odd one lies that far behind; 0 if there is one slot
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
    border: Border = NO_BORDER
    slots: int = 0

    @property
    def base(self) -> int:
        """The first vector of its border: reads of the whole begin there."""
        pad = self.border.pad
        return self.first - pad.top * self.row - pad.left * self.pixel

    @property
    def size(self) -> int:
        """Vectors of a region of its own, border included."""
        if self.tensor.planes:
            return self.vectors
        pad = self.border.pad
        return (
            (self.tensor.height + pad.top + pad.bottom)
            * (self.tensor.width + pad.left + pad.right)
            * self.pixel
        )

    @property
    def stop(self) -> int:
        """The vector behind a region of its own."""
        return self.base + self.size

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


class Slot(NamedTuple):
    """Vectors that some maps have one after the other, and when they may not be another's.

    size : vectors, border included
    """

    tensors: list[Tensor]
    lives: Lives
    size: int

    def begin(self, vector: int) -> int:
        """The first place from a vector on where it may be: planes begin at whole words."""
        step = WORD_VECTORS if self.tensors[0].planes else 1
        return -(-vector // step) * step


def plan_memory(
    stored: Stored, columns: int, capacity: int, reuse: bool = True,
    borders: Mapping[Tensor, Border] = NO_BORDERS,
) -> dict[Tensor, Region]:  # fmt: skip
    """Addresses of all stored maps; maps whose lives do not meet may share vectors.

    capacity : vectors of a core; 0 for external memory, which is as large as it has to be
    borders : of maps that own a region; they are preset, so that only maps with the same border
        around as many pixels may share vectors with them
    Best fit in order of falling size; without reuse one behind the other.
    Raises `DoesNotFitError` that names the largest sum of maps that are alive at once.
    """
    lives, members = stored.lives(), stored.members()
    slots = list(_slots(stored, lives, columns, borders, reuse))
    slots.sort(key=lambda one: (-one.size * reuse, lives[one.tensors[0]].born))
    placed: list[tuple[int, Slot]] = []
    for slot in slots:
        busy = sorted(
            (at, at + one.size) for at, one in placed if not reuse or slot.lives.meet(one.lives)
        )
        gaps, end = [], 0
        for first, stop in busy:
            if first - end >= slot.size:
                gaps.append((first - end, end))
            end = slot.begin(max(end, stop))
        placed.append((min(gaps)[1] if gaps else end, slot))
    used = max((at + one.size for at, one in placed), default=0)
    if capacity and used > capacity:
        help_ = "take a core with more, or more cores"
        if borders:
            help_ = f"leave out --padding stored, {help_}"
        most = _most_alive(slots, len(stored.macros))
        raise DoesNotFitError(
            f"feature memory: {used:,} vectors needed, a core has {capacity:,} "
            f"({used - capacity:,} short); most at {', '.join(most[:4])}; {help_}"
        )
    found = {}
    for base, slot in placed:
        for owner in slot.tensors:
            region = _region(owner, base, lives[owner], columns, borders.get(owner, NO_BORDER))
            found[owner] = region
            for tensor in members.get(owner, []):
                found[tensor] = _part(region, tensor, stored.places[tensor], columns)
    for tensor, region in found.items():
        tensor.address, tensor.pad = region.first, region.border.pad
    return found


def _slots(
    stored: Stored, lives: Mapping[Tensor, Lives], columns: int,
    borders: Mapping[Tensor, Border], reuse: bool,
) -> Iterator[Slot]:  # fmt: skip
    """Maps with a border keep their vectors for ever; those whose borders lie at the same places
    and hold the same share them, each when the ones before are dead."""
    ever = Lives(-1, len(stored.macros))
    alike: dict[tuple[object, ...], list[list[Tensor]]] = {}
    for tensor in sorted(lives, key=lambda one: lives[one].born):
        region = _region(tensor, 0, lives[tensor], columns, borders.get(tensor, NO_BORDER))
        if tensor not in borders:
            yield Slot([tensor], lives[tensor], region.size)
            continue
        key = (tensor.height, tensor.width, region.pixel, region.high, region.border)
        shared = alike.setdefault(key, [])
        free = [one for one in shared if reuse and lives[one[-1]].dies < lives[tensor].born]
        if free:
            free[0].append(tensor)
        else:
            shared.append([tensor])
            yield Slot(shared[-1], ever, region.size)


def _region(tensor: Tensor, base: int, lives: Lives, columns: int, border: Border) -> Region:
    """A region of its own from a vector on."""
    if tensor.planes:
        words = plane_words(tensor.channels, tensor.height * tensor.width, 2 * columns)
        return Region(tensor, base, WORD_VECTORS * words, *lives, 0, 0)
    pixel, pad = pixel_vectors(tensor, columns), border.pad
    row = (tensor.width + pad.left + pad.right) * pixel
    high = pixel // 2 if tensor.type == "int16" else 0
    first = base + pad.top * row + pad.left * pixel
    vectors = tensor.height * tensor.width * pixel
    return Region(tensor, first, vectors, *lives, pixel, row, high, border=border)


def _most_alive(slots: list[Slot], count: int) -> list[str]:
    """The maps that are alive when most are; count : of the macro nodes"""

    def alive(at: int) -> list[Slot]:
        return [one for one in slots if one.lives.born <= at <= one.lives.dies]

    most = max(range(-1, count + 1), key=lambda at: sum(one.size for one in alive(at)))
    return [one.tensors[0].name for one in alive(most)]


def _part(region: Region, tensor: Tensor, place: Place, columns: int) -> Region:
    """The region of a map that lies in another one: its vectors are not one behind the other."""
    lanes = 8 * columns if tensor.type == "bits" else columns
    block = place.channel // lanes * (VECTORS_OF_ENTRY if tensor.type == "int32" else 1)
    first = int(region.vector(place.row, place.column, block))
    vectors = tensor.height * tensor.width * pixel_vectors(tensor, columns)
    pad = outer(region.border.pad, tensor, place)
    return region._replace(
        tensor=tensor, first=first, vectors=vectors, owner=region.tensor,
        pixel=region.pixel // place.columns,
        border=region.border._replace(pad=pad),
    )  # fmt: skip


class Use(NamedTuple):
    """Vectors of the feature memory that are used, and the largest sum that is alive at once: no
    plan takes less."""

    used: int
    bound: int


def memory_use(regions: Mapping[Tensor, Region]) -> Use:
    """Borders are alive for ever."""
    owners = [one for one in regions.values() if one.owner is None]
    borders = sum({one.base: one.size - one.vectors for one in owners}.values())
    bound = max(
        (
            sum(one.vectors for one in owners if one.born <= at <= one.dies)
            for at in {one.born for one in owners}
        ),
        default=0,
    )
    return Use(max((one.stop for one in owners), default=0), bound + borders)


def memory_log(regions: Mapping[Tensor, Region], columns: int) -> list[str]:
    """What maps take, and the least that they can. columns : bytes of a vector"""
    use = memory_use(regions)
    return [
        f"feature memory: {use.used * columns:,} bytes of maps, {use.bound * columns:,} at least: "
        "the largest sum that is alive at once"
    ]


def border_log(regions: Mapping[Tensor, Region], columns: int) -> list[str]:
    """What borders of maps take, if there are some."""
    owners = [one for one in regions.values() if one.owner is None]
    around = [one for one in owners if one.border.pad != NO_PAD]
    if not around:
        return []
    slots = {one.base: one for one in around}.values()
    whole, border = (
        columns * sum(sizes)
        for sizes in ([one.size for one in slots], [one.size - one.vectors for one in slots])
    )
    return [
        f"stored padding: {border:,} bytes around {len(around)} maps, set before the first frame; "
        f"the {whole:,} bytes of these maps are reused by none but {len(around) - len(slots)} of "
        "them that have the same border"
    ]
