"""Memory accesses of the instructions of an encoded program.

Independent of the compiler: instructions and micro-ops are decoded from the program's bytes, and
from tables that it loads while it runs.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from chipsim.chip.npu_shape import NpuShape
from chipsim.npu.timing import vectors_of_entry
from hw.npu.isa.encoding import decode_program
from hw.npu.isa.table import FORMS, OPS, UNITS
from mapper.compiler.artifacts.checks.areas import Areas, MapPlace
from mapper.compiler.artifacts.checks.small import TABLES, SmallMemories
from mapper.compiler.artifacts.checks.window_touches import WORD_VECTORS, window_touches
from mapper.compiler.program.image import Image
from mapper.errors import CheckFailedError

Cells = NDArray[np.int64]
Fields = dict[str, int]
Touches = tuple[list[tuple[str, Cells]], list[tuple[str, Cells]]]
UNIT_OF = {"LOAD": 0, "GEMM": 1, "ALU": 2, "RQ": 2, "STORE": 3}


class Instruction(NamedTuple):
    """A decoded instruction; reads and writes are (memory, places).

    drains : it ends a frame with all units idle
    table : it loads a small memory from vectors that must not change after the first frame
    fields : fields, with the base of the unit added to addresses
    sends : vectors of another core or of the host that it writes, in order, shape (count, slots)
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
    fields: Fields
    sends: Cells


class Weights:
    """State of weights streamed from the host; there is a single arrival counter.

    static : number of static words, which precede all others
    """

    def __init__(self) -> None:
        self.static: int | None = None
        self.first = self.stop = 0  # words of the last stream
        self.asked = -1  # instruction that requested it
        self.there = True  # a waiting product has used its last word

    def ask(self, number: int, f: Fields, what: str) -> Cells:
        if self.static is None or f["dst"] < self.static:
            raise CheckFailedError(f"{what}: writes WM[{f['dst']}], which is static")
        if not self.there:
            raise CheckFailedError(
                f"{what}: requests words before the words of instruction {self.asked} arrive"
            )
        self.first, self.stop, self.asked = f["dst"], f["dst"] + f["words"], number
        self.there = f["words"] == 0
        return np.arange(self.first, self.stop)

    def take(self, words: Cells, waits: bool, what: str) -> bool:
        """Check the words of a product; return whether all words have arrived after it."""
        ours = words[words >= (self.static or 0)] if waits or self.static is not None else words[:0]
        if not waits:
            early = ours[(ours >= self.first) & (ours < self.stop)]
            if early.size and not self.there:
                raise CheckFailedError(
                    f"{what}: reads WM[{early[0]}] without waiting, but it may be in transit"
                )
            return False
        if ours.size and int(ours.max()) >= self.stop:
            raise CheckFailedError(f"{what}: waits for WM[{int(ours.max())}], which never arrives")
        last = bool(ours.size) and int(ours.max()) == self.stop - 1
        self.there |= last
        return last


def instructions_of(
    image: Image, shape: NpuShape, where: str, maps: Sequence[MapPlace] = ()
) -> Iterator[Instruction]:
    """Yield the instructions of a program in order.

    maps : feature maps that loads may read; empty if unknown
    Raises `CheckFailedError` for weights used without waiting, for sums that no layer has, and for
    loads outside feature maps.
    """
    areas = Areas(maps)
    small, weights = SmallMemories(image, shape, where), Weights()
    bases = {"LOAD": 0, "STORE": 0}
    decoded = decode_program(image.instructions, where)
    forms = {
        (OPS[form.op], code): (form, kind)
        for form in FORMS
        for kind, (code, _) in form.kinds.items()
    }
    known: dict[Hashable, Touches] = {}
    distances: dict[str, int] = {}  # current distances of pairs, by unit
    for number, (op, code) in enumerate(zip(decoded.op, decoded.kind, strict=True)):
        form, kind = forms[int(op), int(code)]
        names = [field.name for field in form.fields]
        fields = dict(zip(names, decoded.fields[number].tolist(), strict=False))
        unit = fields["queue"] if form.op == "CTRL" else UNIT_OF[form.op]
        if kind == "DIST" and shape.multiplier == "dual":
            queue = UNITS[fields["queue"]]
            distances |= {f"{queue}.{name}": value for name, value in fields.items()}
            distances.pop(f"{queue}.queue")
        what = f"{where}: instruction {number} ({form.op}.{kind})"
        if kind == "BASE" and fields["space"] == 2:
            weights.static = fields["value"]
        elif kind == "BASE":
            bases["LOAD" if fields["space"] == 0 else "STORE"] = fields["value"]
        elif kind == "END" and any((bases | distances).values()):
            raise CheckFailedError(f"{what}: the next frame would start with other base addresses")
        address = {"LOAD": "src", "STORE": "dst"}.get(form.op, "")
        if address in fields:  # addresses of window loads are in words
            fields[address] += bases[form.op] // (WORD_VECTORS if kind == "WIN" else 1)
        if kind in AREAS and all(fields[name] for name in COUNTS if name in fields):
            areas.require(fields, vectors_of_entry(shape) if kind == "ACC32" else 1, what)
        key = form.op, kind, *fields.values(), small.said(form.op, kind, fields)
        if key not in known:  # instructions repeat for every tile and stream
            if form.op == "GEMM":
                require_sums(fields, small.ops(fields), what)
            known[key] = _touches(form.op, kind, fields, small)
        reads, writes = known[key]
        reads, writes = _with_pairs(form.op, kind, fields, distances, (reads, writes))
        reads, writes = _in_slots(fields.get("pp", 0), (reads, writes))
        if kind == "WSTREAM":
            writes = [("WM", weights.ask(number, fields, what)), ASKED]
        elif kind == "WIN":
            reads, writes = _in_slots(
                fields["pp"], window_touches(fields, small.headers, shape, what)
            )
        elif kind == "TABLE":
            memory = TABLES[fields["memory"]]
            source, vectors = fields["src"], fields["vectors"]
            writes = [(memory, small.load(memory, fields["dst"], source, vectors))]
            reads = [("FM", np.arange(source, source + vectors))]
        elif form.op == "GEMM":
            some = [cells.ravel() for memory, cells in reads if memory == "WM"]
            words = np.concatenate([np.zeros(0, np.int64), *some])
            if weights.take(words, bool(fields["dyn"]), what):
                reads = [*reads, ASKED]
        yield Instruction(
            number, f"{form.op}.{kind}", unit, int(decoded.wait[number]),
            int(decoded.signal[number]), reads, writes, bool(fields.get("drain")), kind == "TABLE",
            fields, _sends(form.op, kind, fields, distances.get("STORE.src", 0), shape),
        )  # fmt: skip


ASKED: tuple[str, Cells] = ("WQ", np.zeros(1, np.int64))
"""The single stream in transit: a request for the next one must wait for its last reader."""


def _touches(op: str, kind: str, f: Fields, small: SmallMemories) -> Touches:
    if not all(f.get(name, 1) for name in COUNTS):
        return [], []
    shape = small.shape
    if op == "LOAD" and kind in AREAS:
        rows = f["y_size"] - f["pad_t"] - f["pad_b"]
        columns = f["x_size"] - f["pad_l"] - f["pad_r"]
        each = vectors_of_entry(shape) if kind == "ACC32" else 1
        taken = _area(f["src"], f, rows, columns, each)
        made = np.arange(f["dst"], f["dst"] + f["c_size"] * f["y_size"] * f["x_size"])
        return [("FM", taken)], [("INP" if kind == "INP" else "ACC", made)]
    if op == "LOAD" and kind == "BIAS":
        return [("PM", np.arange(f["bm"], f["bm"] + f["n_out"] * small.each))], [
            ("ACC", _grid(f["dst"], f["n_out"], f["n_in"], f["dst_out"], f["dst_in"]))
        ]
    if op in ("GEMM", "ALU"):
        ops = small.ops(f)
        if len(ops) < f["uops"]:
            return [("UM", np.arange(f["uop"], f["uop"] + f["uops"]))], []
        make = _gemm if op == "GEMM" else _alu
        reads, writes = make(kind, f, ops, small.each)
        return [*reads, ("UM", np.arange(f["uop"], f["uop"] + f["uops"]))], writes
    if op == "RQ" and kind == "THRESHOLD":
        return _threshold(f, small)
    if op == "RQ":
        made = _grid(f["dst"], f["n_out"], f["n_in"], f["dst_out"], f["dst_in"])
        writes = [("OUT", made)] if f["out"] else []
        words = np.arange(f["rec"], f["rec"] + small.record_words(f["rec"], f["n_out"]))
        reads = [("ACC", made), ("PM", words)]
        if kind == "LOOKUP":
            reads.append(("PM", np.arange(f["table"], f["table"] + small.table_words)))
        return reads, [("ACC", made), *writes]
    if op == "STORE" and kind in ("LOCAL", "REMOTE", "HOST"):
        taken = np.arange(f["src"], f["src"] + f["c_size"] * f["y_size"] * f["x_size"])
        scale = 1 + f["up"]
        made = _area(f["dst"], f, f["y_size"] * scale, f["x_size"] * scale, 1)
        return [("OUT", taken)], [("FM", made)] if kind == "LOCAL" else []
    if op == "STORE":  # PARTIAL, PARTIAL_HOST
        taken = np.arange(f["src"], f["src"] + f["c_size"] * f["y_size"] * f["x_size"])
        made = _area(f["dst"], f, f["y_size"], f["x_size"], vectors_of_entry(shape))
        return [("ACC", taken)], [("FM", made)] if kind == "PARTIAL" else []
    return [], []


def _sends(op: str, kind: str, f: Fields, high: int, shape: NpuShape) -> Cells:
    """Return the vectors that a store sends to another core or to the host, in order.

    high : distance of the high bytes of 16 bits
    """
    if op == "STORE" and kind == "PARTIAL_HOST":
        return _area(f["dst"], f, f["y_size"], f["x_size"], vectors_of_entry(shape))[:, None]
    if op != "STORE" or kind not in ("REMOTE", "HOST"):
        return np.zeros((0, 1), np.int64)
    scale = 1 + f["up"]
    parts = np.array([0, high]) if high and not f["bits"] else np.zeros(1, np.int64)
    blocks = np.arange(f["c_size"])[:, None, None, None, None, None]
    rows = np.arange(f["y_size"])[:, None, None, None, None] * scale
    columns = np.arange(f["x_size"])[:, None, None, None] * scale
    below, right = np.arange(scale)[:, None], np.arange(scale)
    found = (rows + below) * f["y_stride"] + _columns(f, columns + right) + blocks
    cells = np.asarray(f["dst"] + found + parts[:, None, None], np.int64).ravel()
    return in_slots(cells, f["pp"])


def in_slots(cells: Cells, pp: int) -> Cells:
    """Return the vectors of even frames, and of odd frames if there are two slots, shape (count,
    slots)."""
    return np.stack([cells, cells + (1 << pp + 2)], 1) if pp else cells[:, None]


AREAS = ("INP", "ACC8", "ACC32")
"""Loads of parts of feature maps."""
COUNTS = ("c_size", "x_size", "y_size", "n_out", "n_in", "uops")
"""Counts; an instruction with a count of 0 does nothing."""


def _with_pairs(
    op: str, kind: str, f: Fields, distances: Mapping[str, int], touches: Touches
) -> Touches:
    """Add the second accesses of dual cores: high bytes, pixels, accumulators and words."""
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
    return _repeated(touches, far)


def _in_slots(pp: int, touches: Touches) -> Touches:
    """Add the accesses of odd frames for maps with two slots."""
    return _repeated(touches, {"FM": 1 << pp + 2} if pp else {})


def _repeated(touches: Touches, far: Mapping[str, int]) -> Touches:
    """Add the same accesses at a distance, by memory; none for a distance of 0."""
    reads, writes = (
        [
            (memory, np.concatenate([cells, cells + far[memory]]) if far.get(memory) else cells)
            for memory, cells in some
        ]
        for some in touches
    )
    return reads, writes


def _threshold(f: Fields, small: SmallMemories) -> Touches:
    """Return the accesses of a threshold: a bit vector holds the bits of several blocks; if only
    some of them are written, the vector keeps the bits of the others."""
    shape = small.shape
    taken = _grid(f["dst"], f["n_out"], f["n_in"], f["dst_out"], f["dst_in"])
    share = 8 * shape.columns // shape.rows
    vectors, counts = np.unique(
        (f["block"] + np.arange(f["n_out"])) // share, return_counts=True
    )  # fmt: skip
    made = f["bits"] + vectors[:, None] * f["n_in"] + np.arange(f["n_in"])
    words = np.arange(f["rec"], f["rec"] + small.threshold_words(f["n_out"]))
    kept = made[counts < share].ravel()
    return [("ACC", taken), ("PM", words), ("OUT", kept)], [("OUT", made.ravel())]


def _gemm(kind: str, f: Fields, ops: NDArray[np.int32], each: int) -> Touches:
    """Return the accesses of products; with dual kernels each block has separate parameter words.

    each : parameter words per block
    """
    first = ops[:, 5] != 0  # the accumulator is initialised, so it is not read
    entries = _grids(ops[:, 0], f, "acc")
    inputs = _grids(ops[:, 1], f, "inp")
    words = _grids(ops[:, 2], f, "wgt")
    begun = np.unique(entries[first & (f["init"] != 0)])
    reads = [("INP", np.unique(inputs)), ("WM", np.unique(words))]
    reads.append(("ACC", np.setdiff1d(entries, begun)))
    if f["init"] == 2:
        count = each * (2 if kind == "DUAL_KERNEL" else 1)
        reads.append(("PM", _groups(f["bm"] + ops[first, 4], count)))
    return reads, [("ACC", np.unique(entries))]


def _alu(kind: str, f: Fields, ops: NDArray[np.int32], each: int) -> Touches:
    """Return the accesses of an ALU operation. each : parameter words with one number per row"""
    made = np.unique(_grids(ops[:, 0], f, "dst"))
    reads = []
    taken = f["source"] if kind in SOURCED else int(kind in ("MAC2", "MUL"))
    if taken == 1:
        reads.append(("ACC", np.unique(_grids(ops[:, 1], f, "src"))))
    elif taken == 2:
        reads.append(("PM", _groups(_grids(ops[:, 1], f, "src"), each)))
    if kind != "MOV":
        reads.append(("ACC", made))
    if kind in ("RMUL", "MAC2"):
        reads.append(("PM", np.arange(f["rec"], f["rec"] + 1 + each * (kind == "RMUL"))))
    return reads, [("ACC", made)] + ([("OUT", made)] if f["out"] else [])


SOURCED = ("ADD", "MAX", "MIN", "MOV")
"""ALU operations whose second operand is selected by `source`."""


def _groups(firsts: NDArray[np.int64], each: int) -> Cells:
    """Return a number of consecutive words from each address."""
    return np.unique(firsts.ravel().astype(np.int64)[:, None] + np.arange(each))


def _area(first: int, f: Fields, rows: int, columns: int, each: int) -> Cells:
    rows_ = np.arange(rows)[:, None, None] * f["y_stride"]
    found = first + rows_ + _columns(f, np.arange(columns))[:, None] + np.arange(f["c_size"] * each)
    return np.asarray(found, np.int64).ravel()


def _columns(f: Fields, x: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the vectors from the first column of an area to others; some are in the next turn of a
    ring."""
    wrap = f["wrap"] * (1 + f.get("up", 0)) or x.size
    return np.asarray(x * f["x_stride"] - (x >= wrap) * f["y_stride"])


def _grid(first: int, outer: int, inner: int, step: int, pace: int) -> Cells:
    found = first + np.arange(outer)[:, None] * step + np.arange(inner) * pace
    return found.ravel().astype(np.int64)


def _grids(firsts: NDArray[np.int32], f: Fields, name: str) -> Cells:
    """Return the places of every micro-op, shape (micro-ops, n_out * n_in)."""
    steps = _grid(0, f["n_out"], f["n_in"], f[f"{name}_out"], f[f"{name}_in"])
    return firsts.astype(np.int64)[:, None] + steps


ACC, INP, WGT, TAP, _, INIT = range(6)
"""Columns of micro-ops."""


def require_sums(f: dict[str, int], ops: NDArray[np.int32], what: str) -> None:
    """Raise `CheckFailedError` if an instruction computes sums that no layer has.

    f : fields of GEMM; ops : its micro-ops, shape (n, 6); what : instruction, for errors
    """
    steps = np.arange(f["n_out"])[:, None], np.arange(f["n_in"])
    acc, inp, wgt = (
        (steps[0] * f[f"{name}_out"] + steps[1] * f[f"{name}_in"]).ravel()
        for name in ("acc", "inp", "wgt")
    )
    begins = ops[:, INIT] * (f["init"] > 0)
    alone = np.unique(acc).size == acc.size  # each iteration has a separate sum
    if alone:
        firsts = np.unique(ops[:, ACC])
        if np.unique(firsts[:, None] + acc).size < firsts.size * acc.size:
            raise CheckFailedError(f"{what}: micro-ops share some of their sums, but not all")
        entries, inputs, words, taps = ops[:, ACC], ops[:, INP], ops[:, WGT], ops[:, TAP]
    else:
        if begins.any():
            raise CheckFailedError(f"{what}: initialises a sum twice")
        entries, inputs, words = (
            (ops[:, column, None] + steps).ravel()
            for column, steps in ((ACC, acc), (INP, inp), (WGT, wgt))
        )
        taps = np.repeat(ops[:, TAP], acc.size)
    for name, parts in (("input", (inputs,)), ("weight word", (words, taps))):
        rows = np.stack([entries, *parts], 1)
        if len(np.unique(rows, axis=0)) < len(rows):
            raise CheckFailedError(f"{what}: uses the same {name} twice for a sum")
    sums, first, number = np.unique(entries, return_index=True, return_inverse=True)
    if alone and begins.any():
        counts = np.bincount(number, begins, len(sums))
        if ((counts > 0) & (begins[first] == 0)).any() or (counts > 1).any():
            raise CheckFailedError(f"{what}: initialises a sum twice")
