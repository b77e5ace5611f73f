"""Credits of a core's regions, and the vectors that the host sends into them.

A region with one slot is freed in bands: runs of rows of a whole map, runs of columns of a ring.
"""

from __future__ import annotations

from collections.abc import Hashable
from itertools import pairwise

from mapper.compiler.multicore.cores import HOST, ChipState, CoreState
from mapper.compiler.multicore.job import nearest
from mapper.compiler.multicore.received import runs_of
from mapper.compiler.program.links import Brought, CoreLinks, Credit, Place

BANDS = 8
"""Maximum bands of rows in which a region with one slot is freed. 64 made no frame shorter."""


def links_of(chip: ChipState, core: CoreState) -> CoreLinks:
    """Return the credits that a core sends, and the vectors that the host sends to it."""
    given: list[Credit] = []
    brought: list[Brought] = []
    for key in core.kept:
        credits_, sent = (_ring_links if key in core.rings else _map_links)(chip, core, key)
        given, brought = given + credits_, brought + sent
    return CoreLinks(tuple(given), tuple(brought))


def _map_links(
    chip: ChipState, core: CoreState, key: Hashable
) -> tuple[list[Credit], list[Brought]]:
    """Return the credits for bands of rows of a whole map, and the rows that the host sends."""
    kept, address = core.kept[key], core.addresses[key]
    stop, slots = address.base + chip.homes.size(kept), 1 + (address.slots > 0)
    given, brought = [], []
    for source in sorted(core.feeds.get(key, [])):
        if source == HOST:
            stream, port = core.streams[key, source], nearest(chip.ports, core.place)
            given.append(Credit(port, True, stream, address.base, stop, slots))
            runs = tuple(runs_of(chip.whole, chip.homes, kept, address.base))
            brought.append(Brought(stream, address.slots, runs, chip.functions[kept.owner]))
        elif source != core.place:
            stream = chip.cores[source].credits[core.place]
            for first, end in pairwise([*_bands(chip, core, key, source), stop]):
                given.append(Credit(source, False, stream, first, end, slots))
    return given, brought


def _bands(chip: ChipState, core: CoreState, key: Hashable, source: Place) -> tuple[int, ...]:
    """Return the first vectors of the bands in which a core may write to a region; a single band
    with two slots. The bands cover the whole region."""
    base, slots, _ = core.addresses[key]
    kept = core.kept[key]
    if slots or kept.owner.planes:
        return (base,)
    rows, around = core.fed[key, source].rows, kept.box.rows
    count = min(BANDS, rows.size)
    each = chip.homes.size(kept) // around.size
    starts = [rows.first - around.first + rows.size * one // count for one in range(1, count)]
    return (base, *(base + each * row for row in starts))


def _ring_links(
    chip: ChipState, core: CoreState, key: Hashable
) -> tuple[list[Credit], list[Brought]]:
    """Return the credits for bands of a ring's columns, and the columns that the host sends."""
    kept, (columns, number) = core.kept[key], core.addresses[key].ring
    tall, width = chip.homes.tall(kept), kept.owner.width
    whole, ring = (number, number + width * tall), columns * tall
    band = core.rings[key].band
    given, brought = [], []
    for source in sorted(core.feeds.get(key, [])):
        if source == core.place:
            continue
        if source == HOST:
            to, stream = nearest(chip.ports, core.place), core.streams[key, source]
            brought.append(_host_columns(chip, core, key))
        else:
            to, stream = source, chip.cores[source].credits[core.place]
        for first in range(0, width, band):
            begin, end = number + first * tall, number + min(first + band, width) * tall
            given.append(Credit(to, source == HOST, stream, begin, end, 1, ring, whole))
    return given, brought


def _host_columns(chip: ChipState, core: CoreState, key: Hashable) -> Brought:
    """Return the vectors that the host sends into a ring, band by band and row by row."""
    kept, address = core.kept[key], core.addresses[key]
    held = chip.homes.held(kept.owner, kept.box)
    assert held is not None
    region = chip.homes.region(kept, chip.homes.part(kept.owner, held), *address)
    columns, each, band = address.ring[0], region.pixel, core.rings[key].band
    runs, numbers = [], []
    for first in range(0, kept.owner.width, band):
        stop = min(first + band, kept.owner.width)
        turn = -(-(first + 1) // columns) * columns  # first column after the end of the ring
        for row in range(held.rows.size):
            for begin, end in ((first, min(stop, turn)), (turn, stop)):
                if begin < end:
                    runs.append((int(region.vector(row, begin, 0)), (end - begin) * each, first))
                    numbers.append(int(region.number(row, begin, 0)))
    return Brought(
        core.streams[key, HOST], 0, tuple(runs), chip.functions[kept.owner], tuple(numbers), each,
        chip.homes.tall(kept),
    )  # fmt: skip
