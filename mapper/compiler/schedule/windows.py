"""What the window unit loads for tiles of a layer: instructions, packets, and their headers.

A packet serves as many windows side by side as the unit has filters, along the rows of the result.
Whole rows come one behind the other; of parts of rows each takes an instruction of its own. What
the last packet brings too much lies behind the windows that are wanted, and is overwritten by the
next row, or by nobody.
"""

from __future__ import annotations

from typing import NamedTuple

from chipsim.chip.npu_shape import NpuShape
from chipsim.npu.windows import Header
from hw.npu.isa import form_of
from mapper.compiler.graph.node import Node, Window, WindowColumns
from mapper.compiler.graph.tensor import Tensor
from mapper.compiler.integer.windows import GROUP
from mapper.compiler.memory.layouts import plane_words
from mapper.compiler.memory.planner import blocks_of
from mapper.compiler.schedule.inputs import Span

_WIN = {field.name: field.most for field in form_of("LOAD", "WIN").fields}
_GEMM = {field.name: field.most for field in form_of("GEMM", "INT8").fields}


class Run(NamedTuple):
    """Windows that an instruction brings: how many, from (row, column) of the result on."""

    row: int
    column: int
    windows: int


def runs_of(rows: Span, columns: Span, width: int) -> list[Run]:
    """The windows of a part of a result; width : columns of all of it."""
    if columns == Span(0, width):
        return [Run(rows.first, 0, rows.size * width)]
    return [Run(row, columns.first, columns.size) for row in range(*rows)]


def packets_of(run: Run, filters: int) -> int:
    return -(-run.windows // filters)


def window_vectors(node: Node, lanes: int) -> int:
    """Vectors of a window."""
    return blocks_of(node.output.channels, lanes)


def input_vectors(node: Node, rows: Span, columns: Span, shape: NpuShape) -> int:
    """Vectors of the input buffer that the windows of a part take, and what comes with them."""
    runs = runs_of(rows, columns, node.output.width)
    before = sum(one.windows for one in runs[:-1])
    whole = before + packets_of(runs[-1], shape.filters) * shape.filters
    return whole * window_vectors(node, shape.columns)


def can_be_said(node: Node, rows: Span, columns: Span, shape: NpuShape) -> bool:
    """Whether the fields of the instructions hold the numbers of a part."""
    runs, vectors = runs_of(rows, columns, node.output.width), window_vectors(node, shape.columns)
    return (
        packets_of(runs[0], shape.filters) <= _WIN["packets"]
        and vectors <= _GEMM["inp_in"]
        and columns.size * vectors <= _GEMM["inp_out"]
    )


def headers_needed(rows: list[Span], columns: list[Span], width: int, filters: int) -> int:
    """Of the packets of all parts of a result, which is cut into some rows and columns."""
    if columns == [Span(0, width)]:
        return sum(-(-y.size * width // filters) for y in rows)
    return sum(y.size for y in rows) * sum(-(-x.size // filters) for x in columns)


def headers_of(node: Node, run: Run, shape: NpuShape) -> list[Header]:
    """The headers of a run: words of a plane that hold all pixels of a packet's windows, and the
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
        found.append(Header(begin, last + 1 - begin if pixels else 0, x, y))
    return found


def _pixels(window: Window, data: Tensor, row: int, column: int) -> tuple[int, int] | None:
    """The first and the last pixel of a window that lie inside of the map, counted row by row."""
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
    """What the header memory of a core lacks for the windows of a result, whatever its tiles.

    cores : that may share it
    """
    need = -(-packets_of(Run(0, 0, made.height * made.width), shape.filters) // cores)
    if need <= shape.headers:
        return ""
    return (
        f"header memory: {need:,} headers needed, a core has {shape.headers:,} "
        f"({need - shape.headers:,} short)"
    )


def refusal(window: Window, data: Tensor, made: Tensor, shape: NpuShape) -> str:
    """Why the window unit of a core cannot make the windows of a map; nothing if it can."""
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
        return f"the maps of {shape.name} are in external memory"
    if shape.columns % GROUP:
        return f"vectors of {shape.columns} channels hold no whole groups of {GROUP}"
    if data.type != "int8":
        return f"its map is stored in {data.type}, the window unit takes bytes"
    if window.dilation != (1, 1):
        return "its kernel is dilated"
    if beyond:
        names = ", ".join(f"{name} {limits[name]:,} ({_WIN[name]:,})" for name in beyond)
        return f"too large for the fields of LOAD.WIN: {names}"
    if plane_words(data.channels, data.height * data.width, 2 * shape.columns) > _WIN["src"]:
        return "its map is too large"
    return ""
