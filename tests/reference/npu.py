"""Reference implementation of the NPU core: core by core, lane by lane, with Python's numbers.

It shares no code with `chipsim.npu`. Feature maps, inputs and weights are lists of lists; an access
outside a memory raises `FaultError` immediately. docs/reference/isa.md has the rules.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

Fields = Mapping[str, int]
Step = tuple[str, str, Fields]
"""Op, kind, and the nonzero fields."""


class FaultError(Exception):
    """An instruction that cannot be executed; its number is the argument."""


class Cells(list[Any]):
    """A memory that rejects negative indices."""

    def __getitem__(self, at: Any) -> Any:
        if at < 0:
            raise IndexError(at)
        return super().__getitem__(at)

    def __setitem__(self, at: Any, value: Any) -> None:
        if at < 0:
            raise IndexError(at)
        super().__setitem__(at, value)


def signed(x: int, bits: int) -> int:
    x %= 1 << bits
    return x - (1 << bits) if x >> (bits - 1) else x


def rounded(x: int, n: int, mode: int) -> int:
    """Return x / 2^n by the definition of each rounding mode, in integer arithmetic."""
    whole, rest = divmod(x, 1 << n)
    twice, one = 2 * rest, 1 << n
    if mode == 3 or twice < one:
        return whole
    if twice > one:
        return whole + 1
    return whole + {0: x >= 0, 1: True, 2: whole % 2 == 1}[mode]


def parted(total: Any, shift: int) -> tuple[Any, Any]:
    """Split a sum of products (a * 2^shift + b) * c into the sums of a * c and of b * c.

    The low sum must fit its bits. Its sign is removed from the high sum.
    """
    low = ((total + (1 << shift - 1)) & ((1 << shift) - 1)) - (1 << shift - 1)
    return (total >> shift) + (total >> shift - 1 & 1), low


def two_products(a: Any, b: Any, c: Any) -> tuple[Any, Any]:
    """Return a * c and b * c of bytes, using one multiplier; numbers or arrays."""
    return parted(((a << 16) + b) * c, 16)


class Twin:
    """A core of `rows` rows and columns.

    table : micro_ops (rows of 6), parameters (rows of 16), headers, weights (word, row, column),
        each with the length of its memory
    """

    def __init__(self, rows: int, dual: bool, sizes: Mapping[str, int], table: Mapping[str, Any]):
        self.rows, self.dual = rows, dual
        self.filters = sizes["filters"]
        self.maps = Cells([0] * rows for _ in range(sizes["maps"]))
        self.inputs = Cells([0] * rows for _ in range(sizes["inputs"]))
        self.sums = Cells([0] * rows for _ in range(sizes["entries"]))
        self.results = Cells([0] * rows for _ in range(sizes["entries"]))
        self.micro_ops, self.parameters = Cells(table["micro_ops"]), Cells(table["parameters"])
        self.headers, self.weights = Cells(table["headers"]), Cells(table["weights"])
        self.host_weights: Sequence[Any] = Cells(table["host_weights"])
        self.base = [0, 0, 0]
        self.dist = {queue: {"inp": 0, "acc": 0, "wgt": 0, "src": 0} for queue in range(4)}
        self.arrived = 0
        self.host: list[tuple[int, list[int]]] = []
        self.log: list[tuple[int, list[int]]] = []  # vectors stored to feature memory
        self.odd = False

    @property
    def sum_bits(self) -> int:
        return 48 if self.dual else 32

    def words(self, first: int) -> list[int]:
        """Return one number per row from the parameter words from `first` on."""
        return [self.parameters[first + r // 16][r % 16] for r in range(self.rows)]

    @property
    def per_block(self) -> int:
        return (self.rows + 15) // 16

    def run(self, steps: Sequence[Step]) -> None:
        for number, (op, kind, fields) in enumerate(steps):
            try:
                self.step(op, kind, lambda name, fields=fields: fields.get(name, 0))
            except IndexError:
                raise FaultError(number) from None

    def step(self, op: str, kind: str, f: Callable[[str], int]) -> None:
        if op in ("GEMM", "ALU") and f("n_out") * f("n_in") == 0:
            return  # no step, so its micro-ops are not read either
        if op == "CTRL":
            if kind == "BASE":
                self.base[f("space")] = f("value")
            elif kind == "DIST":
                self.dist[f("queue")] = {name: f(name) for name in ("inp", "acc", "wgt", "src")}
        elif op == "LOAD":
            {
                "BIAS": self.bias,
                "WIN": self.windows,
                "WSTREAM": self.stream,
                "TABLE": self.table,
            }.get(kind, lambda f: self.area(kind, f))(f)
        elif op == "GEMM":
            self.gemm(kind, f)
        elif op == "ALU":
            self.alu(kind, f)
        elif kind == "THRESHOLD":
            self.threshold(f)
        elif op == "RQ":
            self.requantise(kind, f)
        else:
            self.store(kind, f)

    def slot(self, pp: int) -> int:
        return 2 ** (pp + 2) if pp and self.odd else 0

    def area(self, kind: str, f: Callable[[str], int]) -> None:
        source = self.base[0] + f("src") + self.slot(f("pp"))
        far = self.dist[0]["src"] if self.dual else 0
        for y in range(f("y_size")):
            for x in range(f("x_size")):
                for c in range(f("c_size")):
                    to = f("dst") + (c * f("y_size") + y) * f("x_size") + x
                    inside = f("pad_t") <= y < f("y_size") - f("pad_b") and f("pad_l") <= x < f(
                        "x_size"
                    ) - f("pad_r")
                    at = source + (y - f("pad_t")) * f("y_stride")
                    at += (x - f("pad_l")) * f("x_stride")
                    if f("wrap") and x - f("pad_l") >= f("wrap"):
                        at -= f("y_stride")
                    if inside and at < 0:
                        raise IndexError
                    if not inside:
                        value = f("value") if self.dual or kind != "INP" else signed(f("value"), 8)
                        lanes = [value] * self.rows
                    elif kind == "ACC32":
                        width = 8 if self.dual else 4
                        flat = [
                            byte for k in range(width) for byte in self.maps[at + c * width + k]
                        ]
                        lanes = [
                            signed(
                                sum(flat[r * width + k] % 256 << 8 * k for k in range(width)),
                                self.sum_bits,
                            )
                            for r in range(self.rows)
                        ]
                    elif far:
                        low, high = self.maps[at + c], self.maps[at + c + far]
                        lanes = [high[r] * 256 + low[r] % 256 for r in range(self.rows)]
                    else:
                        lanes = list(self.maps[at + c])
                    (self.inputs if kind == "INP" else self.sums)[to] = lanes

    def bias(self, f: Callable[[str], int]) -> None:
        for o in range(f("n_out")):
            for i in range(f("n_in")):
                to = f("dst") + o * f("dst_out") + i * f("dst_in")
                self.sums[to] = self.words(f("bm") + o * self.per_block)

    def pixel(self, base: int, channel: int, pixel: int, words: int) -> int:
        """Return a byte of a T-mode map."""
        bank = 2 * self.rows
        word = base + channel // 4 * words + pixel // bank
        at = word * 8 + channel % 4 * 2 + pixel % bank // self.rows
        return self.maps[at][pixel % self.rows]

    def windows(self, f: Callable[[str], int]) -> None:
        words = -(-f("width") * f("height") // (2 * self.rows))
        base = self.base[0] // 8 + f("src") + self.slot(f("pp")) // 8
        to = f("dst")
        for packet in range(f("packets")):
            header = self.headers[f("head") + packet]
            begin, length, x, y = (header >> shift & 0xFFFF for shift in (0, 16, 32, 48))
            for _ in range(self.filters):
                if y - f("pad_t") >= f("height"):
                    continue
                column = []
                for group in range(f("groups")):
                    for ky in range(f("kh")):
                        for kx in range(f("kw")):
                            for channel in range(4):
                                py, px = y + ky - f("pad_t"), x + kx - f("pad_l")
                                if 0 <= py < f("height") and 0 <= px < f("width"):
                                    at = py * f("width") + px
                                    if not begin <= at // (2 * self.rows) < begin + length:
                                        raise IndexError
                                    column.append(self.pixel(base, 4 * group + channel, at, words))
                                else:
                                    column.append(f("value"))
                while len(column) % self.rows:
                    column.append(0)
                for first in range(0, len(column), self.rows):
                    self.inputs[to] = column[first : first + self.rows]
                    to += 1
                x += f("sw")
                if x >= f("columns") * f("sw"):
                    x, y = 0, y + f("sh")

    def stream(self, f: Callable[[str], int]) -> None:
        for k in range(f("words")):
            if f("dst") < self.base[2]:
                raise IndexError
            self.weights[f("dst") + k] = self.host_weights[f("host") + k]
        self.arrived = f("dst") + f("words")

    def table(self, f: Callable[[str], int]) -> None:
        first = self.base[0] + f("src")
        flat = [byte % 256 for k in range(f("vectors")) for byte in self.maps[first + k]]
        size = 64 if f("memory") == 1 else 8
        for k in range(len(flat) // size):
            part = bytes(flat[size * k : size * (k + 1)])
            number = int.from_bytes(part[:8], "little")
            if f("memory") == 0:
                widths, fields = (12, 12, 12, 4, 9, 1), []
                for width in widths:
                    fields.append(number % (1 << width))
                    number >>= width
                self.micro_ops[f("dst") + k] = fields
            elif f("memory") == 1:
                self.parameters[f("dst") + k] = [
                    int.from_bytes(part[4 * r : 4 * r + 4], "little", signed=True)
                    for r in range(16)
                ]
            else:
                self.headers[f("dst") + k] = number

    def gemm(self, kind: str, f: Callable[[str], int]) -> None:
        if kind in ("DUAL_PIXEL", "DUAL_KERNEL", "INT16") and not self.dual:
            raise IndexError
        acc_far, wgt_far = self.dist[1]["acc"], self.dist[1]["wgt"]
        if kind.startswith("DUAL") and not acc_far and f("uops") * f("n_out") * f("n_in"):
            raise IndexError
        for u in range(f("uop"), f("uop") + f("uops")):
            acc, inp, wgt, tap, bm, init = self.micro_ops[u]
            for o in range(f("n_out")):
                for i in range(f("n_in")):
                    a = acc + o * f("acc_out") + i * f("acc_in")
                    x = self.inputs[inp + o * f("inp_out") + i * f("inp_in")]
                    w = wgt + o * f("wgt_out") + i * f("wgt_in")
                    last = w + {"INT16": 1, "DUAL_KERNEL": wgt_far}.get(kind, 0)
                    if f("dyn") and last >= self.base[2] and last >= self.arrived:
                        raise IndexError
                    pair = kind.startswith("DUAL")
                    if init and f("init"):
                        bias = f("bm") + bm
                        for place in range(1 + pair):
                            first = bias + place * self.per_block * (kind == "DUAL_KERNEL")
                            start = self.words(first) if f("init") == 2 else [0] * self.rows
                            self.sums[a + place * acc_far] = start
                    if pair:
                        second = w + wgt_far if kind == "DUAL_KERNEL" else None
                        high, low = self.pairs(w, x, second)
                        self.add(a, low)
                        self.add(a + acc_far, high)
                    else:
                        self.add(a, self.products(kind, w, x, tap))

    def products(self, kind: str, w: int, x: Sequence[int], tap: int) -> list[int]:
        word, places = self.weights[w], range(self.rows)
        if kind == "INT16":
            high = self.weights[w + 1]
            return [
                sum((high[r][c] * 256 + word[r][c] % 256) * x[c] for c in places) for r in places
            ]
        low = [signed(each, 8) for each in x]
        if kind == "DEPTHWISE":
            return [word[tap][r] * low[r] for r in places]
        if kind == "INT8":
            return [sum(word[r][c] * low[c] for c in places) for r in places]
        return [
            sum(
                1 if (word[r][c] >> bit & 1) == (low[c] >> bit & 1) else -1
                for c in places
                for bit in range(8)
            )
            for r in places
        ]

    def pairs(self, w: int, x: Sequence[int], second: int | None) -> list[list[int]]:
        """Return the sums of the high and of the low products of a row.

        The products are of two words and a vector, or of a word and the two pixels packed in a
        vector.
        """
        low, high = [signed(each, 8) for each in x], [each >> 8 for each in x]
        word, sums = self.weights[w], []
        other = None if second is None else self.weights[second]
        for r in range(self.rows):
            made = [
                two_products(high[c], low[c], word[r][c])
                if other is None
                else two_products(other[r][c], word[r][c], low[c])
                for c in range(self.rows)
            ]
            sums.append([sum(part) for part in zip(*made, strict=True)])
        return [list(part) for part in zip(*sums, strict=True)]

    def add(self, a: int, products: Sequence[int]) -> None:
        both = zip(self.sums[a], products, strict=True)
        self.sums[a] = [signed(x + p, self.sum_bits) for x, p in both]

    def put(self, a: int, lanes: Sequence[int]) -> None:
        self.results[a] = [signed(y, 16 if self.dual else 8) for y in lanes]

    def alu(self, kind: str, f: Callable[[str], int]) -> None:
        last = -1
        for u in range(f("uop"), f("uop") + f("uops")):
            acc, inp = self.micro_ops[u][:2]
            for o in range(f("n_out")):
                for i in range(f("n_in")):
                    to = acc + o * f("dst_out") + i * f("dst_in")
                    at = inp + o * f("src_out") + i * f("src_in")
                    if kind in ("RMUL", "MAC2", "MUL"):
                        if to == last or (kind != "RMUL" and at == last):
                            raise IndexError
                        last = to
                    lanes = [
                        signed(y, self.sum_bits)
                        for y in self.calculated(kind, f, self.sums[to], at)
                    ]
                    self.sums[to] = lanes
                    if f("out"):
                        self.put(to, lanes)

    def calculated(self, kind: str, f: Callable[[str], int], x: list[int], at: int) -> list[int]:
        low = [signed(each, 32) for each in x]
        shift = f("imm") % 64
        if kind == "RSHR":
            return [rounded(each, shift, f("round")) for each in x]
        if kind == "SHL":
            return [each << shift for each in x]
        if kind == "RMUL":
            scales = self.words(f("rec") + 1)
            found = [
                rounded(each * (scale >> 6), scale % 64, f("round"))
                for each, scale in zip(low, scales, strict=True)
            ]
            return [max(-(2**31), min(2**31 - 1, each)) for each in found]
        if kind == "MAC2":
            ka, kb, kc = self.parameters[f("rec")][:3]
            other = [signed(each, 32) for each in self.sums[at]]
            return [a * ka + b * kb + kc for a, b in zip(low, other, strict=True)]
        if kind == "MUL":
            return [a * signed(b, 26) for a, b in zip(low, self.sums[at], strict=True)]
        s = [f("imm")] * self.rows
        if f("source") == 1:
            s = self.sums[at]
        elif f("source") == 2:
            s = self.words(at)
        does = {"ADD": lambda a, b: a + b, "MAX": max, "MIN": min, "MOV": lambda _, b: b}[kind]
        return [does(a, b) for a, b in zip(x, s, strict=True)]

    def requantise(self, kind: str, f: Callable[[str], int]) -> None:
        if f("n_out") * f("n_in") == 0:
            return
        z, lo, hi, p, mode, flags = self.parameters[f("rec")][:6]
        table = self.entries(f("table")) if kind == "LOOKUP" else []
        at, last = f("rec") + 1, [-1, -1]
        for ob in range(f("n_out")):
            scale, c, leaky = self.words(at), [0] * self.rows, self.words(at)
            at += self.per_block
            if flags & 1:
                c = self.words(at)
                at += self.per_block
            if flags & 2:
                leaky = self.words(at)
                at += self.per_block
            for i in range(f("n_in")):
                a = f("dst") + ob * f("dst_out") + i * f("dst_in")
                if a == last[0] or (kind == "LOOKUP" and a == last[1]):
                    raise IndexError
                last = [a, last[0]]
                lanes = []
                for r in range(self.rows):
                    t = signed(rounded(self.sums[a][r], p % 64, mode % 4), 32)
                    used = leaky[r] if kind == "LEAKY" and t < 0 else scale[r]
                    u = rounded(t * (used >> 6) + c[r], used % 64, mode % 4)
                    y = min(max(u + z, lo), hi)
                    lanes.append(table[y % 256] if table else y)
                self.sums[a] = lanes
                if f("out"):
                    self.put(a, lanes)

    def entries(self, first: int) -> list[int]:
        """Return the 256 entries of a table."""
        size = 2 if self.dual else 1
        words = [self.parameters[first + k] for k in range(4 * size)]
        data = b"".join(lane.to_bytes(4, "little", signed=True) for word in words for lane in word)
        return [
            int.from_bytes(data[at : at + size], "little", signed=True)
            for at in range(0, len(data), size)
        ]

    def threshold(self, f: Callable[[str], int]) -> None:
        if f("n_out") * f("n_in") == 0:
            return
        for ob in range(f("n_out")):
            at = f("rec") + 1 + 2 * self.per_block * ob
            limits, flips = self.words(at), self.words(at + self.per_block)
            channel = (f("block") + ob) * self.rows  # first channel of the block
            for i in range(f("n_in")):
                x = self.sums[f("dst") + ob * f("dst_out") + i * f("dst_in")]
                to = f("bits") + channel // (8 * self.rows) * f("n_in") + i
                whole = sum(byte % 256 << 8 * k for k, byte in enumerate(self.results[to]))
                for r in range(self.rows):
                    place = channel % (8 * self.rows) + r
                    bit = (x[r] >= limits[r]) ^ (flips[r] & 1)
                    whole = whole & ~(1 << place) | bit << place
                kept = self.results[to]
                changed = range(channel % (8 * self.rows) // 8, self.rows)
                changed = changed[: max(1, self.rows // 8)]
                self.results[to] = [
                    signed(whole >> 8 * k, 8) if k in changed else kept[k] for k in range(self.rows)
                ]

    def store(self, kind: str, f: Callable[[str], int]) -> None:
        base = self.base[1] + f("dst") + self.slot(f("pp"))
        times, parts = (2 if f("up") else 1), 8 if self.dual else 4
        far = self.dist[3]["src"] if self.dual and not f("bits") else 0
        for c in range(f("c_size")):
            for y in range(f("y_size")):
                for x in range(f("x_size")):
                    entry = f("src") + (c * f("y_size") + y) * f("x_size") + x
                    if kind.startswith("PARTIAL"):
                        flat = [
                            signed(lane >> 8 * k, 8)
                            for lane in self.sums[entry]
                            for k in range(parts)
                        ]
                        vectors = {
                            c * parts + k: flat[k * self.rows : (k + 1) * self.rows]
                            for k in range(parts)
                        }
                    else:
                        lanes = self.results[entry]
                        vectors = {c: [signed(lane, 8) for lane in lanes]}
                        if far:
                            vectors[c + far] = [lane >> 8 for lane in lanes]
                    for behind, vector in vectors.items():
                        for ty in range(times * y, times * (y + 1)):
                            for tx in range(times * x, times * (x + 1)):
                                at = base + ty * f("y_stride") + tx * f("x_stride") + behind
                                if f("wrap") and x >= f("wrap"):
                                    at -= f("y_stride")
                                if at < 0:
                                    raise IndexError
                                if kind.endswith("HOST"):
                                    self.host.append((at, vector))
                                else:
                                    self.maps[at] = vector
                                    self.log.append((at, vector))
