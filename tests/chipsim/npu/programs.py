"""Random programs of one NPU core, with their initial memories."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from chipsim.chip.npu_shape import NPU_SHAPES, NpuShape
from chipsim.npu.records import FIELDS, KINDS, MOST_FIELDS, Op, Program
from tests.reference.npu import Step, Twin

CODES = {
    (op.name, kind): (int(op), code)
    for op, kinds in KINDS.items()
    for code, kind in enumerate(kinds)
}

SHAPES: dict[str, NpuShape] = {
    "tiny": replace(NPU_SHAPES["tiny"], entries=64, map_vectors=256, parameter_words=32),
    "tiny-dual": replace(
        NPU_SHAPES["tiny"], multiplier="dual", entries=64, map_vectors=256, parameter_words=32
    ),
    "16x16": replace(
        NPU_SHAPES["npu"], name="16x16", map_vectors=128, input_vectors=64, weight_words=16,
        entries=64, parameter_words=32, micro_ops=64, headers=16,
    ),
    "32x32": replace(
        NPU_SHAPES["npu-dual"], name="32x32", rows=32, columns=32, map_vectors=128,
        input_vectors=64, weight_words=8, entries=64, parameter_words=64, micro_ops=64, headers=16,
    ),
}  # fmt: skip


WILD = (
    "dst", "src", "c_size", "x_size", "y_size", "x_stride", "y_stride", "uop", "n_out", "n_in",
    "acc_out", "acc_in", "inp_out", "wgt_out", "dst_out", "src_out", "rec", "bm", "block", "host",
    "words", "vectors", "acc", "wgt",
)  # fmt: skip
"""Fields that lead outside a memory when they are large."""


@dataclass
class Case:
    """Steps and tables, from which both `program` and `twin` are built."""

    shape: NpuShape
    steps: list[Step]
    table: dict[str, np.ndarray[Any, np.dtype[Any]]]

    def program(self) -> Program:
        return program_of(self.steps, **self.table)

    def twin(self) -> Twin:
        shape = self.shape
        sizes = {
            "filters": shape.filters,
            "maps": shape.map_vectors,
            "inputs": shape.input_vectors,
            "entries": shape.entries,
        }
        table = {name: values.tolist() for name, values in self.table.items()}
        table["host_weights"] = host_words(shape).tolist()
        twin = Twin(shape.rows, shape.multiplier == "dual", sizes, table)
        for at, vector in enumerate(self.table["maps"].view(np.int8).tolist()):
            twin.maps[at] = vector
        return twin


def host_words(shape: NpuShape) -> np.ndarray[Any, np.dtype[np.int8]]:
    words = np.random.default_rng(7).integers(-128, 128, (4, shape.rows, shape.rows))
    return words.astype(np.int8)


def program_of(
    steps: Sequence[Step],
    micro_ops: Any = (),
    weights: Any = None,
    parameters: Any = (),
    maps: Any = None,
    headers: Any = (),
    rows: int = 4,
) -> Program:
    """Return the arrays of a program; missing tables are empty."""
    count = len(steps)
    codes = [CODES[op, kind] for op, kind, _ in steps]
    fields = np.zeros((count, MOST_FIELDS), np.int64)
    for number, (code, (_, _, values)) in enumerate(zip(codes, steps, strict=True)):
        for name, value in values.items():
            fields[number, FIELDS[code].index(name)] = value
    both = np.array(codes, np.uint8).reshape(-1, 2)
    none = np.zeros(count, np.uint8)
    return Program(
        both[:, 0], both[:, 1], none, none, fields,
        np.array(micro_ops, np.int32).reshape(-1, 6),
        np.zeros((0, rows, rows), np.int8) if weights is None else weights,
        np.array(parameters, np.int32).reshape(-1, 16),
        np.zeros((0, rows), np.uint8) if maps is None else maps,
        np.array(headers, np.uint64),
    )  # fmt: skip


def random_case(shape: NpuShape, seed: int, length: int, wild: bool) -> Case:
    """wild : some addresses are arbitrary; otherwise all are inside the memories"""
    rng = np.random.default_rng(seed)
    rows = shape.rows

    def below(most: int) -> int:
        return int(rng.integers(most))

    micro_ops = np.stack(
        [
            rng.integers(shape.entries // 2, size=shape.micro_ops),
            rng.integers(min(shape.input_vectors, shape.entries) // 2, size=shape.micro_ops),
            rng.integers(shape.weight_words // 2, size=shape.micro_ops),
            rng.integers(min(rows, 16), size=shape.micro_ops),
            rng.integers(4, size=shape.micro_ops),
            rng.integers(2, size=shape.micro_ops),
        ],
        axis=1,
    ).astype(np.int32)
    parameters = rng.integers(-(1 << 31), 1 << 31, (shape.parameter_words, 16))
    parameters >>= rng.integers(31, size=parameters.shape)
    # scale words: large multipliers with shifts that leave nonzero results
    scales = rng.integers(-(1 << 24), 1 << 24, parameters.shape) << 6
    scales |= rng.integers(64, size=parameters.shape) & rng.choice([3, 63], parameters.shape)
    parameters = np.where(rng.integers(2, size=parameters.shape) == 1, scales, parameters)
    table = {
        "micro_ops": micro_ops,
        "parameters": parameters.astype(np.int32),
        "weights": rng.integers(-128, 128, (shape.weight_words, rows, rows)).astype(np.int8),
        "maps": rng.integers(256, size=(shape.map_vectors, rows)).astype(np.uint8),
        "headers": np.zeros(shape.headers, np.uint64),
    }
    steps: list[Step] = []
    while len(steps) < length:
        steps += _random_steps(shape, rng, below, table)
    if wild:
        at = below(len(steps))
        op, kind, fields = steps[at]
        names = [name for name in fields if name in WILD]
        if names and (op, kind) != ("LOAD", "WIN"):
            name = names[below(len(names))]
            steps[at] = op, kind, {**fields, name: below(1 << (1 + below(7)))}
    return Case(shape, steps, table)


def _random_steps(shape: NpuShape, rng: Any, below: Any, table: Any) -> Iterable[Step]:
    """Return one instruction with its required predecessors."""
    op = ("CTRL", "LOAD", "LOAD", "GEMM", "GEMM", "ALU", "ALU", "RQ", "STORE")[below(9)]
    area = {
        "c_size": 1 + below(2), "x_size": below(4), "y_size": 1 + below(3),
        "x_stride": below(4), "y_stride": below(9), "pp": below(3), "wrap": below(3),
    }  # fmt: skip

    def some(most: int) -> int:
        return 1 + below(most) if below(12) else 0

    loops = {"uop": below(shape.micro_ops - 4), "uops": some(3)}
    steps = {"n_out": some(3), "n_in": some(4)}
    if op == "CTRL":
        if below(2):
            space = below(2)
            return [(op, "BASE", {"queue": (0, 3)[space], "space": space, "value": below(9)})]
        far = {name: below(5) for name in ("inp", "acc", "wgt", "src")}
        return [(op, "DIST", {"queue": (0, 1, 3)[below(3)], **far})]
    if op == "LOAD":
        kind = KINDS[Op.LOAD][below(7)]
        load: Step = (op, kind, _random_load(kind, shape, rng, below, table, steps, area))
        if shape.multiplier == "dual" and kind in ("INP", "ACC8") and below(2):
            return [("CTRL", "DIST", {"queue": 0, "src": below(5)}), load]
        return [load]
    if op == "GEMM":
        kinds = KINDS[Op.GEMM]
        dual = shape.multiplier == "dual"
        kind = kinds[below(6)] if dual else ("INT8", "BINARY", "DEPTHWISE")[below(3)]
        if kind == "BINARY" and not shape.binary:
            kind = "INT8"
        far = {
            "acc_out": below(4), "acc_in": below(3), "inp_out": below(4), "inp_in": below(3),
            "wgt_out": 0, "wgt_in": 0, "init": below(3), "bm": below(8),
        }  # fmt: skip
        far["wgt_in"] = below(2) if shape.weight_words > 16 else 0
        far["wgt_out"] = below(2) if shape.weight_words > 16 else 0
        dist = {"inp": 0, "acc": 1 + below(4), "wgt": below(2), "src": 0}
        before: list[Step] = [("CTRL", "DIST", {"queue": 1, **dist})] if dual else []
        return [*before, (op, kind, {**loops, **steps, **far})]
    if op == "ALU":
        kind = KINDS[Op.ALU][below(9)]
        far = {
            "dst_out": below(4), "dst_in": below(3), "src_out": below(4), "src_in": below(3),
            "source": below(3), "imm": int(rng.integers(-(1 << 15), 1 << 15)),
            "round": below(4), "rec": below(16), "out": below(2),
        }  # fmt: skip
        if kind in ("RSHR", "SHL") and below(2):
            far["imm"] = 1 + below(3)  # so that exact halves are common
        if kind in ("RMUL", "MAC2", "MUL"):
            far |= _apart(below, steps)
        if far["source"] == 2 and kind in KINDS[Op.ALU][:4]:
            table["micro_ops"][loops["uop"] : loops["uop"] + loops["uops"], 1] %= 8
            far["src_out"] = far["src_in"] = 1
        return [(op, kind, {**loops, **steps, **far})]
    if op == "RQ":
        kinds = [kind for kind in KINDS[Op.RQ] if shape.binary or kind != "THRESHOLD"]
        kind = kinds[below(len(kinds))]
        rec = below(6)
        head = table["parameters"][rec]
        head[3] &= (3, 31)[below(2)]
        low, high = sorted((int(head[1]), int(head[2])))
        head[1], head[2] = low, high
        far = {"dst": below(16), "rec": rec, **_apart(below, steps)}
        more = {"bits": below(16), "block": below(20)} if kind == "THRESHOLD" else {"out": below(2)}
        if kind == "LOOKUP":
            words = 8 if shape.multiplier == "dual" else 4
            more["table"] = below(shape.parameter_words - words + 1)
        return [(op, kind, {**steps, **far, **more})]
    kind = ("LOCAL", "HOST", "PARTIAL", "PARTIAL_HOST")[below(4)]
    more = {"up": below(2), "bits": below(2)}
    return [(op, kind, {"src": below(30), "dst": below(32), **area, **more})]


def _random_load(
    kind: str, shape: NpuShape, rng: Any, below: Any, table: Any,
    steps: dict[str, int], area: dict[str, int],
) -> dict[str, int]:  # fmt: skip
    """Return the fields of a load."""
    if kind == "BIAS":
        far = {"dst_out": below(6), "dst_in": below(3)}
        return {"dst": below(16), "bm": below(8), **steps, **far}
    if kind == "WIN":
        return _random_windows(shape, below, table)
    if kind == "WSTREAM":
        dst = shape.weight_words // 2 + below(2)
        return {"dst": dst, "words": below(3), "host": below(2)}
    if kind == "TABLE":
        # only parameters: micro-ops from random bytes would address outside the memories
        vectors = below(max(2, 200 // shape.columns))
        return {"dst": below(8), "src": below(16), "vectors": vectors, "memory": 1}
    pads = {name: below(2) for name in ("pad_t", "pad_b", "pad_l", "pad_r")}
    value = int(rng.integers(-(1 << 15), 1 << 15))
    where = {"dst": below(30), "src": below(32)}
    return {**where, **area, **pads, "value": value}


def _apart(below: Any, steps: dict[str, int]) -> dict[str, int]:
    """Return strides for which every entry differs from the two previous steps' entries."""
    inner = 1 + below(2)
    last = (steps["n_in"] - 1) * inner
    outer = [stride for stride in range(1, 8) if stride not in (last, last - inner)]
    return {"dst_in": inner, "dst_out": outer[below(5)]}


def _random_windows(shape: NpuShape, below: Any, table: Any) -> dict[str, int]:
    """Return windows of a small map, with headers that cover the whole map."""
    width, height = 2 + below(4), 2 + below(4)
    f = {
        "dst": below(4), "src": below(2), "head": below(3), "packets": 1 + below(2),
        "width": width, "height": height, "kh": 1 + below(2), "kw": 1 + below(2),
        "sh": 1 + below(2), "sw": 1 + below(2), "pad_t": below(2), "pad_l": below(2),
        "columns": 1 + below(3), "groups": 1 + below(2), "value": below(256) - 128,
        "pp": below(3),
    }  # fmt: skip
    words = -(-width * height // (2 * shape.columns))
    x = y = 0
    for packet in range(f["packets"]):
        table["headers"][f["head"] + packet] = words << 16 | x << 32 | y << 48
        for _ in range(shape.filters):
            x += f["sw"]
            if x >= f["columns"] * f["sw"]:
                x, y = 0, y + f["sh"]
    return f
