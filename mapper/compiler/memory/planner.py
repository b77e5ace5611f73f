"""Placement of stored feature maps in the feature memory of a core."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from chipsim.chip.npu_shape import NpuShape
from mapper.compiler.ir.macro import Macro
from mapper.compiler.ir.tensor import NO_PAD, Tensor
from mapper.compiler.log import CompileLog
from mapper.compiler.memory.layouts import WORD_VECTORS, plane_words
from mapper.compiler.memory.padding import NO_BORDERS, Border, outer
from mapper.compiler.memory.regions import Place, Places
from mapper.errors import DoesNotFitError

ADDRESSED = 1 << 16
"""Vectors of external memory that the cores of a chip use: those that other cores can address."""

VECTORS_OF_ENTRY = 4
"""Vectors per accumulator in memory."""
VECTORS = {"int16": 2, "int32": VECTORS_OF_ENTRY}
"""Vectors per block of a pixel, by type; others have 1."""


NO_BORDER = Border(NO_PAD, 0)


class Ring(NamedTuple):
    """Columns of a feature map that a core keeps at a time: column c has place c % columns.

    columns : number of columns that are kept
    first : number of the vector of the first pixel; vectors of all columns have different numbers,
        in the order of the columns, from the size of the feature memory on
    tall : vectors of a column
    """

    columns: int
    first: int
    tall: int


class Region(NamedTuple):
    """A feature map in memory.

    first : vector of its first pixel, after the border
    vectors : size without the border
    born, dies : indices of the macro nodes that first write it and last read it
    pixel, row : vectors from a pixel or row to the next; 0 for planes
    high : vectors from the low bytes of 16 bits to the high bytes, within a pixel
    owner : map whose region it is a part of; None if it has its own
    border : preset pixels around it, which are read as padding
    slots : field `pp` of loads and stores, for maps that other cores send: the data of odd frames
        is stored 2^(slots + 2) vectors later; 0 for a single slot
    ring : columns that are kept; None for all
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
    ring: Ring | None = None

    @property
    def base(self) -> int:
        """Address of the first vector, including the border."""
        pad = self.border.pad
        return self.first - pad.top * self.row - pad.left * self.pixel

    @property
    def size(self) -> int:
        """Vectors of an own region, including the border."""
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
        """End of an own region."""
        return self.base + self.size

    def vector(self, row: Any, column: Any, block: Any) -> Any:
        """Return the address of a block of a pixel; numbers or arrays."""
        if self.ring is not None:
            column = column % self.ring.columns
        return self.first + row * self.row + column * self.pixel + block

    def number(self, row: Any, column: Any, block: Any) -> Any:
        """Return the number of a vector: its address, unless it is in a ring."""
        if self.ring is None:
            return self.vector(row, column, block)
        return self.ring.first + column * self.ring.tall + row * self.pixel + block


def blocks_of(channels: int, columns: int) -> int:
    """Return the vectors per pixel."""
    return -(-channels // columns)


def blocks_of_vector(rows: int, columns: int) -> int:
    """Return the number of output blocks whose bits fill a vector."""
    return 8 * columns // rows


def pixel_vectors(tensor: Tensor, columns: int) -> int:
    """Return the vectors per pixel of a map of bytes, bits, 16 bits, or whole sums (int32)."""
    if tensor.type == "bits":
        return blocks_of(tensor.channels, 8 * columns)
    return blocks_of(tensor.channels, columns) * VECTORS.get(tensor.type, 1)


class Lives(NamedTuple):
    """Lifetime of a feature map: indices of its first writing and last reading macro node."""

    born: int
    dies: int

    def meet(self, other: Lives) -> bool:
        return self.born <= other.dies and other.born <= self.dies


class PlannedMaps(NamedTuple):
    """Input of memory planning.

    inputs : maps that the host writes, with the index of the macro node before which it does so
        (-1: before all)
    outputs : maps that the host reads, with the index of the last macro node before that
    places : places of maps inside other maps
    """

    macros: list[Macro]
    inputs: Mapping[Tensor, int]
    outputs: Mapping[Tensor, int]
    places: Places

    def owner(self, tensor: Tensor) -> Tensor:
        return self.places[tensor].owner if tensor in self.places else tensor

    def lives(self) -> dict[Tensor, Lives]:
        """Return the lifetime of each region by owner: first write to last read of any part."""
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
        """Return the maps of each region, without its owner."""
        found: dict[Tensor, list[Tensor]] = {}
        for tensor, place in self.places.items():
            found.setdefault(place.owner, []).append(tensor)
        return found


class Slot(NamedTuple):
    """Vectors used by one or more maps in sequence, and their lifetime.

    size : vectors, border included
    """

    tensors: list[Tensor]
    lives: Lives
    size: int

    def begin(self, vector: int) -> int:
        """Return the first possible address from a vector on: planes start at whole words."""
        step = WORD_VECTORS if self.tensors[0].planes else 1
        return -(-vector // step) * step


def map_capacity(shape: NpuShape) -> int:
    """Return the vectors that feature maps may take on one of several cores."""
    return shape.map_vectors or ADDRESSED


def plan_memory(
    stored: PlannedMaps, columns: int, capacity: int, reuse: bool = True,
    borders: Mapping[Tensor, Border] = NO_BORDERS,
) -> dict[Tensor, Region]:  # fmt: skip
    """Return the regions of all stored maps; maps with disjoint lifetimes may share vectors.

    capacity : vectors of a core; 0 for external memory, which is as large as needed
    borders : borders of maps that own a region; they are preset, so only maps with the same size
        and border may share vectors with them
    Best fit in order of decreasing size; without reuse all maps are placed consecutively.
    Raises `DoesNotFitError` that names the maps alive at the peak.
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
        help_ = "use a larger core, or more cores"
        if borders:
            help_ = f"omit --padding stored, {help_}"
        most = _most_alive(slots, len(stored.macros))
        raise DoesNotFitError(
            f"feature memory: {used:,} vectors needed, a core has {capacity:,} "
            f"({used - capacity:,} short); peak at {', '.join(most[:4])}; {help_}"
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
    stored: PlannedMaps, lives: Mapping[Tensor, Lives], columns: int,
    borders: Mapping[Tensor, Border], reuse: bool,
) -> Iterator[Slot]:  # fmt: skip
    """Yield slots. Maps with a border occupy their vectors permanently; maps of the same size and
    border share them, each after the previous ones are dead."""
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
    """Return an own region that starts at a vector."""
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
    """Return the maps that are alive at the peak; count : number of macro nodes"""

    def alive(at: int) -> list[Slot]:
        return [one for one in slots if one.lives.born <= at <= one.lives.dies]

    most = max(range(-1, count + 1), key=lambda at: sum(one.size for one in alive(at)))
    return [one.tensors[0].name for one in alive(most)]


def _part(region: Region, tensor: Tensor, place: Place, columns: int) -> Region:
    """Return the region of a map inside another one; its vectors are not contiguous."""
    lanes = 8 * columns if tensor.type == "bits" else columns
    block = place.channel // lanes * (VECTORS_OF_ENTRY if tensor.type == "int32" else 1)
    first = int(region.vector(place.row, place.column, block))
    vectors = tensor.height * tensor.width * pixel_vectors(tensor, columns)
    pad = outer(region.border.pad, tensor, place)
    return region._replace(
        tensor=tensor, first=first, vectors=vectors, owner=region.tensor,
        pixel=region.pixel * place.column_step // place.columns, row=region.row * place.row_step,
        border=region.border._replace(pad=pad),
    )  # fmt: skip


class Use(NamedTuple):
    """Vectors of the feature memory that are used, and the peak of live vectors, which is a lower
    bound of any plan."""

    used: int
    bound: int


def memory_use(regions: Mapping[Tensor, Region]) -> Use:
    """Return the use of the feature memory; borders are alive permanently."""
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


def log_memory(regions: Mapping[Tensor, Region], columns: int, log: CompileLog) -> None:
    """Log memory use with its lower bound, and the memory of borders. columns : bytes per vector"""
    use = memory_use(regions)
    log.add(
        f"feature memory: {use.used * columns:,} bytes used, lower bound {use.bound * columns:,} "
        "bytes (peak of live feature maps)"
    )
    owners = [one for one in regions.values() if one.owner is None]
    around = [one for one in owners if one.border.pad != NO_PAD]
    if not around:
        return
    slots = {one.base: one for one in around}.values()
    whole, border = (
        columns * sum(sizes)
        for sizes in ([one.size for one in slots], [one.size - one.vectors for one in slots])
    )
    log.add(
        f"stored padding: {border:,} bytes around {len(around)} feature maps, set before the first "
        f"frame; their {whole:,} bytes are reserved: only {len(around) - len(slots)} of them share "
        "memory, with maps of the same border"
    )
