"""Loads of the window unit for tiles of a layer: instructions, packets, and packet headers.

A packet serves as many adjacent windows as the unit has filters, along the rows of the result.
Whole rows form one sequence; partial rows need one instruction each. Excess windows of the last
packet are written after the required ones, and are overwritten by the next row or never read.
"""

from __future__ import annotations

from typing import NamedTuple

from chipsim.chip.npu_shape import NpuShape
from chipsim.npu.windows import PacketHeader
from mapper.compiler.ir.node import Node, Window, WindowColumns
from mapper.compiler.ir.tensor import Tensor
from mapper.compiler.memory.layouts import plane_words
from mapper.compiler.memory.planner import blocks_of
from mapper.compiler.numerics.windows import GROUP
from mapper.compiler.program.inputs import Span
from mapper.compiler.program.steps import most_of

_WIN = most_of("LOAD", "WIN")
_GEMM = most_of("GEMM", "INT8")


class WindowRun(NamedTuple):
    """Windows of an instruction: their number, starting at (row, column) of the result."""

    row: int
    column: int
    windows: int


def runs_of(rows: Span, columns: Span, width: int) -> list[WindowRun]:
    """Return the runs of windows of a part of a result; width : columns of the whole result"""
    if columns == Span(0, width):
        return [WindowRun(rows.first, 0, rows.size * width)]
    return [WindowRun(row, columns.first, columns.size) for row in range(*rows)]


def packets_of(run: WindowRun, filters: int) -> int:
    return -(-run.windows // filters)


def window_vectors(node: Node, lanes: int) -> int:
    """Return the vectors per window."""
    return blocks_of(node.output.channels, lanes)


def input_vectors(node: Node, rows: Span, columns: Span, shape: NpuShape) -> int:
    """Return the vectors of the input buffer for the windows of a part, including excess ones."""
    runs = runs_of(rows, columns, node.output.width)
    before = sum(one.windows for one in runs[:-1])
    whole = before + packets_of(runs[-1], shape.filters) * shape.filters
    return whole * window_vectors(node, shape.columns)


def can_be_said(node: Node, rows: Span, columns: Span, shape: NpuShape) -> bool:
    """Return whether the numbers of a part fit in the instruction fields."""
    runs, vectors = runs_of(rows, columns, node.output.width), window_vectors(node, shape.columns)
    return (
        packets_of(runs[0], shape.filters) <= _WIN["packets"]
        and vectors <= _GEMM["inp_in"]
        and columns.size * vectors <= _GEMM["inp_out"]
    )


def headers_needed(rows: list[Span], columns: list[Span], width: int, filters: int) -> int:
    """Return the number of packet headers for a result that is cut into some rows and columns."""
    if columns == [Span(0, width)]:
        return sum(-(-y.size * width // filters) for y in rows)
    return sum(y.size for y in rows) * sum(-(-x.size // filters) for x in columns)


def headers_of(node: Node, run: WindowRun, shape: NpuShape) -> list[PacketHeader]:
    """Return the headers of a run: words of a plane with all pixels of a packet's windows, and the
    padded coordinates of its first window."""
    operator = node.operator
    assert isinstance(operator, WindowColumns)
    window, width, bank = operator.window, node.output.width, 2 * shape.columns
    found, first = [], run.row * width + run.column
    for packet in range(packets_of(run, shape.filters)):
        at = first + packet * shape.filters
        pixels = [
            ends
            for number in range(at, at + shape.filters)
            if (ends := _pixels(window, node.inputs[0], *divmod(number, width)))
        ]
        begin = min((one[0] for one in pixels), default=0) // bank
        last = max((one[1] for one in pixels), default=-1) // bank
        row, column = divmod(at, width)
        y, x = row * window.stride[0], column * window.stride[1]
        found.append(PacketHeader(begin, last + 1 - begin if pixels else 0, x, y))
    return found


def _pixels(window: Window, data: Tensor, row: int, column: int) -> tuple[int, int] | None:
    """Return the first and the last pixel of a window inside the map, counted row by row."""
    spans = []
    for at, axis, before, length in (
        (row, 0, window.pad.top, data.height), (column, 1, window.pad.left, data.width),
    ):  # fmt: skip
        first = at * window.stride[axis] - before
        span = max(0, first), min(length, first + window.size[axis])
        if span[0] >= span[1]:
            return None
        spans.append(span)
    rows, columns = spans
    return rows[0] * data.width + columns[0], (rows[1] - 1) * data.width + columns[1] - 1


def headers_short(made: Tensor, shape: NpuShape, cores: int = 1) -> str:
    """Return the shortage of header memory for the windows of a result, for any tiling; or "".

    cores : number of cores that may share the result
    """
    need = -(-packets_of(WindowRun(0, 0, made.height * made.width), shape.filters) // cores)
    if need <= shape.headers:
        return ""
    return (
        f"header memory: {need:,} headers needed, a core has {shape.headers:,} "
        f"({need - shape.headers:,} short)"
    )


def refusal(window: Window, data: Tensor, made: Tensor, shape: NpuShape) -> str:
    """Return why the window unit of a core cannot handle a feature map; "" if it can."""
    (kh, kw), (sh, sw) = window.size, window.stride
    groups = blocks_of(data.channels, GROUP)
    limits = {
        "kh": kh, "kw": kw, "sh": sh, "sw": sw, "pad_t": window.pad.top, "pad_l": window.pad.left,
        "width": data.width, "height": data.height, "columns": made.width, "groups": groups,
    }  # fmt: skip
    beyond = [name for name, value in limits.items() if value > _WIN[name]]
    if not shape.filters:
        return f"{shape.name} has no window unit"
    if not shape.map_vectors:
        return f"the feature maps of {shape.name} are in external memory"
    if shape.columns % GROUP:
        return f"vectors of {shape.columns} channels are not a multiple of groups of {GROUP}"
    if data.type != "int8":
        return f"its input is stored as {data.type}; the window unit requires bytes"
    if window.dilation != (1, 1):
        return "its kernel is dilated"
    if beyond:
        names = ", ".join(f"{name} {limits[name]:,} ({_WIN[name]:,})" for name in beyond)
        return f"too large for the fields of LOAD.WIN: {names}"
    if plane_words(data.channels, data.height * data.width, 2 * shape.columns) > _WIN["src"]:
        return "its input is too large"
    return ""
