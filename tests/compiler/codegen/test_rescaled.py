"""Stored maps rescaled in bytes and in 16 bits: integer graphs as built by imports."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from chipsim.chip.npu_shape import NpuShape
from chipsim.npu.execute import NpuChip
from hw.npu.isa.encoding import encode_micro_ops, encode_program
from mapper.compiler.artifacts.simulate import program_of, read_map, write_map
from mapper.compiler.codegen.emitter import Emitter
from mapper.compiler.ir.graph import Graph, View
from mapper.compiler.ir.node import Node, Requantise
from mapper.compiler.ir.requantisation import Multiplier, Requantisation, Rounding
from mapper.compiler.ir.tensor import Tensor, Type
from mapper.compiler.memory.planner import PlannedMaps, plan_memory
from mapper.compiler.numerics.execute import run_graph
from mapper.compiler.numerics.formulas import multiplier
from mapper.compiler.numerics.reference import INTEGER
from mapper.compiler.program.image import Image
from mapper.compiler.program.steps import with_tokens
from mapper.compiler.tiling.tiles import largest_cut
from mapper.compiler.transforms.fuse import fuse
from mapper.errors import MapperError
from tests.compiler.programs import DUAL, FOUR, SHAPE

pytestmark = pytest.mark.jit  # their reference implementations are tested in tests/chipsim/npu


def rescaling(types: tuple[Type, Type], how: Requantisation, zero_point: int) -> Graph:
    """Return a graph of y = clamp(rs((q - z) * m0, n) + z_y)."""
    graph = Graph()
    x, y = (
        Tensor(name, (1, 5, 6, 20), kind, 0.1, zero_point, stored=True)
        for name, kind in zip("xy", types, strict=True)
    )
    offset = -zero_point * how.factor.m0
    graph.nodes.append(Node(Requantise(how._replace(offset=offset)), [x], [y], ("n",)))
    graph.inputs["x"], graph.outputs["y"] = View(x), View(y)
    return graph


def on_a_core(graph: Graph, shape: NpuShape, data: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the result of one frame."""
    macros = fuse(graph)
    x, y = (next(iter(one.values())).tensor for one in (graph.inputs, graph.outputs))
    regions = plan_memory(
        PlannedMaps(macros, {x: -1}, {y: 0}, {}), shape.columns, shape.map_vectors
    )
    core = Emitter(shape, regions)
    for macro in macros:
        core.emit(macro, largest_cut(macro, shape))
    sizes = {"FM": shape.map_vectors, "INP": shape.input_vectors}
    sizes |= {"ACC": shape.entries, "OUT": shape.entries}
    sizes |= {"UM": shape.micro_ops, "PM": shape.parameter_words}
    program = with_tokens(core.steps, sizes)
    tables = core.tables
    image = Image(
        {}, encode_program(program), encode_micro_ops(tables.micro_ops),
        np.zeros((0, shape.rows, shape.columns), np.int8),
        np.array(tables.parameters, np.int64).astype(np.int32).reshape(-1, 16), b"",
        np.zeros((0, shape.columns), np.uint8),
    )  # fmt: skip
    frame = NpuChip(shape, {(0, 0): program_of(image, "test")}).frame()
    row_x, row_y = (
        {
            "core": [0, 0],
            "address": region.first,
            "shape": one.shape,
            "bits": one.bits,
            "strides": [region.row, region.pixel],
            "high": region.high,
            "planes": False,
            "zero_point": one.zero_point,
        }
        for one, region in ((x, regions[x]), (y, regions[y]))
    )
    write_map(frame, row_x, data, shape.columns)
    frame.run()
    return read_map(frame, row_y, shape.columns)


@pytest.mark.parametrize("rounding", ["away", "even", "up"])
@pytest.mark.parametrize("types", [("int8", "int8"), ("int16", "int16"), ("int8", "int16")])
def test_rescaled_map(types: tuple[Type, Type], rounding: Rounding) -> None:
    """Parts of concatenations, also where zero point times factor exceeds 32 bits."""
    rng = np.random.default_rng(len(rounding))
    for shape in (SHAPE, FOUR, DUAL):
        if "int16" in types and shape is not DUAL:
            continue
        half = 1 << (7 if types[0] == "int8" else 15)
        for zero_point in (-half, half - 1, 3):
            least, most = (-128, 127) if types[1] == "int8" else (-(1 << 15), (1 << 15) - 1)
            factor = multiplier(float(rng.uniform(0.3, 1.2)), "n")
            how = Requantisation(factor, 5, least, most, rounding)
            graph = rescaling(types, how, zero_point)
            x, y = graph.nodes[0].inputs[0], graph.nodes[0].output
            data = rng.integers(-half, half, x.shape)
            wanted = run_graph(graph, {x: data}, INTEGER, [y])[y]
            assert np.array_equal(on_a_core(graph, shape, data[0]), wanted[0])


def test_offset_that_is_not_a_zero_point_is_rejected() -> None:
    factor = Multiplier(np.array(1 << 23), np.array(20))
    graph = rescaling(("int16", "int16"), Requantisation(factor, 0, 0, 9), 0)
    node = graph.nodes[0]
    assert isinstance(node.operator, Requantise)
    node.operator = Requantise(node.operator.how._replace(offset=(1 << 40) + 1))
    with pytest.raises(MapperError, match=r"requantise 'n': offset .* does not fit in 32 bits"):
        on_a_core(graph, DUAL, np.zeros((5, 6, 20), np.int64))
