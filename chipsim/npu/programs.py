"""Check the programs of all cores of a chip and convert them to the arrays of the kernels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from chipsim.chip.npu_shape import NpuShape
from chipsim.errors import ChipError
from chipsim.npu import state as s
from chipsim.npu.records import (
    FIELDS,
    KINDS,
    MOST_FIELDS,
    PARAMETER_LANES,
    STREAMS,
    Op,
    Program,
)

Place = tuple[int, int]
"""Column and row of a core."""
_SIGNED = ("value", "imm")
TABLES = ("micro_ops", "parameters", "headers", "weights", "bits")
"""Arrays of the code that instructions may write."""


def instruction_name(op: int, kind: int) -> str:
    if (op, kind) not in FIELDS:
        return f"op {op}, kind {kind}"
    return f"{Op(op).name}.{KINDS[Op(op)][kind]}"


def check_program(shape: NpuShape, place: Place, program: Program) -> None:
    """Check the shapes of the arrays and the ranges of the fields."""
    what = f"core ({place[0]}, {place[1]})"
    if not all(0 <= each < 256 for each in place):
        raise ChipError(f"{what}: coordinates must be from 0 to 255")
    rows, count = shape.rows, len(program.op)
    wanted = {
        "kind": (count,),
        "fields": (count, MOST_FIELDS),
        "micro_ops": (shape.micro_ops, 6),
        "weights": (shape.weight_words, rows, rows),
        "parameters": (shape.parameter_words, PARAMETER_LANES),
        "maps": (shape.map_vectors or len(program.maps), rows),
        "headers": (shape.headers,),
    }
    for name, size in wanted.items():
        found = getattr(program, name).shape
        if found[1:] != size[1:] or len(found) != len(size) or found[0] > size[0]:
            raise ChipError(f"{what}: {name} of shape {found}; npu {shape.name} has {size}")
    if len(program.micro_ops) and program.micro_ops.min() < 0:
        raise ChipError(f"{what}: a micro-op has a negative field")
    for (op, kind), names in FIELDS.items():
        mine = np.flatnonzero((program.op == op) & (program.kind == kind))
        for column, name in enumerate(names):
            values = program.fields[mine, column]
            most = {"stream": STREAMS - 1, "x": 255, "y": 255, "pp": 15}.get(name, (1 << 32) - 1)
            least = -(1 << 15) if name in _SIGNED else 0
            wrong = np.flatnonzero((values < least) | (values > most))
            if wrong.size:
                where = f"instruction {mine[wrong[0]]} ({instruction_name(op, kind)})"
                raise ChipError(
                    f"{what}: {where}: {name} is {values[wrong[0]]:,}; give {least:,} to {most:,}"
                )


def merge(
    shape: NpuShape, programs: Mapping[Place, Program], host_weights: NDArray[np.int8]
) -> s.Code:
    """Return programs and tables of all cores in the layouts of the kernels."""
    rows, cores = shape.rows, len(programs)
    lanes = -(-rows // s.LANES) * s.LANES
    whole = list(programs.values())
    op = np.concatenate([np.zeros(0, np.uint8), *(one.op for one in whole)])
    kind = np.concatenate([np.zeros(0, np.uint8), *(one.kind for one in whole)])
    binary = bool(((op == Op.GEMM) & (kind == 1)).any())
    code = s.Code(
        sizes=np.zeros(s.SIZES, np.int64),
        start=np.cumsum([0, *(len(one.op) for one in whole)]),
        op=op,
        kind=kind,
        fields=np.concatenate(
            [np.zeros((0, MOST_FIELDS), np.int64), *(one.fields for one in whole)]
        ),
        micro_ops=np.zeros((cores, shape.micro_ops, 6), np.int32),
        parameters=np.zeros((cores, shape.parameter_words, PARAMETER_LANES), np.int32),
        headers=np.zeros((cores, shape.headers), np.int64),
        weights=np.zeros((cores, shape.weight_words, -(-rows // 4) * 4, lanes), np.int16),
        bits=np.zeros(
            (cores, shape.weight_words if binary else 0, -(-rows // 8), lanes), np.uint64
        ),
        # copied: memory-mapped arrays are read-only, a different type that would recompile all
        # kernels
        host_weights=np.require(host_weights, np.int8, ["C", "W"]),
        node=np.full(1 << 16, -1, np.int32),
    )
    code.sizes[s.ROWS] = code.sizes[s.COLUMNS] = rows
    code.sizes[s.WORDS] = -(-rows // PARAMETER_LANES)
    code.sizes[s.DUAL] = shape.multiplier == "dual"
    code.sizes[s.BINARY] = shape.binary
    code.sizes[s.FILTERS] = shape.filters
    code.sizes[s.ACC_BITS] = shape.accumulator_bits
    for number, ((x, y), one) in enumerate(programs.items()):
        code.node[256 * y + x] = number
        code.micro_ops[number, : len(one.micro_ops)] = one.micro_ops
        code.parameters[number, : len(one.parameters)] = one.parameters
        code.headers[number, : len(one.headers)] = one.headers.astype(np.uint64).view(np.int64)
        words = len(one.weights)
        code.weights[number, :words, :rows, :rows] = one.weights.transpose(0, 2, 1)
        if binary:
            eights = np.zeros((words, rows, code.bits.shape[2] * 8), np.uint8)
            eights[:, :, :rows] = one.weights.view(np.uint8)
            code.bits[number, :words, :, :rows] = eights.view("<u8").transpose(0, 2, 1)
    return code


def initial_maps(shape: NpuShape, programs: Mapping[Place, Program]) -> NDArray[np.int8]:
    vectors = shape.map_vectors or max((len(one.maps) for one in programs.values()), default=0)
    maps = np.zeros((len(programs), vectors, shape.columns), np.int8)
    for number, one in enumerate(programs.values()):
        maps[number, : len(one.maps)] = one.maps.view(np.int8)
    return maps


def writes_tables(code: s.Code) -> bool:
    return bool(((code.op == Op.LOAD) & (code.kind >= 5)).any())


def host_vectors(code: s.Code) -> int:
    """Return the maximum number of vectors that the host receives per frame."""
    return _stored_vectors(code, ("HOST", "PARTIAL_HOST"))


def map_vectors(code: s.Code) -> int:
    """Return the maximum number of vectors that cores store to feature memories per frame."""
    return _stored_vectors(code, ("LOCAL", "REMOTE", "PARTIAL"))


def _stored_vectors(code: s.Code, kinds: Sequence[str]) -> int:
    """Return the maximum number of vectors that stores of some kinds write per frame."""
    numbers = [KINDS[Op.STORE].index(kind) for kind in kinds]
    chosen = (code.op == Op.STORE) & np.isin(code.kind, numbers)
    sums = [KINDS[Op.STORE].index(kind) for kind in ("PARTIAL", "PARTIAL_HOST")]
    f, whole = code.fields[chosen], np.isin(code.kind[chosen], sums)
    each = np.where(whole, 8 if code.sizes[s.DUAL] else 4, 1 + code.sizes[s.DUAL])
    return int((f[:, 2] * f[:, 3] * f[:, 4] * (1 + 3 * f[:, 7]) * each).sum())


def largest_store(code: s.Code) -> int:
    """Return the vectors of the largest store to another core."""
    f = code.fields[(code.op == Op.STORE) & (code.kind == KINDS[Op.STORE].index("REMOTE"))]
    vectors = f[:, 2] * f[:, 3] * f[:, 4] * (1 + 3 * f[:, 7]) * (1 + code.sizes[s.DUAL])
    return int(vectors.max(initial=0))
