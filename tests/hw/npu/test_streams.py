"""Cores that stream maps to each other with credits: bytes of many frames, and every cycle."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from chipsim.chip.npu_shape import NPU_SHAPES, NpuShape
from chipsim.noc.mesh import Mesh
from chipsim.npu.arrivals import HostLink
from chipsim.npu.mesh.chip import HostInputs, HostPort, MeshChip
from chipsim.npu.mesh.run import run_mesh
from chipsim.npu.records import Program
from hw.npu.chip import Place
from hw.npu.host import HostSide
from hw.npu.isa.table import UNITS
from hw.npu.run import NpuRun, NpuSimulator
from tests.chipsim.npu.programs import program_of
from tests.hw.npu.mesh_chips import hardware_of, require_equal, sides_of

TINY = NPU_SHAPES["tiny"]
EIGHT = replace(
    NPU_SHAPES["npu"], name="8x8", rows=8, columns=8, multiply_lanes=4, map_vectors=128,
    input_vectors=64, weight_words=20, entries=64, parameter_words=32, micro_ops=64,
    instructions=64, headers=16, load_bits=128, payload_bits=32,
)  # fmt: skip
"""Vectors of two parts."""
VECTORS, ODD, FRAMES = 16, 64, 4
CREDITS = 8  # the stream for credits
LOAD, GEMM, ALU, STORE = (1 << unit for unit in range(len(UNITS)))
HOST = (0, 0)


def stage(number: int, before: Place | None, after: Place | None, shape: NpuShape) -> Program:
    """Return the program of a pipeline stage.

    It multiplies a map by two weight words, which the host sends in every frame to the same place,
    adds a number, and sends the result to the next core, or to the host.
    """
    x, y = before or HOST
    area = {"c_size": 1, "x_size": VECTORS, "y_size": 1, "x_stride": 1, "pp": 4}
    back = {"queue": 0, "stream": CREDITS if before else 0, "count": 1, "x": x, "y": y}
    to = dict(zip("xy", after or HOST, strict=True))
    loops = {"uops": 1, "n_out": 1, "n_in": VECTORS}
    words = {"dst": 2, "words": 1, "host": number}
    products = {**loops, "acc_in": 1, "inp_in": 1, "dyn": 1}
    steps = [
        ("CTRL", "BASE", {"queue": 0, "space": 2, "value": 2}, 0, 0),
        ("LOAD", "WSTREAM", words, 0, 0),
        ("CTRL", "WAIT", {"queue": 0, "stream": 0, "count": VECTORS}, 0, 0),
        ("LOAD", "INP", area, 0, GEMM),
        ("CTRL", "SEND", {**back, "host": int(before is None)}, 0, 0),
        ("GEMM", "INT8", {**products, "init": 1}, LOAD, LOAD),
        ("LOAD", "WSTREAM", {**words, "host": number + 8}, GEMM, GEMM),
        ("GEMM", "INT8", products, LOAD, ALU),
        ("ALU", "ADD", {**loops, "dst_in": 1, "imm": number + 1, "out": 1}, GEMM, STORE),
    ]
    if after:
        steps.append(("CTRL", "WAIT", {"queue": 3, "stream": CREDITS, "count": 1}, 0, 0))
    steps += [
        ("STORE", "REMOTE" if after else "HOST", {**area, **to, "pp": 4 * bool(after)}, ALU, 0),
        ("CTRL", "END", {"queue": 3, "drain": 1}, 0, 0),
    ]
    made = program_of([each[:3] for each in steps], [[0, 0, 2, 0, 0, 1]], rows=shape.rows)
    wait, signal = (np.array([each[at] for each in steps], np.uint8) for at in (3, 4))
    return made._replace(wait=wait, signal=signal)


def chain(shape: NpuShape, places: list[Place], mesh: Mesh, link: HostLink) -> MeshChip:
    """Return a chain of cores with two slots each."""
    around = [None, *places, None]
    programs = {
        place: stage(number, around[number], around[number + 2], shape)
        for number, place in enumerate(places)
    }
    streams = {place: [0] * CREDITS + [2] + [0] * (15 - CREDITS) for place in places[:-1]}
    column = np.ones(VECTORS, np.int64)
    inputs = HostInputs(
        np.array([places[0]] * VECTORS),
        0 * column,
        np.arange(VECTORS),
        ODD * column,
        2 * column,
        0 * column,
    )
    return MeshChip(shape, mesh, programs, streams, [HostPort(HOST, inputs)], link)


def wanted_of(side: HostSide, stages: int) -> np.ndarray:
    """Return the bytes of all frames, shape (frames, vectors, columns)."""
    assert side.data is not None and side.weights is not None
    values = side.data.view(np.int8).astype(np.int64)
    for number in range(stages):
        weights = side.weights[number].astype(np.int64) + side.weights[number + 8]
        values = values @ weights.T + number + 1
        values = values.astype(np.int8).astype(np.int64)
    return values


def run(chip: MeshChip) -> tuple[NpuRun, HostSide]:
    (side,) = sides_of(chip, FRAMES, np.random.default_rng(1))
    found = NpuSimulator(hardware_of(chip)).run([side], FRAMES)
    for frame, values in enumerate(wanted_of(side, len(chip.programs))):
        assert sorted(found.results[frame]) == list(range(VECTORS))
        for vector, lanes in found.results[frame].items():
            assert lanes.tolist() == values[vector].tolist(), (frame, vector)
    return found, side


@pytest.mark.heavy
@pytest.mark.sample(0.25)
@pytest.mark.jit
@pytest.mark.parametrize("places", [
    [(1, 0)], [(1, 0), (0, 0)], [(0, 0), (1, 1), (1, 0), (0, 1)],
], ids=lambda places: str(len(places)))  # fmt: skip
@pytest.mark.parametrize("shape", [TINY, EIGHT], ids=lambda shape: shape.name)
def test_chains_of_cores(shape: NpuShape, places: list[Place]) -> None:
    """N10.4: results equal numpy's, frames overlap, cycles equal the simulator's."""
    chip = chain(shape, places, Mesh(2, 2), HostLink(5, 1.0))
    found, _ = run(chip)
    require_equal(chip, found, run_mesh(chip, FRAMES, keep=range(FRAMES), flits=True))
    assert len(places) < 4 or found.idle[places[0]][1] < found.idle[places[-1]][0]


@pytest.mark.heavy
@pytest.mark.sample(0.25)
@pytest.mark.jit
@pytest.mark.parametrize("cycles", [1, 7, 50])
def test_slow_hosts(cycles: int) -> None:
    """N9.1: words of the host take from 1 to 50 cycles; a stale word is never used.

    Each frame requests the same place again. All stalls equal the simulator's.
    """
    flits = TINY.rows / cycles  # per cycle
    chip = chain(TINY, [(1, 0), (0, 0)], Mesh(2, 1), HostLink(32, flits))
    found, _ = run(chip)
    require_equal(chip, found, run_mesh(chip, FRAMES, keep=range(FRAMES), flits=True))
