"""Plan of the cores of a chip that share a model: regions, streams and credits."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Iterator, Mapping, Sequence

from chipsim.chip.npu_shape import NpuShape
from chipsim.npu.records import STREAMS
from mapper.compiler.codegen.code import Lying
from mapper.compiler.ir.tensor import Tensor
from mapper.compiler.memory.layouts import WORD_VECTORS
from mapper.compiler.memory.planner import map_capacity, pixel_vectors
from mapper.compiler.multicore.areas import Box, Kept, add_box, gaps_between
from mapper.compiler.multicore.cores import HOST, UP, ChipState, CoreState
from mapper.compiler.multicore.credits import links_of
from mapper.compiler.multicore.job import ChipPlan, CorePlan, MacroPiece, Whole, nearest
from mapper.compiler.multicore.line_buffers.lines import CutsOfCore, order_tiles
from mapper.compiler.multicore.line_buffers.rings import RingNeed
from mapper.compiler.multicore.received import planes_of
from mapper.compiler.multicore.rooms import Room, place_rooms
from mapper.compiler.multicore.slices import Sliced
from mapper.compiler.numerics.windows import GROUP
from mapper.compiler.program.inputs import Span
from mapper.compiler.program.links import Crowded, Place, Target, require_streams
from mapper.errors import DoesNotFitError

HOST_VECTORS = 1 << 16
"""Vectors in the host's memory for results."""
SLACKS = (1.0, 0.75, 0.5, 0.25, 0.0)
"""Columns of a core's rings above the minimum, in steps of `RingNeed`: the first that fits. Four
steps made the period 1 % shorter, with up to 2.3 times the minimum of memory."""


def plan_cores(
    whole: Whole,
    placed: Sequence[tuple[MacroPiece, Place]],
    shape: NpuShape,
    ports: Sequence[Place],
    cuts: CutsOfCore | None = None,
) -> ChipPlan:
    """Return the regions, streams and credits of all cores.

    ports : nodes of the host's ports
    cuts : tile sizes of the parts on a core, for cores that keep only some columns of feature maps
    Raises `DoesNotFitError` that names the core and the missing resource.
    """
    return _Planner(ChipState(whole, placed, shape, ports), cuts).made()


def _require_order(source: CoreState, target: CoreState) -> None:
    """Require that no core receives data of a later function, which waits for the host."""
    if target.function < source.function:
        raise DoesNotFitError(
            f"{source.name}: unread rows of function {source.function} would be stored in "
            f"{target.name}, which computes function {target.function}; use --cores 1"
        )


class _Planner:
    def __init__(self, chip: ChipState, cuts: CutsOfCore | None) -> None:
        self.chip, self.cores, self.cuts = chip, chip.cores, cuts
        self.whole, self.shape, self.homes = chip.whole, chip.shape, chip.homes
        read = [self.homes.of(one).owner for one in self.whole.read]
        self.host = {  # boxes that the host reads, by owner
            owner: self._box([one for one in self.whole.read if self.homes.of(one).owner is owner])
            for owner in dict.fromkeys(read)
        }

    def made(self) -> ChipPlan:
        boxes = {place: self._boxes(core) for place, core in self.cores.items()}
        self._fill_gaps(boxes)
        for place, core in self.cores.items():
            self._keep(core, boxes[place])
        for core in self.cores.values():
            self._feed(core)
        if self.cuts is not None:
            order_tiles(self.chip, self.cuts)
        for core in self.cores.values():
            self._number_streams(core)
        require_streams(map(self._crowded, self.cores.values()), STREAMS)
        for core in self.cores.values():
            self._place(core)
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
            for one in self.chip.held(owner, box)
        ]
        return ChipPlan(plans, parts, slots)

    def _box(self, tensors: list[Tensor]) -> Box:
        found = self.homes.whole(tensors[0])
        for tensor in tensors[1:]:
            found = found.around(self.homes.whole(tensor))
        return found

    def _boxes(self, core: CoreState) -> dict[Tensor, list[Box]]:
        """Return the inputs of a core's layers, by owner, as disjoint boxes."""
        boxes: dict[Tensor, list[Box]] = {}
        for one in (one for made in core.slices for one in made.inputs):
            owner, box = self.chip.even_box(one)
            mine = boxes.setdefault(owner, [])
            if owner.planes:
                mine += [] if box in mine else [box]
            else:
                add_box(mine, box)
        return boxes

    def _keep(self, core: CoreState, boxes: dict[Tensor, list[Box]]) -> None:
        """Create the regions of these boxes."""
        for owner, mine in boxes.items():
            for number, box in enumerate(sorted(mine)):
                core.kept[owner, number] = Kept(owner, box)
        for number, made in enumerate(core.slices):
            for one in made.inputs:
                core.touch(self.chip.key(core, one), number)

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

    def _regions_of(self, one: Sliced) -> Iterator[tuple[CoreState, Hashable, Box]]:
        """Yield the regions that a part of a result is sent to, and the common box."""
        owner, box = self.homes.kept(one)
        for core in self.cores.values():
            for key, kept in core.kept.items():
                if kept.owner is not owner or (some := kept.box.meet(box)) is None:
                    continue
                if self.homes.rows(one.whole, some.rows).size > 0:
                    yield core, key, some

    def _feed(self, core: CoreState) -> None:
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

    def _number_streams(self, core: CoreState) -> None:
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

    def _crowded(self, core: CoreState) -> Crowded:
        """Return the streams of a core, and the cores that it communicates with."""
        partners = {source for _, source in core.streams} | set(core.credits)
        macros = [{one.macro for one in self.cores[at].pieces} for at in partners - {HOST}]
        return Crowded(
            core.place,
            len({*core.streams.values(), *core.credits.values()}),
            [one.macro for one in core.pieces],
            Counter(one for some in macros for one in some),
        )

    def _place(self, core: CoreState) -> None:
        """Place the regions; rings have as many columns as fit."""
        if not core.rings:
            core.addresses = place_rooms(self._rooms(core, {}), map_capacity(self.shape), core.name)
            return
        number, numbers = map_capacity(self.shape), {}
        for key in core.rings:
            numbers[key] = number
            number += self.homes.tall(core.kept[key]) * core.kept[key].owner.width
        for more in SLACKS:
            columns = {
                key: self._columns(core.kept[key], need, more) for key, need in core.rings.items()
            }
            try:
                found = place_rooms(self._rooms(core, columns), map_capacity(self.shape), core.name)
            except DoesNotFitError:
                if more == SLACKS[-1]:
                    raise
                continue
            break
        core.addresses = {
            key: one._replace(ring=(columns[key], numbers[key])) if key in columns else one
            for key, one in found.items()
        }

    def _columns(self, kept: Kept, need: RingNeed, more: float) -> int:
        """Return the columns of a ring. more : slack, in steps of producer and consumer"""
        up = UP if self.chip.is_upsampled(kept.owner) else 1
        columns = -(-(need.least + math.ceil(more * need.step)) // up) * up
        return min(columns, kept.owner.width)

    def _rooms(self, core: CoreState, columns: Mapping[Hashable, int]) -> list[Room]:
        """Return the regions of a core. columns : columns of rings"""
        rooms = []
        for key, kept in core.kept.items():
            far = any(source != core.place for source in core.feeds.get(key, []))
            lives = None if far or core.order else core.lives[key]
            size, planes = self.homes.size(kept, columns.get(key, 0)), kept.owner.planes
            slots = far and key not in columns
            rooms.append(Room(key, kept.owner.name, size, lives, planes, slots))
        return rooms

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

    def _plan(self, core: CoreState, results: dict[Tensor, tuple[Box, int]]) -> CorePlan:
        made = CorePlan(core.pieces, [one.macro for one in core.slices])
        made.order = tuple(core.order), tuple(core.cuts)
        for one in (one for each in core.slices for one in each.inputs):
            key = self.chip.key(core, one)
            address = core.addresses[key]
            made.regions[one.part] = self.homes.region(core.kept[key], one, *address)
        for one in (one for each in core.slices for one in each.outputs):
            made.targets[one.part] = tuple(self._targets(core, one, results))
        for key, kept in core.kept.items():
            address = core.addresses[key]
            size = self.homes.size(kept, address.ring[0])
            made.used = max(made.used, address.base + size)
            if address.slots:
                made.used = max(made.used, address.base + (1 << address.slots + 2) + size)
            least = core.rings[key].least if key in core.rings else 0
            for one in self.chip.held(kept.owner, kept.box):
                region = self.homes.region(kept, one, *address)
                made.parts.append(Lying(one.whole, region, *one.held, least))
            if kept.owner.planes:
                made.filled += self._filled(kept, address.base)
                if address.slots:
                    made.filled += self._filled(kept, address.base + (1 << address.slots + 2))
        made.links = links_of(self.chip, core)
        return made

    def _filled(self, kept: Kept, base: int) -> Iterator[tuple[int, int, int]]:
        """Yield the padding channels of planes, which the host does not send."""
        value, stop = kept.owner.zero_point, WORD_VECTORS // GROUP * GROUP
        for at, count, _ in planes_of(kept, self.shape.columns):
            if count < stop:
                yield base + at + count, stop - count, value

    def _targets(
        self, core: CoreState, one: Sliced, results: dict[Tensor, tuple[Box, int]]
    ) -> Iterator[Target]:
        """Yield the destinations of a part of a result: cores in order, then the host."""
        for other, key, some in self._regions_of(one):
            address = other.addresses[key]
            region = self.homes.region(other.kept[key], one, *address)
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
                port = nearest(self.chip.ports, core.place)
                yield Target("HOST", region, *self._local(one, some_), port)

    def _local(self, one: Sliced, some: Box) -> tuple[Span, Span]:
        """Return a box of the owner as rows and blocks of a part of a feature map."""
        box = self.homes.box(one.whole, one.held)
        rows = self.homes.rows(one.whole, some.rows).moved(-one.held.rows.first)
        if self.homes.of(one.whole).columns > 1:
            return rows, Span(0, pixel_vectors(one.part, self.shape.columns))
        return rows, some.blocks.moved(-box.blocks.first)
