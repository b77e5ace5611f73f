"""Replays the addresses of an encoded program, and proves that its tokens keep them in order.

Knows nothing of the compiler: instructions and micro-ops are decoded from the program's bytes. In
the order of the program every vector that is read was written in this frame, or is preset. Between
units, whatever reads or overwrites a place is behind the one that wrote it or still reads it: by
tokens (vector clocks), not by luck. Every address is inside its memory, and no unit waits for a
token that nobody gives.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from chipsim.chip.npu_shape import NpuShape
from hw.npu.isa import FORMS, OPS, UNITS
from hw.npu.programs import decode_micro_ops, decode_program
from mapper.compiler.codegen.image import Image
from mapper.errors import CheckFailedError

Cells = NDArray[np.int64]
Fields = dict[str, int]
UNIT_OF = {"LOAD": 0, "GEMM": 1, "ALU": 2, "RQ": 2, "STORE": 3}
VECTORS_OF_WORD = 4  # 32-bit lanes, in vectors
LANES_OF_WORD = 16  # of parameters


class Instruction(NamedTuple):
    """A decoded instruction; reads and writes are (memory, places). drains : it ends a frame so."""

    number: int
    name: str
    unit: int
    wait: int
    signal: int
    reads: list[tuple[str, Cells]]
    writes: list[tuple[str, Cells]]
    drains: bool


def check_image(image: Image, shape: NpuShape, presets: Sequence[Cells], where: str) -> int:
    """Check the program of a core; returns the number of its instructions.

    presets : the vectors of maps that the host writes before each function of the program
    where : the file, for errors
    Raises `CheckFailedError` that names the instruction and the place.
    """
    memory = Replay(shape, image, where)
    micro_ops = decode_micro_ops(image.micro_ops, where)
    count = len(image.instructions) // 16
    memory.preset("FM", np.arange(len(image.maps)))
    drained, coming = True, iter(presets)
    for one in instructions_of(image, micro_ops, where):
        if drained:
            memory.preset("FM", next(coming, np.zeros(0, np.int64)))
        memory.step(one)
        drained = one.drains
        if drained:
            memory.drain()
    if not drained:
        memory.require_balance()
    return count


def instructions_of(image: Image, micro_ops: NDArray[np.int32], where: str) -> list[Instruction]:
    """What the instructions of a program read and write."""
    decoded = decode_program(image.instructions, where)
    forms = {
        (OPS[form.op], code): (form, kind)
        for form in FORMS
        for kind, (code, _) in form.kinds.items()
    }
    found = []
    distances: dict[str, int] = {}  # of pairs, as the units were told last
    for number, (op, code) in enumerate(zip(decoded.op, decoded.kind, strict=True)):
        form, kind = forms[int(op), int(code)]
        names = [field.name for field in form.fields]
        fields = dict(zip(names, decoded.fields[number].tolist(), strict=False))
        unit = fields["queue"] if form.op == "CTRL" else UNIT_OF[form.op]
        if kind == "DIST" and image.info["shape"]["multiplier"] == "dual":
            queue = UNITS[fields["queue"]]
            distances |= {f"{queue}.{name}": value for name, value in fields.items()}
        reads, writes = _touches(form.op, kind, fields, micro_ops, image.info["shape"])
        reads, writes = _with_pairs(form.op, kind, fields, distances, (reads, writes))
        found.append(
            Instruction(
                number, f"{form.op}.{kind}", unit, int(decoded.wait[number]),
                int(decoded.signal[number]), reads, writes, bool(fields.get("drain")),
            )
        )  # fmt: skip
    return found


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
        return _gemm(f, ops) if op == "GEMM" else _alu(kind, f, ops)
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


class Replay:
    """Memories of a core while a program is replayed: who wrote and who read each place last."""

    def __init__(self, shape: NpuShape, image: Image, where: str) -> None:
        sizes = {
            "FM": shape.map_vectors or image.map_vectors, "INP": shape.input_vectors,
            "ACC": shape.entries, "OUT": shape.entries, "WM": shape.weight_words,
            "PM": shape.parameter_words, "UM": len(image.micro_ops) // 8,
        }  # fmt: skip
        units = len(UNITS)
        self.where = where
        self.known = {name: np.zeros(size, bool) for name, size in sizes.items()}
        self.wrote = {name: np.full((units, size), -1, np.int64) for name, size in sizes.items()}
        self.read = {name: np.full((units, size), -1, np.int64) for name, size in sizes.items()}
        self.clock = np.full((units, units), -1, np.int64)  # what each unit knows to be done
        self.given: dict[tuple[int, int], list[NDArray[np.int64]]] = {}  # clocks of tokens
        self.taken: dict[tuple[int, int], int] = {}
        self.count = [0] * units
        self.preset("WM", np.arange(len(image.weights)))
        self.preset("PM", np.arange(len(image.parameters)))
        self.preset("UM", np.arange(sizes["UM"]))

    def preset(self, memory: str, places: Cells) -> None:
        """Places that hold something before a frame."""
        self.require_inside(memory, places, f"{self.where}: preset contents")
        self.known[memory][places] = True

    def require_inside(self, memory: str, places: Cells, what: str) -> None:
        size = self.known[memory].size
        if places.size and (int(places.min()) < 0 or int(places.max()) >= size):
            worst = int(places.max()) if int(places.max()) >= size else int(places.min())
            raise CheckFailedError(f"{what}: {memory}[{worst}], which has {size} places")

    def step(self, one: Instruction) -> None:
        """Replay an instruction; raises `CheckFailedError`."""
        what = f"{self.where}: instruction {one.number} ({one.name})"
        unit, here = one.unit, self.count[one.unit]
        for other in range(len(UNITS)):
            if one.wait >> other & 1:
                self._take(unit, other, what)
        for memory, places in one.reads:
            self.require_inside(memory, places, f"{what}: reads")
            if not self.known[memory][places].all():
                place = int(places[np.argmin(self.known[memory][places])])
                raise CheckFailedError(f"{what}: reads {memory}[{place}], which nothing wrote")
            self._require_order(unit, self.wrote[memory][:, places], what, f"reads {memory}")
        for memory, places in one.writes:
            self.require_inside(memory, places, f"{what}: writes")
            self._require_order(unit, self.wrote[memory][:, places], what, f"writes {memory}")
            self._require_order(unit, self.read[memory][:, places], what, f"overwrites {memory}")
        for memory, places in one.reads:
            self.read[memory][unit, places] = here
        for memory, places in one.writes:
            self.wrote[memory][unit, places] = here
            self.known[memory][places] = True
        self.clock[unit, unit] = here
        self.count[unit] += 1
        for other in range(len(UNITS)):
            if one.signal >> other & 1:
                self.given.setdefault((unit, other), []).append(self.clock[unit].copy())

    def _take(self, unit: int, other: int, what: str) -> None:
        """A token from another unit: what that one knew is known here, too."""
        number = self.taken.get((other, unit), 0)
        tokens = self.given.get((other, unit), [])
        if number >= len(tokens):
            raise CheckFailedError(
                f"{what}: waits for a token of {UNITS[other]} that no earlier instruction gives"
            )
        self.taken[other, unit] = number + 1
        np.maximum(self.clock[unit], tokens[number], out=self.clock[unit])

    def _require_order(self, unit: int, last: NDArray[np.int64], what: str, does: str) -> None:
        """Raise if another unit's step on a place may not be done yet."""
        if not last.size:
            return
        latest = last.max(1)
        for other in range(len(UNITS)):
            if other != unit and latest[other] > self.clock[unit, other]:
                raise CheckFailedError(
                    f"{what}: {does} without waiting for {UNITS[other]}, step {latest[other]} of "
                    "which uses the same places"
                )

    def drain(self) -> None:
        """All units are idle, and no token is left: all that was done is known to all."""
        self.clock[:] = np.array(self.count) - 1
        self.given.clear()
        self.taken.clear()

    def require_balance(self) -> None:
        """Raise if a token is left that the next frame would take for its own."""
        for (unit, other), tokens in self.given.items():
            left = len(tokens) - self.taken.get((unit, other), 0)
            if left:
                raise CheckFailedError(
                    f"{self.where}: {left} tokens of {UNITS[unit]} for {UNITS[other]} are left at "
                    "the end of a frame, which ends without a drain"
                )
