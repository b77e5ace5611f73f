"""C10-C12: the window unit: columns of the im2col matrix, and their cycles."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pytest
from numpy.lib.stride_tricks import sliding_window_view

from chipsim.chip.npu_shape import NPU_SHAPES, NpuShape
from chipsim.errors import ChipError
from chipsim.npu.core_run import run_core
from chipsim.npu.execute import NpuChip
from chipsim.npu.records import Program
from chipsim.npu.timing import cycles_of
from chipsim.npu.windows import CACHE, PacketHeader, cycles_of_windows, windows_of
from tests.chipsim.npu.programs import program_of
from tests.reference import windows as twin

pytestmark = pytest.mark.jit
SHAPES, TWINS = 2_000, 400
LAYER = {
    "dst": 0, "src": 0, "head": 0, "packets": 256, "width": 32, "height": 32, "kh": 3, "kw": 3,
    "sh": 1, "sw": 1, "pad_t": 1, "pad_l": 1, "columns": 32, "groups": 1, "value": -7,
}  # fmt: skip


class Case(NamedTuple):
    """planes : planes of a map, shape (channels, rows, columns)
    windows : rows of windows
    """

    f: dict[str, int]
    planes: np.ndarray[Any, Any]
    filters: int
    lanes: int
    rows: int

    @property
    def vectors(self) -> int:
        """Vectors per window."""
        return -(-4 * self.f["groups"] * self.f["kh"] * self.f["kw"] // self.lanes)

    @property
    def headers(self) -> list[int]:
        """Headers of all windows, each covering the pixels of its windows.

        Windows of the last packet continue in the next row.
        """
        f, found = self.f, []
        count = f["packets"] * self.filters
        windows = [(at // f["columns"] * f["sh"], at % f["columns"] * f["sw"])
                   for at in range(count)]  # fmt: skip
        for first in range(0, count, self.filters):
            y, x = windows[first]
            words = {
                (py * f["width"] + px) // (2 * self.lanes)
                for wy, wx in windows[first : first + self.filters]
                for py in range(max(wy - f["pad_t"], 0), wy - f["pad_t"] + f["kh"])
                for px in range(max(wx - f["pad_l"], 0), wx - f["pad_l"] + f["kw"])
                if py < f["height"] and px < f["width"]
            }
            begin, length = (min(words), max(words) + 1 - min(words)) if words else (0, 0)
            found.append(begin | length << 16 | x << 32 | y << 48)
        return found

    def im2col(self) -> np.ndarray[Any, Any]:
        """Return the vectors of all windows, shape (windows, vectors, lanes)."""
        f = self.f
        channels, height, width = self.planes.shape
        below = (self.rows - 1) * f["sh"] + f["kh"]
        right = (f["columns"] - 1) * f["sw"] + f["kw"]
        whole = np.full((4 * f["groups"], max(below, height + f["pad_t"]),
                         max(right, width + f["pad_l"])), f["value"])  # fmt: skip
        top, left = f["pad_t"], f["pad_l"]
        whole[:, top : top + height, left : left + width] = 0  # channels that pad the group
        whole[:channels, top : top + height, left : left + width] = self.planes
        seen = sliding_window_view(whole, (f["kh"], f["kw"]), axis=(1, 2))
        seen = seen[:, :: f["sh"], :: f["sw"]][:, : self.rows, : f["columns"]]
        seen = seen.reshape(f["groups"], 4, self.rows, f["columns"], f["kh"], f["kw"])
        columns = seen.transpose(2, 3, 0, 4, 5, 1).reshape(self.rows * f["columns"], -1)
        found = np.zeros((len(columns), self.vectors * self.lanes), int)
        found[:, : columns.shape[1]] = columns
        return found.reshape(len(found), self.vectors, self.lanes)


def random_case(rng: np.random.Generator) -> Case:
    """Return a case with 1 to 9 channels, kernels to 5, strides to 3, and 1 to 8 filters.

    Pads are smaller than kernels. All windows of the map are included; further windows are below
    it.
    """

    def below(most: int) -> int:
        return int(rng.integers(most))

    lanes = (16, 16, 16, 4)[below(4)]
    channels, kh, kw = 1 + below(9), 1 + below(5), 1 + below(5)
    height, width = kh + below(12), kw + below(24)
    pad_t, pad_l = below(kh), below(kw)
    sh, sw = 1 + below(3), 1 + below(3)
    pad_b, pad_r = below(kh), below(kw)
    rows = (height + pad_t + pad_b - kh) // sh + 1
    columns = (width + pad_l + pad_r - kw) // sw + 1
    f = {
        "dst": below(5), "src": below(3), "head": below(3), "width": width, "height": height,
        "kh": kh, "kw": kw, "sh": sh, "sw": sw, "pad_t": pad_t, "pad_l": pad_l,
        "columns": columns, "groups": -(-channels // 4), "value": below(256) - 128,
    }  # fmt: skip
    planes = rng.integers(-128, 128, (channels, height, width))
    filters = 1 + below(8)
    f["packets"] = -(-rows * columns // filters)
    return Case(f, planes, filters, lanes, rows)


def core_of(filters: int, lanes: int) -> NpuShape:
    """Return a core that is large enough."""
    return replace(
        NPU_SHAPES["npu"], name="windows", rows=lanes, columns=lanes, multiply_lanes=1,
        filters=filters, headers=1024, input_vectors=4096, weight_words=2, entries=2,
        map_vectors=2048,
    )  # fmt: skip


def banks_of(case: Case) -> np.ndarray[Any, Any]:
    """Return the map as vectors: a word is two vectors in each of four banks."""
    channels, height, width = case.planes.shape
    words = twin.map_words(case.planes.reshape(channels, height * width), case.lanes)
    return np.array(words).reshape(-1, case.lanes)


def fits(case: Case) -> bool:
    return case.vectors * case.filters * case.f["packets"] < 4000 and (case.f["packets"] < 1000)


def cases(count: int, seed: int) -> list[Case]:
    rng = np.random.default_rng(seed)
    found = (random_case(rng) for _ in range(2 * count))
    return [case for case in found if fits(case)][:count]


@pytest.mark.heavy
@pytest.mark.sample(0.25)
def test_c10_windows_are_columns_of_im2col() -> None:
    """C10, C11, C12: random shapes, strides, pads and numbers of filters, bit for bit."""
    some = cases(SHAPES, 1)
    assert len(some) == SHAPES
    units = {(case.filters, case.lanes) for case in some}
    for filters, lanes in sorted(units):
        mine = [case for case in some if (case.filters, case.lanes) == (filters, lanes)]
        programs = {(x, 0): program_for(case) for x, case in enumerate(mine)}
        assert len(programs) < 256
        frame = NpuChip(core_of(filters, lanes), programs).frame()
        frame.run()
        for x, case in enumerate(mine):
            wanted = case.im2col().reshape(-1, lanes)
            got = frame.memory((x, 0))["INP"][case.f["dst"] :][: len(wanted), :lanes]
            assert np.array_equal(got, wanted), case


def program_for(case: Case) -> Program:
    maps, first = banks_of(case), 8 * case.f["src"]
    memory = np.zeros((first + len(maps), case.lanes), np.int8)
    memory[first:] = maps
    return program_of(
        [("LOAD", "WIN", case.f)], maps=memory.view(np.uint8), rows=case.lanes,
        headers=[0] * case.f["head"] + case.headers,
    )  # fmt: skip


@pytest.mark.heavy
@pytest.mark.sample(0.25)
def test_c12_filters_cycle_by_cycle() -> None:
    """C10, C12: generator and filter chain produce im2col; the recurrence gives their cycles."""
    some = cases(TWINS, 2)
    assert len(some) == TWINS
    stopped = 0
    for case in some:
        unit = twin.Unit(case.f, case.filters, case.lanes, twin.map_words(
            case.planes.reshape(len(case.planes), -1), case.lanes
        ))  # fmt: skip
        cycles = unit.run(case.headers)
        wanted = case.im2col().reshape(-1, case.lanes)
        got = [unit.inputs[case.f["dst"] + at] for at in range(len(wanted))]
        assert np.array_equal(got, wanted), case
        said = cycles_of_windows(windows_of(case.f, case.filters, case.lanes), tuple(case.headers))
        assert cycles == said, case
        stopped += unit.stops > 0
    assert stopped > TWINS // 10


def test_c11_header() -> None:
    """C11: 15:0 start, 31:16 length, 47:32 x, 63:48 y."""
    assert PacketHeader.of(0x0004_0003_0002_0001) == PacketHeader(1, 2, 3, 4)
    assert PacketHeader(1, 2, 3, 4).bits == 0x0004_0003_0002_0001


def test_a_header_that_covers_too_little() -> None:
    f = {**LAYER, "packets": 1}
    with pytest.raises(ChipError, match="does not cover"):
        cycles_of_windows(windows_of(f, 4, 16), (PacketHeader(0, 1, 0, 0).bits,))
    with pytest.raises(ChipError, match="does not cover"):
        cycles_of_windows(windows_of(f, 4, 16), (PacketHeader(1, 4, 0, 0).bits,))
    with pytest.raises(ChipError, match="vectors of 6 bytes"):
        cycles_of_windows(windows_of(f, 4, 6), ())


def test_times_by_hand() -> None:
    """One filter, one window of 2x2 pixels.

    The header arrives in cycle 0, its word in 1; the header is consumed in 1, four commands run
    from 2 on, the vector is written in 6.
    """
    f = {**LAYER, "kh": 2, "kw": 2, "pad_t": 0, "pad_l": 0, "columns": 1, "packets": 1,
         "width": 2, "height": 2}  # fmt: skip
    header = PacketHeader(0, 1, 0, 0).bits
    assert cycles_of_windows(windows_of(f, 1, 16), (header,)) == 7
    # the second packet waits in the cache: its header in cycle 6, commands from 7 to 10
    two = {**f, "packets": 2, "height": 4, "sh": 2}
    headers = (header, PacketHeader(0, 1, 0, 2).bits)
    assert cycles_of_windows(windows_of(two, 1, 16), headers) == 12
    shape = replace(NPU_SHAPES["npu"], filters=1)
    assert cycles_of("LOAD", "WIN", two, [], shape, headers) == shape.latency.load + 12
    assert cycles_of("LOAD", "WIN", {**two, "head": 1, "packets": 1}, [], shape, headers) == (
        shape.latency.load + 7
    )
    with pytest.raises(ChipError, match="headers 1 to 2, but only 2 exist"):
        cycles_of("LOAD", "WIN", {**two, "head": 1}, [], shape, headers)


def test_the_cycle_simulator_takes_the_same_time() -> None:
    case = cases(1, 5)[0]
    shape = core_of(case.filters, case.lanes)
    times = run_core(shape, program_for(case))
    unit = windows_of(case.f, case.filters, case.lanes)
    took = shape.latency.load + cycles_of_windows(unit, tuple(case.headers))
    assert (times.end - times.start).tolist() == [took]


def test_c10_four_filters_keep_up_with_the_array() -> None:
    """A layer of 3 channels, 3x3, on 32x32 pixels: three vectors per window, one per cycle."""
    windows = [(y, x) for y in range(32) for x in range(0, 32, 4)]
    headers = []
    for y, x in windows:
        first, last = max(0, y - 1), min(31, y + 1)
        headers.append(PacketHeader(first, last - first + 1, x, y).bits)
    found = cycles_of_windows(windows_of(LAYER, 4, 16), tuple(headers))
    assert 3 * 1024 <= found <= 3 * 1024 + 20
    assert CACHE == 8
