"""Cores on a mesh: kernel against reference, core against queues, flits against the mesh."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from chipsim.errors import ChipError
from chipsim.noc.deliver import deliver
from chipsim.noc.mesh import Mesh
from chipsim.npu.arrivals import HostLink
from chipsim.npu.core_run import parts_of
from chipsim.npu.cycles import Timed, run_queues
from chipsim.npu.mesh.chip import HostInputs, HostPort, MeshChip
from chipsim.npu.mesh.run import MeshTimes, run_mesh
from chipsim.npu.records import FIELDS, Op, Program
from tests.chipsim.npu.mesh_programs import (
    ALU,
    GEMM,
    LOAD,
    STORE,
    TINY,
    Place,
    Writer,
    random_chip,
    twin_of,
)
from tests.chipsim.npu.programs import program_of
from tests.reference.noc import EAST, NORTH, SOUTH, WEST
from tests.reference.npu_mesh import Twin

MOST = 4000  # cycles of the reference implementation
LINKS = (EAST, WEST, SOUTH, NORTH)


def compare(chip: MeshChip, twin: Twin, found: MeshTimes, cycles: int) -> None:
    for place, core in found.cores.items():
        assert core.start.tolist() == twin.cores[place].start, place
        assert core.end.tolist() == twin.cores[place].end, place
        waits = core.waits.sum(1)
        assert (core.busy + waits == found.cycles).all()
        assert (core.waits >= 0).all()
    width = chip.mesh.width
    wanted = [
        (one.cycle, one.flit.target[1] * width + one.flit.target[0],
         one.flit.source[1] * width + one.flit.source[0], one.flit.kind, one.flit.stream,
         one.flit.value)
        for one in twin.delivered
    ]  # fmt: skip
    d = found.deliveries
    if d is None:
        assert not wanted
        return
    rows = np.stack([d.cycle, d.target, d.source, d.kind, d.stream, d.value], 1)
    rows = rows[rows[:, 0] < cycles].tolist()
    assert sorted(map(tuple, rows)) == sorted(wanted)
    if twin.results:
        assert found.completed.tolist() == twin.completed
    if cycles == MOST:
        return
    for (x, y, port), count in twin.mesh.links.items():
        if port in LINKS:
            assert found.links[LINKS.index(port), y, x] == count
        else:
            assert found.left[y * width + x] == count
    entered = np.bincount(d.source, minlength=found.entered.size)
    assert found.entered.tolist() == entered.tolist()


@pytest.mark.heavy
@pytest.mark.sample(0.5)
@pytest.mark.jit
@pytest.mark.parametrize("first", range(0, 200, 25))
def test_kernel_matches_reference(first: int) -> None:
    """Equal start and end of instructions, delivery of flits, completion of frames; half of the
    chips have maps in external memory.

    A deadlock in one is a deadlock in the other.
    """
    equal = 0
    for seed in range(first, first + 25):
        chip, frames = random_chip(seed), 1 + seed % 4
        if seed % 2:
            shape = replace(chip.shape, map_vectors=0, load_bits=32 << seed // 2 % 2)
            chip = chip._replace(shape=shape)
        twin = twin_of(chip, frames)
        cycles = twin.run(MOST)
        try:
            found = run_mesh(chip, frames, keep=range(frames), flits=True)
        except ChipError as error:
            assert "deadlock" in str(error)
            assert cycles == MOST, f"seed {seed}: {error}"
            continue
        if found.cycles < MOST:  # unused words may arrive for longer
            compare(chip, twin, found, cycles)
            equal += 1
    assert equal > 15


@pytest.mark.parametrize("seed", range(20))
def test_one_core_equals_its_queues(seed: int) -> None:
    """Each frame of a single core takes as long as in `chipsim.npu.cycles`, and so do instructions.

    The next frame starts a fixed number of cycles later.
    """
    rng = np.random.default_rng(seed)
    writer = Writer(rng, 15)
    for _ in range(60):
        size = int(rng.integers(1, 30))
        area = {"x_size": 1 + size % 8, "y_size": 1 + size % 3, "c_size": 1, "x_stride": 1}
        loops = {"uops": 1, "n_out": 1, "n_in": size}
        op, kind, unit, fields = [
            ("LOAD", "INP", LOAD, area), ("GEMM", "INT8", GEMM, loops), ("ALU", "MOV", ALU, loops),
            ("STORE", "LOCAL", STORE, area),
        ][int(rng.integers(4))]  # fmt: skip
        writer.add(op, kind, unit, **fields)
    writer.add("CTRL", "END", STORE, drain=1)
    program = writer.program([0] * 4)
    shape = replace(TINY, queue_places=int(rng.integers(1, 6)))
    wanted = run_queues([Timed(*part[:4]) for part in parts_of(program, shape)], shape)
    chip = MeshChip(shape, Mesh(1, 1), {(0, 0): program})
    found = run_mesh(chip, 3, keep=range(3))
    core = found.cores[0, 0]
    for frame in range(3):
        begin = frame * (wanted.cycles + shape.latency.restart)
        assert (core.start[frame] - begin).tolist() == wanted.start.tolist()
        assert (core.end[frame] - begin).tolist() == wanted.end.tolist()
        assert core.ended[frame] == found.completed[frame] == begin + wanted.cycles
    assert core.busy.tolist() == (3 * wanted.busy).tolist()
    assert (core.busy + core.waits.sum(1) == found.cycles).all()


def storer(delay: int, *stores: tuple[Place, int]) -> Program:
    """Return stores of given numbers of vectors to cores, after a delay."""
    steps: list[Any] = [("CTRL", "NOP", {"queue": STORE})] * delay
    for (x, y), vectors in stores:
        area = {"x_size": vectors, "y_size": 1, "c_size": 1, "x_stride": 1}
        steps.append(("STORE", "REMOTE", {**area, "x": x, "y": y, "stream": 1}))
    return program_of([*steps, ("CTRL", "END", {"queue": STORE, "drain": 1})])


@pytest.mark.parametrize("seed", range(10))
def test_pure_traffic_equals_the_flit_simulator(seed: int) -> None:
    """A store offers a flit per cycle: packets created one per cycle."""
    rng = np.random.default_rng(seed)
    mesh = Mesh(4, 3, int(rng.integers(1, 5)))
    places = [(x, y) for y in range(3) for x in range(4)]
    shape = replace(TINY, payload_bits=int(rng.choice([8, 16, 32])))
    parts = 32 // shape.payload_bits
    programs = {}
    created, source, target = [], [], []
    for node, place in enumerate(places):
        stores = [(places[int(rng.integers(12))], int(rng.integers(1, 60)))]
        delay = int(rng.integers(0, 20))
        programs[place] = storer(delay, *stores)
        for (x, y), vectors in stores:
            first = delay + 1 + shape.latency.store
            created += list(range(first, first + vectors * parts))
            source += [node] * vectors * parts
            target += [4 * y + x] * vectors * parts
    wanted = deliver(mesh, created, source, target)
    found = run_mesh(MeshChip(shape, mesh, programs), flits=True)
    d = found.deliveries
    assert d is not None
    rows = sorted(zip(d.cycle.tolist(), d.source.tolist(), d.target.tolist(), strict=True))
    assert rows == sorted(zip(wanted.delivered.tolist(), source, target, strict=True))
    assert np.array_equal(found.links, wanted.links)


def pipeline(slots: int = 2) -> MeshChip:
    """Return a chain of host, three cores, and host; each core copies four vectors."""
    area = {"x_size": 4, "y_size": 1, "c_size": 1, "x_stride": 1}
    programs = {}
    for x in range(3):
        steps: list[Any] = [
            ("CTRL", "WAIT", {"queue": LOAD, "stream": 0, "count": 4}),
            ("LOAD", "ACC8", {"pp": 2, **area}),
            ("CTRL", "SEND", {"queue": LOAD, "stream": 0 if x == 0 else 1, "count": 1,
                              "x": max(0, x - 1), "host": int(x == 0)}),
            ("ALU", "MOV", {"uops": 1, "n_out": 1, "n_in": 4, "dst_in": 1, "src_in": 1, "source": 1,
                            "out": 1}),
        ]  # fmt: skip
        if x < 2:
            steps.append(("CTRL", "WAIT", {"queue": STORE, "stream": 1, "count": 1}))
        kind = "REMOTE" if x < 2 else "HOST"
        steps.append(("STORE", kind, {"x": (x + 1) % 3, "stream": 0, "pp": 2 * (x < 2), **area}))
        steps.append(("CTRL", "END", {"queue": STORE, "drain": 1}))
        made = program_of(steps, [[0] * 6])
        wait, signal = np.zeros(len(steps), np.uint8), np.zeros(len(steps), np.uint8)
        signal[1], wait[3], signal[3], wait[-2] = 1 << ALU, 1 << LOAD, 1 << STORE, 1 << ALU
        programs[x, 0] = made._replace(wait=wait, signal=signal)
    streams = {(x, 0): [0, slots] + [0] * 14 for x in range(2)}
    inputs = HostInputs(
        np.zeros((4, 2), np.int64), np.zeros(4, np.int64), np.arange(4), np.full(4, 16),
        np.full(4, slots), np.zeros(4, np.int64),
    )  # fmt: skip
    host = HostPort((0, 0), inputs)
    return MeshChip(TINY, Mesh(3, 1), programs, streams, [host])


def test_a_pipeline_by_hand() -> None:
    """Four input flits, one per cycle, reach core 0 in consecutive cycles.

    A load of four vectors, two per cycle, takes 6, the move 8, the store of four flits 7.
    """
    found = run_mesh(pipeline(), keep=[0], flits=True)
    first = found.cores[0, 0]
    assert first.start[0].tolist() == [1, 6, 12, 12, 5, 20, 27]
    assert first.end[0].tolist() == [6, 12, 13, 20, 6, 27, 28]
    # offered from 23 on, entered in that cycle, and received two cycles later
    assert found.cores[1, 0].start[0, 1] == 23 + 2 + 3 + 2
    assert found.completed.tolist() == [found.cores[2, 0].end[0, -2] - 1 + 3 + 1]


@pytest.mark.jit
@pytest.mark.parametrize("slots", [1, 2])
def test_ten_thousand_frames_without_drift(slots: int) -> None:
    """Nothing is lost, and frame intervals are constant: two slots hide the latency of credits."""
    chip = pipeline(slots)
    found = run_mesh(chip, 10_000)
    periods = np.diff(found.completed)[3:]
    assert set(periods.tolist()) == {periods[0]}
    assert periods[0] == 26  # of the store: two cycles from its end to the next fetch
    assert found.left.tolist() == [10 * 10_000, 5 * 10_000, 4 * 10_000]  # maps and credits
    assert found.links[0].tolist() == [[4 * 10_000, 4 * 10_000, 0]]
    assert found.links[1].tolist() == [[0, 5 * 10_000, 5 * 10_000]]


def stuck(steps: list[Any], *masks: tuple[int, int], **more: Any) -> MeshChip:
    made = program_of(steps, [[0, 0, 7, 0, 0, 0]])
    rows = [*masks, *[(0, 0)] * (len(steps) - len(masks))]
    wait, signal = np.array(rows, np.uint8).reshape(-1, 2).T
    made = made._replace(wait=wait.copy(), signal=signal.copy())
    return MeshChip(TINY, Mesh(2, 1), {(1, 0): made}, **more)


def waits_for_credits() -> MeshChip:
    """Return a host that gets no credit for the second frame."""
    chip = pipeline(1)
    program = chip.programs[0, 0]
    fields = program.fields.copy()
    fields[2, FIELDS[Op.CTRL, 2].index("count")] = 0
    return chip._replace(programs={**chip.programs, (0, 0): program._replace(fields=fields)})


PRODUCTS = ("GEMM", "INT8", {"uops": 1, "n_out": 1, "n_in": 4, "dyn": 1})
DEADLOCKS: list[tuple[MeshChip, str]] = [
    (
        stuck([("LOAD", "INP", {}), ("ALU", "MOV", {})], (4, 4), (1, 1)),
        r"core \(1, 0\): LOAD waits at instruction 0 for a token of ALU; "
        r"core \(1, 0\): ALU waits at instruction 1 for a token of LOAD",
    ),
    (
        stuck([("CTRL", "WAIT", {"queue": STORE, "stream": 3, "count": 9})],
              streams={(1, 0): [8] * 16}),
        r"core \(1, 0\): STORE waits at instruction 0 for 9 of stream 3, which has counted 8",
    ),
    (
        stuck([PRODUCTS, ("ALU", "MOV", {})], (0, 0), (2, 0)),
        r"core \(1, 0\): GEMM waits at instruction 0 for weight word 7; words below 0 have "
        r"arrived; core \(1, 0\): ALU waits at instruction 1 for a token of GEMM",
    ),
    (
        waits_for_credits(),
        r"host port \(0, 0\): frame 1 waits for a credit of stream 0 of core \(0, 0\); "
        r"core \(0, 0\): LOAD waits at instruction 0 of frame 1 for 4 of stream 0, .* 4 more",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("chip", "says"), DEADLOCKS)
def test_deadlocks_name_units_and_causes(chip: MeshChip, says: str) -> None:
    with pytest.raises(ChipError, match=f"deadlock: {says}"):
        run_mesh(chip, 2)


REFUSED: list[tuple[MeshChip, str]] = [
    (stuck([("STORE", "REMOTE", {"x": 5})]), r"0 \(STORE.REMOTE\): core \(5, 0\) has no program"),
    (stuck([("STORE", "HOST", {})]), r"0 \(STORE.HOST\): node \(0, 0\) has no host port; .* none"),
    (stuck([("CTRL", "SEND", {"host": 1})], hosts=[HostPort((1, 0))]), r"host ports: \(1, 0\)"),
    (stuck([("CTRL", "SEND", {"host": 1})], hosts=[HostPort((0, 0))]), "no input from the host"),
    (stuck([("LOAD", "WSTREAM", {"words": 1})]), r"0 \(LOAD.WSTREAM\) requests weights"),
    (stuck([], hosts=[HostPort((2, 0))]), r"host port \(2, 0\) is outside the mesh, 2x1"),
    (stuck([], streams={(0, 0): [0] * 16}), r"streams of core \(0, 0\), which has no program"),
    (stuck([], streams={(1, 0): [0] * 4}), "give 16 counts"),
    (stuck([("CTRL", "WAIT", {"queue": LOAD}), ("CTRL", "WAIT", {"queue": STORE})]),
     "LOAD and STORE both wait for stream 0"),
    (stuck([("STORE", "LOCAL", {}), ("CTRL", "BASE", {"space": 1, "value": 8})]),
     "instruction 0 differs between first and second frame"),
    (stuck([("CTRL", "NOP", {"queue": LOAD})] * 20, *[(0, 1 << ALU)] * 20),
     r"core \(1, 0\): 16 tokens of LOAD wait for ALU, whose counter holds 15"),
    (stuck([], link=HostLink(0)), "latency 0 cycles"),
]  # fmt: skip


def test_two_results_at_one_address_are_rejected() -> None:
    area = {"x_size": 2, "y_size": 1, "c_size": 1, "x_stride": 0}
    chip = stuck([("STORE", "HOST", area)], hosts=[HostPort((0, 0))])
    with pytest.raises(ChipError, match="frame 0: 1 of 2 flits at the host; several stores"):
        run_mesh(chip, 2)


@pytest.mark.parametrize(("chip", "says"), REFUSED)
def test_inconsistent_chips_are_rejected(chip: MeshChip, says: str) -> None:
    with pytest.raises(ChipError, match=says):
        run_mesh(chip, 2)
    with pytest.raises(ChipError, match="0 frames"):
        run_mesh(pipeline(), 0)
