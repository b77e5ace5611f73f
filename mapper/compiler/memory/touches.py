"""What the instructions of an encoded program read and write.

Knows nothing of the compiler: instructions and micro-ops are decoded from the program's bytes, and
from those that it loads while it runs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from chipsim.chip.npu_shape import NpuShape
from hw.npu.isa import FORMS, MICRO_OP_BYTES, OPS, UNITS
from hw.npu.programs import decode_micro_ops, decode_program
from mapper.compiler.codegen.image import Image
from mapper.compiler.memory.window_touches import WORD_VECTORS, window_touches
from mapper.errors import CheckFailedError

Cells = NDArray[np.int64]
Fields = dict[str, int]
UNIT_OF = {"LOAD": 0, "GEMM": 1, "ALU": 2, "RQ": 2, "STORE": 3}
VECTORS_OF_WORD = 4  # 32-bit lanes, in vectors
LANES_OF_WORD = 16  # of parameters


TABLES = ("UM", "PM", "HM")
"""Memories that LOAD.TABLE fills, by number."""
WORD_BYTES = {"UM": MICRO_OP_BYTES, "PM": 64, "HM": 8}


class Instruction(NamedTuple):
    """A decoded instruction; reads and writes are (memory, places).

    drains : it ends a frame so
    table : it loads a small memory, with what must be as it was before the first frame
    """

    number: int
    name: str
    unit: int
    wait: int
    signal: int
    reads: list[tuple[str, Cells]]
    writes: list[tuple[str, Cells]]
    drains: bool
    table: bool


class Weights:
    """Words of the host on their way: there is one count of those that have arrived.

    static : words that stay, before all others
    """

    def __init__(self) -> None:
        self.static: int | None = None
        self.first = self.behind = 0  # of the last stream
        self.asked = -1  # by this instruction
        self.there = True  # a product that waits has taken its last word

    def ask(self, number: int, f: Fields, what: str) -> Cells:
        if self.static is None or f["dst"] < self.static:
            raise CheckFailedError(f"{what}: writes WM[{f['dst']}], which is static")
        if not self.there:
            raise CheckFailedError(
                f"{what}: asks for words while those of instruction {self.asked} are on their way"
            )
        self.first, self.behind, self.asked = f["dst"], f["dst"] + f["words"], number
        self.there = f["words"] == 0
        return np.arange(self.first, self.behind)

    def take(self, words: Cells, waits: bool, what: str) -> bool:
        """Words of a product; whether it is the one after which all have arrived."""
        ours = words[words >= self.static] if self.static is not None else words[:0]
        if not waits:
            early = ours[(ours >= self.first) & (ours < self.behind)]
            if early.size and not self.there:
                raise CheckFailedError(
                    f"{what}: reads WM[{early[0]}], which may be on its way, and does not wait"
                )
            return False
        if ours.size and int(ours.max()) >= self.behind:
            raise CheckFailedError(f"{what}: waits for WM[{int(ours.max())}], which never arrives")
        last = bool(ours.size) and int(ours.max()) == self.behind - 1
        self.there |= last
        return last


def instructions_of(image: Image, shape: NpuShape, where: str) -> Iterator[Instruction]:
    """The instructions of a program in order; raises `CheckFailedError` for weights that are not
    waited for."""
    micro_ops = np.zeros((shape.micro_ops, 6), np.int32)
    known = decode_micro_ops(image.micro_ops, where)
    micro_ops[: len(known)] = known[: shape.micro_ops]
    headers = [0] * shape.headers
    known_headers = np.frombuffer(image.headers, "<u8").tolist()[: shape.headers]
    headers[: len(known_headers)] = known_headers
    maps, weights = image.filled().tobytes(), Weights()
    bases = {"LOAD": 0, "STORE": 0}
    decoded = decode_program(image.instructions, where)
    forms = {
        (OPS[form.op], code): (form, kind)
        for form in FORMS
        for kind, (code, _) in form.kinds.items()
    }
    distances: dict[str, int] = {}  # of pairs, as the units were told last
    for number, (op, code) in enumerate(zip(decoded.op, decoded.kind, strict=True)):
        form, kind = forms[int(op), int(code)]
        names = [field.name for field in form.fields]
        fields = dict(zip(names, decoded.fields[number].tolist(), strict=False))
        unit = fields["queue"] if form.op == "CTRL" else UNIT_OF[form.op]
        if kind == "DIST" and image.info["shape"]["multiplier"] == "dual":
            queue = UNITS[fields["queue"]]
            distances |= {f"{queue}.{name}": value for name, value in fields.items()}
        what = f"{where}: instruction {number} ({form.op}.{kind})"
        if kind == "BASE" and fields["space"] == 2:
            weights.static = fields["value"]
        elif kind == "BASE":
            bases["LOAD" if fields["space"] == 0 else "STORE"] = fields["value"]
        address = {"LOAD": "src", "STORE": "dst"}.get(form.op, "")
        if address in fields:  # that of windows counts words
            fields[address] += bases[form.op] // (WORD_VECTORS if kind == "WIN" else 1)
        reads, writes = _touches(form.op, kind, fields, micro_ops, image.info["shape"])
        reads, writes = _with_pairs(form.op, kind, fields, distances, (reads, writes))
        if kind == "WSTREAM":
            writes = [("WM", weights.ask(number, fields, what)), ASKED]
        elif kind == "WIN":
            reads, writes = window_touches(fields, headers, shape, what)
        elif kind == "TABLE":
            reads, writes = _table(fields, micro_ops, headers, maps, shape, where)
        elif form.op == "GEMM":
            words = np.concatenate([cells.ravel() for memory, cells in reads if memory == "WM"])
            if weights.take(words, bool(fields["dyn"]), what):
                reads = [*reads, ASKED]
        yield Instruction(
            number, f"{form.op}.{kind}", unit, int(decoded.wait[number]),
            int(decoded.signal[number]), reads, writes, bool(fields.get("drain")), kind == "TABLE",
        )  # fmt: skip


ASKED: tuple[str, Cells] = ("WQ", np.zeros(1, np.int64))
"""The one stream that may be on its way: who asks for the next waits for who takes its end."""


def _table(
    f: Fields, micro_ops: NDArray[np.int32], headers: list[int], maps: bytes, shape: NpuShape,
    where: str,
) -> Touches:  # fmt: skip
    """A small memory filled; micro-ops and headers are known from here on."""
    memory, columns = TABLES[f["memory"]], shape.columns
    words = f["vectors"] * columns // WORD_BYTES[memory]
    places = np.arange(f["dst"], f["dst"] + words)
    if memory == "UM" and f["dst"] + words <= len(micro_ops):
        first = f["src"] * columns
        data = maps[first : first + words * MICRO_OP_BYTES].ljust(words * MICRO_OP_BYTES, b"\0")
        micro_ops[places] = decode_micro_ops(data, where)
    if memory == "HM" and f["dst"] + words <= len(headers):
        first = f["src"] * columns
        data = maps[first : first + 8 * words].ljust(8 * words, b"\0")
        headers[f["dst"] : f["dst"] + words] = np.frombuffer(data, "<u8").tolist()
    return [("FM", np.arange(f["src"], f["src"] + f["vectors"]))], [(memory, places)]


def _touches(
    op: str, kind: str, f: Fields, micro_ops: NDArray[np.int32], shape: Mapping[str, int]
) -> tuple[list[tuple[str, Cells]], list[tuple[str, Cells]]]:
    if op == "LOAD" and kind in ("INP", "ACC8", "ACC32"):
        rows = f["y_size"] - f["pad_t"] - f["pad_b"]
        columns = f["x_size"] - f["pad_l"] - f["pad_r"]
        each = VECTORS_OF_WORD if kind == "ACC32" else 1
        taken = _area(f["src"], f, rows, columns, each)
        made = np.arange(f["dst"], f["dst"] + f["c_size"] * f["y_size"] * f["x_size"])
        return [("FM", taken)], [("INP" if kind == "INP" else "ACC", made)]
    if op == "LOAD" and kind == "BIAS":
        return [("PM", np.arange(f["bm"], f["bm"] + f["n_out"]))], [
            ("ACC", _grid(f["dst"], f["n_out"], f["n_in"], f["dst_out"], f["dst_in"]))
        ]
    if op in ("GEMM", "ALU"):
        ops = micro_ops[f["uop"] : f["uop"] + f["uops"]]
        if len(ops) < f["uops"]:
            return [("UM", np.arange(f["uop"], f["uop"] + f["uops"]))], []
        reads, writes = _gemm(f, ops) if op == "GEMM" else _alu(kind, f, ops)
        return [*reads, ("UM", np.arange(f["uop"], f["uop"] + f["uops"]))], writes
    if op == "RQ" and kind == "THRESHOLD":
        return _threshold(f, shape)
    if op == "RQ":
        made = _grid(f["dst"], f["n_out"], f["n_in"], f["dst_out"], f["dst_in"])
        writes = [("OUT", made)] if f["out"] else []
        return [("ACC", made), ("PM", np.arange(f["rec"], f["rec"] + 1 + f["n_out"]))], [
            ("ACC", made), *writes,
        ]  # fmt: skip
    if op == "STORE" and kind in ("LOCAL", "REMOTE", "HOST"):
        taken = np.arange(f["src"], f["src"] + f["c_size"] * f["y_size"] * f["x_size"])
        scale = 1 + f["up"]
        made = _area(f["dst"], f, f["y_size"] * scale, f["x_size"] * scale, 1)
        return [("OUT", taken)], [("FM", made)] if kind == "LOCAL" else []
    if op == "STORE":  # PARTIAL
        taken = np.arange(f["src"], f["src"] + f["c_size"] * f["y_size"] * f["x_size"])
        made = _area(f["dst"], f, f["y_size"], f["x_size"], VECTORS_OF_WORD)
        return [("ACC", taken)], [("FM", made)]
    return [], []


Touches = tuple[list[tuple[str, Cells]], list[tuple[str, Cells]]]


def _with_pairs(
    op: str, kind: str, f: Fields, distances: Mapping[str, int], touches: Touches
) -> Touches:
    """What dual cores read and write besides: high bytes, second pixels, accumulators and words."""
    far = {}
    if op == "LOAD" and kind in ("INP", "ACC8"):
        far["FM"] = distances.get("LOAD.src", 0)
    elif op == "STORE" and kind == "LOCAL" and not f["bits"]:
        far["FM"] = distances.get("STORE.src", 0)
    elif kind in ("DUAL_PIXEL", "DUAL_KERNEL"):
        far["ACC"] = distances.get("GEMM.acc", 0)
        far["WM"] = distances.get("GEMM.wgt", 0) if kind == "DUAL_KERNEL" else 0
    elif kind == "INT16":
        far["WM"] = 1
    reads, writes = (
        [(memory, _paired(cells, far.get(memory, 0))) for memory, cells in some] for some in touches
    )
    return reads, writes


def _paired(cells: Cells, distance: int) -> Cells:
    return np.concatenate([cells, cells + distance]) if distance else cells


def _threshold(
    f: Fields, shape: Mapping[str, int]
) -> tuple[list[tuple[str, Cells]], list[tuple[str, Cells]]]:
    """Bits of blocks go to their vectors, of which each holds those of several blocks."""
    taken = _grid(f["dst"], f["n_out"], f["n_in"], f["dst_out"], f["dst_in"])
    vectors = (f["block"] + np.arange(f["n_out"])) // (8 * shape["columns"] // shape["rows"])
    made = f["bits"] + vectors[:, None] * f["n_in"] + np.arange(f["n_in"])
    words = 1 + 2 * f["n_out"] * -(-shape["rows"] // LANES_OF_WORD)
    reads = [("ACC", taken), ("PM", np.arange(f["rec"], f["rec"] + words))]
    return reads, [("OUT", np.unique(made).astype(np.int64))]


def _gemm(
    f: Fields, ops: NDArray[np.int32]
) -> tuple[list[tuple[str, Cells]], list[tuple[str, Cells]]]:
    first = ops[:, 5] != 0  # of an accumulator: it is initialised, and not read before
    entries = _grids(ops[:, 0], f, "acc")
    inputs = _grids(ops[:, 1], f, "inp")
    words = _grids(ops[:, 2], f, "wgt")
    begun = np.unique(entries[first & (f["init"] != 0)])
    reads = [("INP", np.unique(inputs)), ("WM", np.unique(words))]
    reads.append(("ACC", np.setdiff1d(entries, begun)))
    if f["init"] == 2:
        reads.append(("PM", np.unique(f["bm"] + ops[first, 4]).astype(np.int64)))
    return reads, [("ACC", np.unique(entries))]


def _alu(
    kind: str, f: Fields, ops: NDArray[np.int32]
) -> tuple[list[tuple[str, Cells]], list[tuple[str, Cells]]]:
    made = np.unique(_grids(ops[:, 0], f, "dst"))
    reads = []
    if f["source"] == 1 or kind == "MAC2":
        reads.append(("ACC", np.unique(_grids(ops[:, 1], f, "src"))))
    if f["source"] == 2:
        reads.append(("PM", np.unique(_grids(ops[:, 1], f, "src"))))
    if kind != "MOV":
        reads.append(("ACC", made))
    if kind in ("RMUL", "MAC2"):
        reads.append(("PM", np.arange(f["rec"], f["rec"] + 1 + (kind == "RMUL"))))
    return reads, [("ACC", made)] + ([("OUT", made)] if f["out"] else [])


def _area(first: int, f: Fields, rows: int, columns: int, each: int) -> Cells:
    found = (
        first
        + np.arange(rows)[:, None, None] * f["y_stride"]
        + np.arange(columns)[None, :, None] * f["x_stride"]
        + np.arange(f["c_size"] * each)
    )
    return found.ravel().astype(np.int64)


def _grid(first: int, outer: int, inner: int, step: int, pace: int) -> Cells:
    found = first + np.arange(outer)[:, None] * step + np.arange(inner) * pace
    return found.ravel().astype(np.int64)


def _grids(firsts: NDArray[np.int32], f: Fields, name: str) -> Cells:
    """Places of every micro-op, shape (micro-ops, n_out * n_in)."""
    steps = _grid(0, f["n_out"], f["n_in"], f[f"{name}_out"], f[f"{name}_in"])
    return firsts.astype(np.int64)[:, None] + steps
