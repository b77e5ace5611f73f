"""Instructions of a macro node: load, multiply, what the ALU does, and store, tile by tile."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from chipsim.chip.npu_shape import NpuShape
from hw.npu.isa import Instruction, MicroOp
from mapper.compiler.codegen.steps import Step, Touch
from mapper.compiler.codegen.tables import LANES, Tables
from mapper.compiler.graph.macro import Macro
from mapper.compiler.graph.node import Add, Clamp, Conv, Node, Pool, Requantise, Window
from mapper.compiler.graph.tensor import Tensor
from mapper.compiler.integer.formulas import ROUNDINGS
from mapper.compiler.memory.planner import Region, blocks_of
from mapper.compiler.schedule.tiles import Span, Tile, largest_cut, spans_of, tiles_of
from mapper.errors import MapperError

LEAST = -(1 << 15)  # of an immediate


class Entries(NamedTuple):
    """A part of a map in accumulators: entry (block, row, column) at
    first + (block * rows + row) * columns + column."""

    first: int
    blocks: int
    rows: int
    columns: int

    @property
    def pixels(self) -> int:
        return self.rows * self.columns

    @property
    def cells(self) -> NDArray[np.int64]:
        return np.arange(self.first, self.first + self.blocks * self.pixels)

    @property
    def behind(self) -> int:
        return self.first + self.blocks * self.pixels


@dataclass(slots=True)
class Area:
    """The part of a map that a load brings: pixels of the map, and how many of padding around."""

    region: Region
    rows: Span
    columns: Span
    blocks: Span
    stride: int

    def fields(self) -> dict[str, int]:
        tensor = self.region.tensor
        top, left = max(0, -self.rows.first), max(0, -self.columns.first)
        bottom = max(0, self.rows.behind - tensor.height)
        right = max(0, self.columns.behind - tensor.width)
        first = (self.rows.first + top) * tensor.width + self.columns.first + left
        return {
            "src": self.region.first + first * self.stride + self.blocks.first,
            "c_size": self.blocks.size,
            "x_size": self.columns.size,
            "y_size": self.rows.size,
            "x_stride": self.stride,
            "y_stride": tensor.width * self.stride,
            "pad_t": top,
            "pad_b": bottom,
            "pad_l": left,
            "pad_r": right,
        }

    def cells(self) -> NDArray[np.int64]:
        """The vectors in memory."""
        tensor = self.region.tensor
        rows = np.arange(max(0, self.rows.first), min(tensor.height, self.rows.behind))
        columns = np.arange(max(0, self.columns.first), min(tensor.width, self.columns.behind))
        blocks = np.arange(self.blocks.first, self.blocks.behind)
        pixels = rows[:, None] * tensor.width + columns
        found = self.region.first + pixels[:, :, None] * self.stride + blocks
        return found.ravel()


class Emitter:
    """Makes the steps of macro nodes, one after the other.

    regions : where stored maps lie
    """

    def __init__(self, shape: NpuShape, regions: dict[Tensor, Region]) -> None:
        self.shape = shape
        self.regions = regions
        self.tables = Tables(shape)
        self.steps: list[Step] = []
        self.half_inputs = self.half_entries = 0  # of the buffers that the next tile takes
        self.macro = Macro([])
        self.number = -1

    def emit(self, macro: Macro) -> None:
        self.macro, self.number = macro, self.number + 1
        cut = largest_cut(macro, self.shape)
        conv = macro.conv
        weights = bias = 0
        if conv is not None:
            assert conv.inputs[1].value is not None
            assert conv.inputs[2].value is not None
            assert isinstance(conv.operator, Conv)
            if conv.operator.groups != 1:
                raise MapperError(f"{macro.label}: grouped convolutions are not built yet")
            weights = self.tables.add_weights(conv.inputs[1].value, macro.label)
            bias = self.tables.add_bias(conv.inputs[2].value, macro.label)
        for tile in tiles_of(macro, cut, self.shape):
            first = self.half_entries * (self.shape.entries // 2)
            self.half_entries ^= 1
            spans = spans_of(macro, tile)
            if conv is not None:
                made = self._matrix(tile, spans[0], spans[1], cut.inputs, (weights, bias, first))
            else:
                made = self._load_entries(macro.inputs[0], spans[0], tile.blocks, first)
            self._rest(tile, spans, made)

    def _step(
        self, unit: str, instruction: Instruction, reads: list[Touch], writes: list[Touch]
    ) -> None:
        self.steps.append(Step(unit, instruction, self.number, reads, writes))

    def _region(self, tensor: Tensor) -> tuple[Region, int]:
        return self.regions[tensor], blocks_of(tensor.channels, self.shape.columns)

    def _matrix(
        self, tile: Tile, taken: tuple[Span, Span], made: tuple[Span, Span], at_once: int,
        where: tuple[int, int, int],
    ) -> Entries:  # fmt: skip
        """Loads and matrix products of a tile; sums of several loads go on in the accumulators.

        where : first weight word, first bias word, first accumulator
        """
        conv = self.macro.conv
        assert conv is not None
        assert isinstance(conv.operator, Conv)
        window, data = conv.operator.window, conv.inputs[0]
        weights, bias, first = where
        region, blocks = self._region(data)
        sums = Entries(first, tile.blocks.size, made[0].size, made[1].size)
        words = blocks_of(self.shape.rows, LANES)
        for begin in range(0, blocks, at_once):
            some = Span(begin, min(begin + at_once, blocks))
            area = Area(region, *taken, some, blocks)
            base = self.half_inputs * (self.shape.input_vectors // 2)
            self.half_inputs ^= 1
            inputs = Entries(base, some.size, taken[0].size, taken[1].size)
            fields = area.fields() | {"dst": base, "value": data.zero_point}
            self._step(
                "LOAD", Instruction("LOAD", "INP", fields=fields),
                [Touch("FM", area.cells())], [Touch("INP", inputs.cells)],
            )  # fmt: skip
            ops = _matrix_ops(
                window, tile.blocks, some, blocks, (inputs, sums, weights, begin == 0, words)
            )
            fields = {
                "uop": self.tables.add_micro_ops(ops, self.macro.label),
                "uops": len(ops),
                "n_out": sums.rows,
                "n_in": sums.columns,
                "acc_out": sums.columns,
                "acc_in": 1,
                "inp_out": window.stride[0] * inputs.columns,
                "inp_in": window.stride[1],
                "init": 2,
                "bm": bias,
            }
            self._step(
                "GEMM", Instruction("GEMM", "INT8", fields=fields),
                [Touch("INP", inputs.cells)], [Touch("ACC", sums.cells)],
            )  # fmt: skip
        return sums

    def _load_entries(
        self, tensor: Tensor, spans: tuple[Span, Span], blocks: Span, first: int
    ) -> Entries:
        """A part of a map into accumulators."""
        region, stride = self._region(tensor)
        area = Area(region, *spans, blocks, stride)
        made = Entries(first, blocks.size, spans[0].size, spans[1].size)
        fields = area.fields() | {"dst": first, "value": tensor.low}
        self._step(
            "LOAD", Instruction("LOAD", "ACC8", fields=fields),
            [Touch("FM", area.cells())], [Touch("ACC", made.cells)],
        )  # fmt: skip
        return made

    def _rest(self, tile: Tile, spans: list[tuple[Span, Span]], made: Entries) -> None:
        """What the ALU does with a tile, and the store."""
        macro = self.macro
        todo = macro.nodes[1:] if macro.conv else macro.nodes
        up = todo and todo[-1].kind == "upsample"
        work = [node for node in todo if node.kind != "upsample"]
        free = made.behind
        for node in work:
            last = node is work[-1]
            if isinstance(node.operator, Requantise):
                self._requantise(node, made, tile.blocks, last)
            elif isinstance(node.operator, Clamp):
                self._clamp(node.operator.low, node.operator.high, made, last)
            elif isinstance(node.operator, Pool):
                rows, columns = spans[macro.nodes.index(node) + 1]
                pooled = Entries(free, made.blocks, rows.size, columns.size)
                self._pool(node, made, pooled, last)
                made, free = pooled, pooled.behind
            elif isinstance(node.operator, Add):
                here = spans[macro.nodes.index(node) + 1]
                made, free = self._add(node, (*here, tile.blocks), made, free, last)
            else:
                raise MapperError(f"{node.label}: no core computes {node.kind} by itself")
        if not work:
            self._alu("MOV", made, made, {"source": 1, "out": 1})
        self._store(tile, made, bool(up))

    def _alu(self, kind: str, made: Entries, source: Entries, more: dict[str, int]) -> None:
        """One operation on each entry; the source is read entry by entry as well."""
        op = MicroOp(acc=made.first, inp=source.first)
        fields = {
            "uop": self.tables.add_micro_ops([op], self.macro.label),
            "uops": 1,
            "n_out": made.blocks * made.rows,
            "n_in": made.columns,
            "dst_out": made.columns,
            "dst_in": 1,
            "src_out": made.columns,
            "src_in": 1,
        }
        self._alu_step(Instruction("ALU", kind, fields=fields | more), [made, source], made)

    def _alu_step(self, instruction: Instruction, reads: list[Entries], made: Entries) -> None:
        writes = [Touch("ACC", made.cells)]
        if instruction.fields.get("out"):
            writes.append(Touch("OUT", made.cells))
        self._step("ALU", instruction, [Touch("ACC", one.cells) for one in reads], writes)

    def _requantise(self, node: Node, made: Entries, blocks: Span, last: bool) -> None:
        assert isinstance(node.operator, Requantise)
        how, channels = node.operator.how, node.output.channels
        rec = self.tables.add_record(how, channels, blocks.first, blocks.behind, self.macro.label)
        kind = "RQ" if how.negative is None else "LEAKY"
        fields = {
            "dst": made.first,
            "n_out": made.blocks,
            "n_in": made.pixels,
            "dst_out": made.pixels,
            "dst_in": 1,
            "rec": rec,
            "out": int(last),
        }
        self._alu_step(Instruction("RQ", kind, fields=fields), [made], made)

    def _clamp(self, low: int, high: int, made: Entries, last: bool) -> None:
        self._alu("MAX", made, made, {"imm": low})
        self._alu("MIN", made, made, {"imm": high, "out": int(last)})

    def _pool(self, node: Node, source: Entries, made: Entries, last: bool) -> None:
        """The first pixel of each window moved together, then the others against it; of means the
        sum, less the zero points of the pixels."""
        assert isinstance(node.operator, Pool)
        window = node.operator.window
        mean = node.operator.kind == "average"
        if any(window.pad):
            raise MapperError(f"{node.label}: padded pooling is not built yet")
        places = [
            (wy * window.dilation[0], wx * window.dilation[1])
            for wy in range(window.size[0])
            for wx in range(window.size[1])
        ]
        ops = [
            MicroOp(
                acc=made.first + block * made.pixels,
                inp=source.first + block * source.pixels + y * source.columns + x,
            )
            for y, x in places
            for block in range(made.blocks)
        ]
        fields = {
            "n_out": made.rows,
            "n_in": made.columns,
            "dst_out": made.columns,
            "dst_in": 1,
            "src_out": window.stride[0] * source.columns,
            "src_in": window.stride[1],
            "source": 1,
        }
        kinds = [("MOV", ops[: made.blocks]), ("ADD" if mean else "MAX", ops[made.blocks :])]
        kinds = [one for one in kinds if one[1]]
        for kind, some in kinds:
            more = {
                "uop": self.tables.add_micro_ops(some, self.macro.label),
                "uops": len(some),
                "out": int(last and some is kinds[-1][1]),
            }
            instruction = Instruction("ALU", kind, fields=fields | more)
            self._alu_step(instruction, [source, made], made)
        if mean:
            rest = -len(places) * node.inputs[0].zero_point
            while rest:
                step = max(LEAST, min(-LEAST - 1, rest))
                self._alu("ADD", made, made, {"imm": step})
                rest -= step

    def _add(
        self, node: Node, where: tuple[Span, Span, Span], made: Entries, free: int, last: bool
    ) -> tuple[Entries, int]:
        """x * a + other * b + constant, shifted, the zero point added, and clipped.

        where : rows, columns and blocks of both addends
        """
        operator = node.operator
        assert isinstance(operator, Add)
        assert operator.factors is not None
        here = self._made_here(node)
        other = (
            next(tensor for tensor in node.inputs if tensor is not here)
            if (node.inputs[0] is not node.inputs[1])
            else node.inputs[0]
        )
        beside = self._load_entries(other, where[:2], where[2], free)
        a, b, shift, constant = operator.factors
        mine, others = (a, b) if node.inputs[0] is here else (b, a)
        word = np.zeros(LANES, np.int64)
        word[:3] = mine, others, constant
        rec = self.tables.add_parameters([word], self.macro.label)
        self._alu("MAC2", made, beside, {"source": 1, "rec": rec})
        rounding = ROUNDINGS.index(operator.rounding)
        self._alu("RSHR", made, made, {"imm": shift, "round": rounding})
        if node.output.zero_point:
            self._alu("ADD", made, made, {"imm": node.output.zero_point})
        self._clamp(operator.low, operator.high, made, last)
        return made, beside.behind

    def _made_here(self, node: Node) -> Tensor:
        """The input of an addition that is in accumulators already."""
        at = self.macro.nodes.index(node)
        return self.macro.nodes[at - 1].output if at else node.inputs[0]

    def _store(self, tile: Tile, made: Entries, up: bool) -> None:
        tensor = self.macro.output
        region, stride = self._region(tensor)
        scale = 2 if up else 1
        rows = Span(tile.rows.first * scale, tile.rows.behind * scale)
        columns = Span(tile.columns.first * scale, tile.columns.behind * scale)
        area = Area(region, rows, columns, tile.blocks, stride)
        fields = {
            "src": made.first,
            "dst": area.fields()["src"],
            "c_size": made.blocks,
            "x_size": made.columns,
            "y_size": made.rows,
            "x_stride": stride,
            "y_stride": tensor.width * stride,
            "up": int(up),
        }
        self._step(
            "STORE", Instruction("STORE", "LOCAL", fields=fields),
            [Touch("OUT", made.cells)], [Touch("FM", area.cells())],
        )  # fmt: skip


def _matrix_ops(
    window: Window, outputs: Span, taken: Span, blocks: int,
    where: tuple[Entries, Entries, int, bool, int],
) -> list[MicroOp]:  # fmt: skip
    """One micro-op for each output block, input block and place of the kernel.

    where : inputs, sums, first weight word, whether these are the first products of the sums,
        parameter words of a block
    """
    inputs, sums, weights, begins, words = where
    (kh, kw), (dh, dw) = window.size, window.dilation
    return [
        MicroOp(
            acc=sums.first + place * sums.pixels,
            inp=inputs.first + (c * inputs.rows + ky * dh) * inputs.columns + kx * dw,
            wgt=weights + ((ob * kh + ky) * kw + kx) * blocks + taken.first + c,
            bm=ob * words,
            init=int(begins and not (c or ky or kx)),
        )
        for place, ob in enumerate(range(*outputs))
        for c in range(taken.size)
        for ky in range(kh)
        for kx in range(kw)
    ]
