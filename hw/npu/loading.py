"""Flits that a host sends before the first frame: memory contents and stream counts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from hw.npu.flit import Kind, Loaded, NpuFlit
from hw.npu.memories.memories import Contents, words_of
from hw.npu.shape import PARAMETER_LANES, NpuShape


class FlitFields(NamedTuple):
    """A flit, as numbers."""

    x: int
    y: int
    kind: int
    stream: int = 0
    address: int = 0
    data: int = 0


def contents_flits(
    shape: NpuShape, layout: NpuFlit, place: tuple[int, int], contents: Contents
) -> Iterator[FlitFields]:
    """Yield flits that load contents into the core at a place; missing contents stay unchanged."""
    vector = shape.columns
    words = {
        Loaded.FM: words_of(contents.maps, vector),
        Loaded.WM: words_of(contents.weights, vector * shape.rows),
        Loaded.PM: words_of(contents.parameters, 4 * PARAMETER_LANES),
        Loaded.UM: contents.micro_ops,
        Loaded.IM: contents.instructions,
        Loaded.HM: contents.headers,
    }
    mask = (1 << layout.payload) - 1
    for memory in Loaded:
        parts = layout.parts[memory]
        for at, word in enumerate(words[memory]):
            for part in range(parts):
                data = int(word) >> layout.payload * part & mask
                yield FlitFields(*place, Kind.LOAD, memory, at * parts + part, data)
    for stream, count in enumerate(contents.streams):
        if count:
            yield FlitFields(*place, Kind.TOKEN, stream, 0, count)


def frames_flit(place: tuple[int, int], count: int, first: int = 0) -> FlitFields:
    """Return the flit that starts a number of frames on a core, at an instruction."""
    return FlitFields(*place, Kind.FRAMES, data=count | first << 16)
