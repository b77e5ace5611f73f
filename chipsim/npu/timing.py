"""Cycles of an instruction, from its start until the next one may start.

The constants are the pipeline depths of the units: `NpuShape.latency`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from chipsim.chip.npu_shape import NpuShape
from chipsim.errors import ChipError
from chipsim.npu.windows import cycles_of_windows, windows_of

SLOW = ("RMUL", "MAC2", "MUL", "RQ", "LEAKY", "LOOKUP")
"""ALU kinds that need a multiplier per lane."""
PART_BITS = 8  # bits of a lane per vector


def cycles_of(
    op: str, kind: str, fields: Mapping[str, int], weights_change: Sequence[int], shape: NpuShape,
    headers: Sequence[int] = (), pairs: bool = False,
) -> int:  # fmt: skip
    """Return the cycles of an instruction without stalls, for a core shape.

    fields : by name
    weights_change : for GEMM only, see `matrix_cycles`
    headers : content of the header memory, for LOAD.WIN only
    pairs : for STORE, see `stores_pairs`
    """
    if op == "CTRL":
        return shape.latency.control
    if op == "LOAD":
        return _load(kind, fields, shape, headers)
    if op == "GEMM":
        return shape.latency.matrix + sum(weights_change)
    if op == "STORE":
        vectors = fields["c_size"] * fields["x_size"] * fields["y_size"] * (1 + 3 * fields["up"])
        if kind.startswith("PARTIAL"):
            vectors *= vectors_of_entry(shape)
        vectors *= 1 + pairs
        if kind in ("REMOTE", "HOST", "PARTIAL_HOST"):
            vectors = -(-vectors * 8 * shape.columns // shape.payload_bits)
        return shape.latency.store + vectors
    entries = fields["n_out"] * fields["n_in"] * (1 if op == "RQ" else fields["uops"])
    if kind in SLOW:
        entries *= -(-shape.rows // shape.multiply_lanes)
    if kind == "LOOKUP":
        return shape.latency.lookup + entries
    return (shape.latency.requantise if op == "RQ" else shape.latency.alu) + entries


def stores_pairs(kind: str, fields: Mapping[str, int], distance: int, shape: NpuShape) -> bool:
    """Return True if a STORE writes 16-bit results, high bytes `distance` after low bytes."""
    dual = shape.multiplier == "dual"
    return dual and distance > 0 and not kind.startswith("PARTIAL") and not fields["bits"]


def moved_bits(
    op: str, kind: str, fields: Mapping[str, int], shape: NpuShape, pairs: bool = False
) -> int:
    """Return the bits that an instruction moves from or to feature maps in external memory; 0 for a
    core with its own. Padding is generated in the core, and stores to others bypass the memory.

    pairs : for STORE, see `stores_pairs`
    """
    vector, f = 8 * shape.columns, fields
    if shape.map_vectors or kind in ("REMOTE", "HOST", "PARTIAL_HOST"):
        return 0
    if (op, kind) == ("LOAD", "WSTREAM"):
        return f["words"] * shape.rows * vector
    if op == "STORE" or kind in ("INP", "ACC8", "ACC32"):
        rows = f["y_size"] - f.get("pad_t", 0) - f.get("pad_b", 0)
        columns = f["x_size"] - f.get("pad_l", 0) - f.get("pad_r", 0)
        vectors = max(0, rows) * max(0, columns) * f["c_size"]
        each = vectors_of_entry(shape) if kind in ("ACC32", "PARTIAL") else 1
        return vectors * vector * each * (1 + 3 * f.get("up", 0)) * (1 + pairs)
    return f["vectors"] * vector if kind == "TABLE" else 0


def vectors_of_entry(shape: NpuShape) -> int:
    """Return the vectors of a whole accumulator in memory: four, or eight for 48 bits."""
    return 1 << (-(-shape.accumulator_bits // PART_BITS) - 1).bit_length()


def matrix_cycles(fields: Mapping[str, int], shape: NpuShape) -> int:
    """Return the cycles of one micro-op of the matrix unit.

    A product takes one cycle, or the load time of its weights where that is longer. The overhead
    of both loops is added.
    """
    enter = shape.rows if shape.weight_port == "row" else 1
    outer, inner = fields["n_out"], fields["n_in"]
    if not outer * inner:
        return 0
    loops = (outer + 1) * shape.loop_overhead
    if fields["wgt_in"]:
        return outer * inner * enter + loops
    if fields["wgt_out"]:
        return outer * max(inner, enter) + loops
    return max(outer * inner, enter) + loops


def _load(kind: str, fields: Mapping[str, int], shape: NpuShape, headers: Sequence[int]) -> int:
    if kind == "BIAS":
        return shape.latency.load + fields["n_out"] * fields["n_in"]
    if kind == "TABLE":
        return shape.latency.load + fields["vectors"]
    if kind == "WSTREAM":
        return shape.latency.stream
    if kind == "WIN":
        first, behind = fields["head"], fields["head"] + fields["packets"]
        if behind > len(headers):
            raise ChipError(
                f"LOAD.WIN: reads headers {first} to {behind - 1}, but only {len(headers)} exist"
            )
        unit = windows_of(fields, shape.filters, shape.columns)
        return shape.latency.load + cycles_of_windows(unit, tuple(headers[first:behind]))
    each = fields["c_size"] * (vectors_of_entry(shape) if kind == "ACC32" else 1)
    width, ports = fields["x_size"], shape.vectors_per_cycle
    if fields["x_stride"] == fields["c_size"] and not fields.get("wrap", 0):
        return shape.latency.load + fields["y_size"] * -(-width * each // ports)
    return shape.latency.load + fields["y_size"] * width * -(-each // ports)
