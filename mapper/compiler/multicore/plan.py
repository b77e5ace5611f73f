"""Plan of the cores of a chip that share a model: regions, streams and credits."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from itertools import pairwise

from chipsim.chip.npu_shape import NpuShape
from chipsim.npu.records import STREAMS
from mapper.compiler.codegen.code import Lying
from mapper.compiler.ir.node import Upsample
from mapper.compiler.ir.tensor import Tensor
from mapper.compiler.memory.layouts import WORD_VECTORS
from mapper.compiler.memory.planner import Lives, map_capacity, pixel_vectors
from mapper.compiler.multicore.areas import Box, Homes, Kept, add_box, gaps_between
from mapper.compiler.multicore.job import ChipPlan, CorePlan, MacroPiece, Whole, nearest
from mapper.compiler.multicore.received import planes_of, runs_of
from mapper.compiler.multicore.rooms import Address, Room, place_rooms
from mapper.compiler.multicore.slices import Slice, Sliced, slice_macro
from mapper.compiler.numerics.windows import GROUP
from mapper.compiler.program.inputs import Span
from mapper.compiler.program.links import Brought, CoreLinks, Credit, Place, Target, require_streams
from mapper.errors import DoesNotFitError

HOST: Place = (-1, -1)
"""Placeholder for the host in place of a core."""
HOST_VECTORS = 1 << 16
"""Vectors in the host's memory for results."""
BANDS = 8
"""Maximum bands of rows in which a region with one slot is freed. 64 made no frame shorter."""
UP = 2
"""Rows per row of an upsampled feature map."""


def plan_cores(
    whole: Whole,
    placed: Sequence[tuple[MacroPiece, Place]],
    shape: NpuShape,
    ports: Sequence[Place],
) -> ChipPlan:
    """Return the regions, streams and credits of all cores.

    ports : nodes of the host's ports
    Raises `DoesNotFitError` that names the core and the missing resource.
    """
    return _Planner(whole, placed, shape, ports).made()


class _Core:
    """State of a core during planning."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self.function = 0  # of all its pieces
        self.pieces: list[MacroPiece] = []
        self.slices: list[Slice] = []
        self.kept: dict[Hashable, Kept] = {}
        self.lives: dict[Hashable, Lives] = {}
        self.feeds: dict[Hashable, list[Place]] = {}  # cores that write to each region
        self.fed: dict[tuple[Hashable, Place], Box] = {}  # boxes that they write
        self.streams: dict[tuple[Hashable, Place], int] = {}  # streams of received vectors
        self.credits: dict[Place, int] = {}  # streams of credits from each destination core
        self.addresses: dict[Hashable, Address] = {}

    @property
    def name(self) -> str:
        return f"core ({self.place[0]}, {self.place[1]})"

    def touch(self, key: Hashable, number: int) -> None:
        one = self.lives.setdefault(key, Lives(number, number))
        self.lives[key] = Lives(min(one.born, number), max(one.dies, number))


def _require_order(source: _Core, target: _Core) -> None:
    """Require that no core receives data of a later function, which waits for the host."""
    if target.function < source.function:
        raise DoesNotFitError(
            f"{source.name}: unread rows of function {source.function} would be stored in "
            f"{target.name}, which computes function {target.function}; use --cores 1"
        )


class _Planner:
    def __init__(
        self, whole: Whole, placed: Sequence[tuple[MacroPiece, Place]], shape: NpuShape,
        ports: Sequence[Place],
    ) -> None:  # fmt: skip
        self.whole, self.shape, self.ports = whole, shape, ports
        self.homes = Homes(whole.places, shape.columns)
        self.cores: dict[Place, _Core] = {}
        for piece, place in sorted(placed, key=lambda one: one[0].macro):
            core = self.cores.setdefault(place, _Core(place))
            core.pieces.append(piece)
            core.function = whole.functions[piece.macro]
            macro = whole.macros[piece.macro]
            core.slices.append(slice_macro(macro, piece.rows, piece.blocks, shape.columns))
        self.cores = {place: self.cores[place] for place in sorted(self.cores)}
        self.functions = {  # before which the host writes, by owner
            self.homes.of(one).owner: number for one, number in whole.written.items()
        }
        self.host = {  # boxes that the host reads, by owner
            owner: self._box([one for one in whole.read if self.homes.of(one).owner is owner])
            for owner in dict.fromkeys(self.homes.of(one).owner for one in whole.read)
        }

    def made(self) -> ChipPlan:
        boxes = {place: self._boxes(core) for place, core in self.cores.items()}
        self._fill_gaps(boxes)
        for place, core in self.cores.items():
            self._keep(core, boxes[place])
        for of_core in (self._feed, self._number_streams, self._place):
            for core in self.cores.values():
                of_core(core)
        results = self._results()
        plans = {place: self._plan(core, results) for place, core in self.cores.items()}
        slots = {
            (core.place, stream): 1 + (core.addresses[key].slots > 0)
            for core in self.cores.values()
            for (key, source), stream in core.streams.items()
            if source == HOST
        }
        parts = [
            Lying(one.whole, self.homes.region(Kept(owner, box), one, base), *one.held)
            for owner, (box, base) in results.items()
            for one in self._held(owner, box)
        ]
        return ChipPlan(plans, parts, slots)

    def _box(self, tensors: list[Tensor]) -> Box:
        found = self.homes.whole(tensors[0])
        for tensor in tensors[1:]:
            found = found.around(self.homes.whole(tensor))
        return found

    def _key(self, core: _Core, one: Sliced) -> Hashable:
        """Return the key of the region with a layer's input."""
        owner, box = self._even_box(one)
        for key, kept in core.kept.items():
            if kept.owner is owner and (kept.box == box if owner.planes else kept.box.holds(box)):
                return key
        raise DoesNotFitError(
            f"{core.name}: its rows of a layer depend only on padding of {one.whole.name!r}; use "
            "fewer cores with --cores"
        )

    def _even_box(self, one: Sliced) -> tuple[Tensor, Box]:
        owner, box = self.homes.kept(one)
        return owner, self._even(owner, box)

    def _boxes(self, core: _Core) -> dict[Tensor, list[Box]]:
        """Return the inputs of a core's layers, by owner, as disjoint boxes."""
        boxes: dict[Tensor, list[Box]] = {}
        for one in (one for made in core.slices for one in made.inputs):
            owner, box = self._even_box(one)
            mine = boxes.setdefault(owner, [])
            if owner.planes:
                mine += [] if box in mine else [box]
            else:
                add_box(mine, box)
        return boxes

    def _keep(self, core: _Core, boxes: dict[Tensor, list[Box]]) -> None:
        """Create the regions of these boxes."""
        for owner, mine in boxes.items():
            for number, box in enumerate(sorted(mine)):
                core.kept[owner, number] = Kept(owner, box)
        for number, made in enumerate(core.slices):
            for one in made.inputs:
                core.touch(self._key(core, one), number)

    def _even(self, owner: Tensor, box: Box) -> Box:
        """Extend a box of an upsampled feature map to pairs of rows."""
        if not any(
            isinstance(macro.nodes[-1].operator, Upsample)
            for macro in self.whole.macros
            for tensor in macro.outputs
            if self.homes.of(tensor).owner is owner
        ):
            return box
        first = box.rows.first // UP * UP
        return box._replace(rows=Span(first, min(-(-box.rows.stop // UP) * UP, owner.height)))

    def _fill_gaps(self, boxes: dict[Place, dict[Tensor, list[Box]]]) -> None:
        """Assign a destination to results that no layer reads, as every result is stored: the host
        if it reads other parts of the map, else the core whose box grows least, with the last rows
        in case of a tie."""
        made: dict[Tensor, list[tuple[Box, int]]] = {}  # boxes, with their function
        for core in self.cores.values():
            for one in (one for each in core.slices for one in each.outputs):
                owner, box = self.homes.kept(one)
                made.setdefault(owner, []).append((box, core.function))
        for owner, parts in made.items():
            takers = [box for place in boxes for box in boxes[place].get(owner, [])]
            to_host = [self.host[owner]] if owner in self.host else []
            for gap in gaps_between([box for box, _ in parts], [*takers, *to_host]):
                if to_host:
                    self.host[owner] = self.host[owner].around(gap)
                    continue
                function = max(number for box, number in parts if box.meet(gap))
                later = [core.place for core in self.cores.values() if core.function >= function]
                place, box = min(
                    ((place, box) for place in later for box in boxes[place].get(owner, [])),
                    key=lambda one: (one[1].around(gap).size - one[1].size, -one[1].rows.first),
                    default=(None, gap),
                )
                if place is None:
                    raise DoesNotFitError(
                        f"rows of {owner.name!r} that no layer reads would be stored in a core of "
                        "an earlier function"
                    )
                add_box(boxes[place][owner], box.around(gap))

    def _regions_of(self, one: Sliced) -> Iterator[tuple[_Core, Hashable, Box]]:
        """Yield the regions that a part of a result is sent to, and the common box."""
        owner, box = self.homes.kept(one)
        for core in self.cores.values():
            for key, kept in core.kept.items():
                if kept.owner is not owner or (some := kept.box.meet(box)) is None:
                    continue
                if self.homes.rows(one.whole, some.rows).size > 0:
                    yield core, key, some

    def _feed(self, core: _Core) -> None:
        """Record the regions that a core writes, and its regions that the host writes."""
        for number, made in enumerate(core.slices):
            for one in made.outputs:
                for other, key, some in self._regions_of(one):
                    feeds = other.feeds.setdefault(key, [])
                    if core.place not in feeds:
                        feeds.append(core.place)
                        _require_order(core, other)
                    before = other.fed.get((key, core.place), some)
                    other.fed[key, core.place] = before.around(some)
                    if other is core:
                        core.touch(key, number)
        for key, kept in core.kept.items():
            for tensor in self.whole.written:
                if self.homes.of(tensor).owner is kept.owner:
                    feeds = core.feeds.setdefault(key, [])
                    if HOST not in feeds and self.homes.whole(tensor).meet(kept.box):
                        feeds.append(HOST)

    def _number_streams(self, core: _Core) -> None:
        """Number the streams: one per sending core, one per region written by the host, and one for
        the credits of each core that this one sends to."""
        sources = sorted({one for feeds in core.feeds.values() for one in feeds} - {core.place})
        numbers = {source: at for at, source in enumerate(one for one in sources if one != HOST)}
        count = len(numbers)
        for key in core.kept:
            for source in core.feeds.get(key, []):
                if source == HOST:
                    core.streams[key, source] = count
                    count += 1
                elif source != core.place:
                    core.streams[key, source] = numbers[source]
        for other in self.cores.values():
            if other is not core and any(core.place in feeds for feeds in other.feeds.values()):
                core.credits[other.place] = count
                count += 1
        require_streams(core.place, count, STREAMS)

    def _place(self, core: _Core) -> None:
        rooms = []
        for key, kept in core.kept.items():
            far = any(source != core.place for source in core.feeds.get(key, []))
            lives = None if far else core.lives[key]
            size, planes = self.homes.size(kept), kept.owner.planes
            rooms.append(Room(key, kept.owner.name, size, lives, planes, far))
        core.addresses = place_rooms(rooms, map_capacity(self.shape), core.name)

    def _results(self) -> dict[Tensor, tuple[Box, int]]:
        """Return where the host stores results: the box of each owner, and its first vector."""
        found, at = {}, 0
        for owner, box in self.host.items():
            found[owner] = box, at
            at += self.homes.size(Kept(owner, box))
        if at > HOST_VECTORS:
            raise DoesNotFitError(
                f"results need {at:,} vectors; the host's port can address {HOST_VECTORS:,}"
            )
        return found

    def _plan(self, core: _Core, results: dict[Tensor, tuple[Box, int]]) -> CorePlan:
        made = CorePlan(core.pieces, [one.macro for one in core.slices])
        for one in (one for each in core.slices for one in each.inputs):
            key = self._key(core, one)
            address = core.addresses[key]
            made.regions[one.part] = self.homes.region(
                core.kept[key], one, address.base, address.slots
            )
        for one in (one for each in core.slices for one in each.outputs):
            made.targets[one.part] = tuple(self._targets(core, one, results))
        for key, kept in core.kept.items():
            address = core.addresses[key]
            size = self.homes.size(kept)
            made.used = max(made.used, address.base + size)
            if address.slots:
                made.used = max(made.used, address.base + (1 << address.slots + 2) + size)
            for one in self._held(kept.owner, kept.box):
                region = self.homes.region(kept, one, address.base, address.slots)
                made.parts.append(Lying(one.whole, region, *one.held))
            if kept.owner.planes:
                made.filled += self._filled(kept, address.base)
                if address.slots:
                    made.filled += self._filled(kept, address.base + (1 << address.slots + 2))
        made.links = self._links(core)
        return made

    def _filled(self, kept: Kept, base: int) -> Iterator[tuple[int, int, int]]:
        """Yield the padding channels of planes, which the host does not send."""
        value, stop = kept.owner.zero_point, WORD_VECTORS // GROUP * GROUP
        for at, count, _ in planes_of(kept, self.shape.columns):
            if count < stop:
                yield base + at + count, stop - count, value

    def _held(self, owner: Tensor, box: Box) -> list[Sliced]:
        """Return the parts of feature maps inside a box of their owner."""
        tensors = dict.fromkeys([owner, *self.whole.written, *self.whole.read])
        tensors |= dict.fromkeys(
            tensor for macro in self.whole.macros for tensor in (*macro.inputs, *macro.outputs)
        )
        found = []
        for tensor in tensors:
            if self.homes.of(tensor).owner is owner:
                held = self.homes.held(tensor, box)
                if held is not None:
                    found.append(self.homes.part(tensor, held))
        return found

    def _targets(
        self, core: _Core, one: Sliced, results: dict[Tensor, tuple[Box, int]]
    ) -> Iterator[Target]:
        """Yield the destinations of a part of a result: cores in order, then the host."""
        for other, key, some in self._regions_of(one):
            address = other.addresses[key]
            region = self.homes.region(other.kept[key], one, address.base, address.slots)
            rows, blocks = self._local(one, some)
            if other is core:
                yield Target("LOCAL", region, rows, blocks)
            else:
                stream, credit = other.streams[key, core.place], core.credits[other.place]
                yield Target("REMOTE", region, rows, blocks, other.place, stream, credit)
        owner = self.homes.of(one.whole).owner
        if owner in results:
            box, base = results[owner]
            some_ = box.meet(self.homes.box(one.whole, one.held))
            if some_ is not None and self.homes.rows(one.whole, some_.rows).size > 0:
                region = self.homes.region(Kept(owner, box), one, base)
                port = nearest(self.ports, core.place)
                yield Target("HOST", region, *self._local(one, some_), port)

    def _local(self, one: Sliced, some: Box) -> tuple[Span, Span]:
        """Return a box of the owner as rows and blocks of a part of a feature map."""
        box = self.homes.box(one.whole, one.held)
        rows = self.homes.rows(one.whole, some.rows).moved(-one.held.rows.first)
        if self.homes.of(one.whole).columns > 1:
            return rows, Span(0, pixel_vectors(one.part, self.shape.columns))
        return rows, some.blocks.moved(-box.blocks.first)

    def _links(self, core: _Core) -> CoreLinks:
        given, brought = [], []
        for key, kept in core.kept.items():
            address = core.addresses[key]
            stop, slots = address.base + self.homes.size(kept), 1 + (address.slots > 0)
            for source in sorted(core.feeds.get(key, [])):
                if source == HOST:
                    stream = core.streams[key, source]
                    port = nearest(self.ports, core.place)
                    given.append(Credit(port, True, stream, address.base, stop, slots))
                    runs = tuple(runs_of(self.whole, self.homes, kept, address.base))
                    function = self.functions[kept.owner]
                    brought.append(Brought(stream, address.slots, runs, function))
                elif source != core.place:
                    stream = self.cores[source].credits[core.place]
                    for first, end in pairwise([*self._bands(core, key, source), stop]):
                        given.append(Credit(source, False, stream, first, end, slots))
        return CoreLinks(tuple(given), tuple(brought))

    def _bands(self, core: _Core, key: Hashable, source: Place) -> tuple[int, ...]:
        """Return the first vectors of the bands in which a core may write to a region; a single
        band with two slots. The bands cover the whole region."""
        base, slots = core.addresses[key]
        kept = core.kept[key]
        if slots or kept.owner.planes:
            return (base,)
        rows, around = core.fed[key, source].rows, kept.box.rows
        count = min(BANDS, rows.size)
        each = self.homes.size(kept) // around.size
        starts = [rows.first - around.first + rows.size * one // count for one in range(1, count)]
        return (base, *(base + each * row for row in starts))
