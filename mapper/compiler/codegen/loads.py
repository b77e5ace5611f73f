"""Loads of parts of feature maps into the input buffer or into accumulators.

The window unit loads windows of a feature map in planes, as contiguous vectors.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from chipsim.npu.windows import PacketHeader
from hw.npu.isa.table import Instruction
from mapper.compiler.codegen.areas import Entries, LoadArea
from mapper.compiler.codegen.builder import ProgramBuilder
from mapper.compiler.ir.node import Node, WindowColumns
from mapper.compiler.memory.layouts import WORD_VECTORS
from mapper.compiler.memory.planner import Region, blocks_of
from mapper.compiler.numerics.windows import GROUP
from mapper.compiler.program.inputs import Span
from mapper.compiler.program.steps import Touch
from mapper.compiler.stages import stage
from mapper.compiler.tiling.windows import headers_of, packets_of, runs_of, window_vectors
from mapper.errors import DoesNotFitError


def load_inputs(core: ProgramBuilder, area: LoadArea, far: int = 0) -> Entries:
    """Load a part of a feature map into the input buffer; padding holds its zero point.

    far : vectors from each pixel to the second pixel that is packed above it; 0 for none
    """
    base = core.next_inputs()
    inputs = Entries(base, area.blocks.size, area.rows.size, area.columns.size)
    value = padding = area.region.tensor.zero_point
    if far:
        value = (value << 8) + (value & 255)

    def cells() -> NDArray[np.int64]:
        found = area.cells(padding)
        return np.concatenate([found, found + far]) if far else found

    core.set_distance("LOAD", src=far or area.region.high)
    fields = area.fields(padding) | {"dst": base, "value": value}
    made = Instruction("LOAD", "INP", fields=fields)
    numbers = area.numbers(padding)
    if numbers is not None and far:
        raise DoesNotFitError(f"{core.macro.label}: pairs of pixels are not loaded from rings")
    core.step(made, [Touch("FM", cells)], [Touch("INP", inputs.cells)], numbers=numbers)
    return inputs


def load_entries(core: ProgramBuilder, area: LoadArea, first: int, padding: int = 0) -> Entries:
    """Load a part of a feature map into accumulators, starting at `first`.

    padding : value of pixels outside the map
    """
    made = Entries(first, area.blocks.size, area.rows.size, area.columns.size)
    core.set_distance("LOAD", src=area.region.high)
    fields = area.fields(padding) | {"dst": first, "value": padding}
    core.step(
        Instruction("LOAD", "ACC8", fields=fields),
        [Touch("FM", lambda: area.cells(padding))], [Touch("ACC", made.cells)],
        numbers=area.numbers(padding),
    )  # fmt: skip
    return made


def load_windows(core: ProgramBuilder, node: Node, rows: Span, columns: Span) -> Entries:
    """Load the windows of a part of a result into the input buffer.

    node : the im2col operator
    """
    operator, shape = node.operator, core.shape
    assert isinstance(operator, WindowColumns)
    window, data = operator.window, node.inputs[0]
    region, vectors = core.regions[data], window_vectors(node, shape.columns)
    base = at = core.next_inputs()
    for run in runs_of(rows, columns, node.output.width):
        with stage("packet headers"):
            headers = headers_of(node, run, shape)
            head = core.tables.add_headers([one.bits for one in headers], core.macro.label)
        packets = packets_of(run, shape.filters)
        fields = {
            "dst": at, "src": region.first // WORD_VECTORS, "head": head, "packets": packets,
            "width": data.width, "height": data.height,
            "kh": window.size[0], "kw": window.size[1],
            "sh": window.stride[0], "sw": window.stride[1],
            "pad_t": window.pad.top, "pad_l": window.pad.left,
            "columns": node.output.width, "groups": blocks_of(data.channels, GROUP),
            "value": data.zero_point, "pp": region.slots,
        }  # fmt: skip
        core.step(
            Instruction("LOAD", "WIN", fields=fields),
            [Touch("FM", _words(region, headers, shape.columns)),
             Touch("HM", np.arange(head, head + packets))],
            [Touch("INP", np.arange(at, at + packets * shape.filters * vectors))],
        )  # fmt: skip
        at += run.windows * vectors
    return Entries(base, vectors, rows.size, columns.size, together=True)


def _words(region: Region, headers: list[PacketHeader], lanes: int) -> NDArray[np.int64]:
    """Return the vectors of all words that packets read."""
    data = region.tensor
    words = -(-data.height * data.width // (2 * lanes))
    taken = np.zeros(words, bool)
    for one in headers:
        taken[one.start : one.start + one.length] = True
    plane = np.flatnonzero(taken)
    groups = np.arange(blocks_of(data.channels, GROUP)) * words
    found = (groups[:, None] + plane).ravel() * WORD_VECTORS
    return np.asarray(region.first + (found[:, None] + np.arange(WORD_VECTORS)).ravel())
