# amaranth: UnusedElaboratable=no
# (rejected chips are never elaborated)
"""Chips of NPU cores in Amaranth against the mesh simulator, flit by flit."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from chipsim.chip.npu_shape import NPU_SHAPES
from chipsim.errors import ChipError
from chipsim.npu.mesh.run import run_mesh
from hw.errors import HwError
from hw.npu.chip import ChipParts, MixedChip
from hw.npu.flit import NpuFlit
from hw.npu.host import HostSide
from hw.npu.isa.encoding import encode
from hw.npu.isa.table import Instruction
from hw.npu.loading import contents_flits, frames_flit
from hw.npu.memories.memories import Contents
from hw.npu.run import NpuSimulator
from mapper.compiler.artifacts.chip_hardware import first_difference
from tests.chipsim.npu.mesh_programs import random_chip
from tests.hw.npu.mesh_chips import contents_of_all, hardware_of, require_equal, sides_of, work_of
from tests.hw.npu.programs import END

TINY = NPU_SHAPES["tiny"]
CHIPS = int(os.environ.get("NPU_CHIPS", "8"))
"""Number of random chips."""
FRAMES = 2


@pytest.mark.heavy
@pytest.mark.sample(0.25)
@pytest.mark.jit
@pytest.mark.parametrize("seed", range(CHIPS))
def test_chips_equal_the_simulator(seed: int) -> None:
    """Starts and ends of all instructions of all frames, deliveries of all flits."""
    chip = random_chip(seed)
    chip = chip._replace(shape=replace(chip.shape, payload_bits=32))
    try:
        wanted = run_mesh(chip, FRAMES, keep=range(FRAMES), flits=True)
    except ChipError as error:
        pytest.skip(str(error))
    sides = sides_of(chip, FRAMES, np.random.default_rng(seed))
    work = work_of(chip, wanted)
    found = NpuSimulator(hardware_of(chip)).run(sides, FRAMES, chip.begins, work=work)
    require_equal(chip, found, wanted)


@pytest.mark.heavy
@pytest.mark.sample(0.5)
@pytest.mark.jit
@pytest.mark.parametrize("seed", [0, 2])
def test_contents_loaded_by_flits(seed: int) -> None:
    """N3.3: loading by flits equals initial contents, in memories and in behaviour of cores.

    A flit of kind 7 starts the frames of a core, and flits of kind 3 provide its first credits.
    """
    chip = random_chip(seed)
    chip = chip._replace(shape=replace(chip.shape, payload_bits=32))
    rng = np.random.default_rng(seed)
    shape = chip.shape
    given = contents_of_all(chip)
    npus = {
        place: contents._replace(
            parameters=rng.integers(-(1 << 31), 1 << 31, (5, 16)).astype(np.int32),
            weights=rng.integers(-128, 128, (7, shape.rows, shape.columns)).astype(np.int8),
            maps=rng.integers(256, size=(9, shape.columns)).astype(np.uint8),
            headers=[int(each) for each in rng.integers(1 << 60, size=3)],
        )
        for place, contents in given.items()
    }  # fmt: skip
    sides, work = sides_of(chip, 1, rng), work_of(chip, run_mesh(chip, flits=True))
    wanted = NpuSimulator(hardware_of(chip, npus)).run(sides, work=work)
    empty = hardware_of(chip, dict.fromkeys(npus, Contents()))
    flits = [
        flit
        for place, contents in npus.items()
        for flit in contents_flits(shape, empty.layout, place, contents)
    ]
    found = NpuSimulator(empty).run(sides, before=flits, work=work)
    assert found.loaded >= len(flits) and wanted.loaded < 10
    for place, memories in wanted.memories.items():
        for name, words in memories.items():
            assert found.memories[place][name] == words, (place, name)
    assert any(any(words) for words in found.memories[next(iter(npus))].values())
    # Arbiters have moved since, so flits may come in another order, but they are the same.
    assert sorted(one.flit for one in found.deliveries) == sorted(
        one.flit for one in wanted.deliveries
    )


@pytest.mark.heavy
@pytest.mark.sample(0.25)
def test_frames_started_by_a_flit() -> None:
    """One core runs its frames, from an instruction on; the other one gets no flit."""
    end = [int.from_bytes(encode(END), "little")]
    nop = int.from_bytes(encode(Instruction("CTRL", "NOP")), "little")
    parts = ChipParts({(0, 0): Contents([nop, *end]), (1, 0): Contents([nop, *end])})
    chip = MixedChip(2, 1, TINY, parts)
    before = [frames_flit((1, 0), 3, 1)]
    found = NpuSimulator(chip).run([HostSide()], 0, before=before)
    assert [len(each) for each in found.started[0, 0]] == [0, 0, 0, 0]
    assert [len(each) for each in found.started[1, 0]] == [0, 0, 0, 3]


@pytest.mark.heavy
@pytest.mark.sample(0.5)
def test_missing_host_weights_are_named() -> None:
    asks = Instruction("LOAD", "WSTREAM", 0, 0, {"words": 2, "host": 3})
    program = [int.from_bytes(encode(each), "little") for each in (asks, END)]
    chip = MixedChip(1, 1, TINY, ChipParts({(0, 0): Contents(program)}))
    side = HostSide(weights=np.zeros((4, 4, 4), np.int8))
    with pytest.raises(HwError, match="requests weight words 3 to 4; the host has 4"):
        NpuSimulator(chip).run([side])


@pytest.mark.heavy
@pytest.mark.sample(0.25)
def test_a_hanging_run_is_aborted() -> None:
    waits = Instruction("CTRL", "WAIT", 0, 0, {"stream": 2, "count": 1})
    program = [int.from_bytes(encode(each), "little") for each in (waits, END)]
    chip = MixedChip(1, 1, TINY, ChipParts({(0, 0): Contents(program)}))
    with pytest.raises(HwError, match=r"nothing has moved for 50 cycles.*cores \(0, 0\) have"):
        NpuSimulator(chip).run([HostSide()], patience=50)


@pytest.mark.parametrize(("change", "text"), [
    ({"npus": {(2, 0): Contents()}}, r"NPU core \(2, 0\) is outside the 2x1 mesh"),
    ({"hosts": [(0, 0), (0, 0)]}, "two host ports share a node"),
    ({"ports": {(0, 0): (1, 0)}}, r"core \(0, 0\) uses host port \(1, 0\), which does not exist"),
])  # fmt: skip
def test_misplaced_parts_are_named(change: dict[str, Any], text: str) -> None:
    with pytest.raises(HwError, match=text):
        MixedChip(2, 1, TINY, ChipParts({(0, 0): Contents()})._replace(**change))


def test_payloads_without_a_port_are_named() -> None:
    with pytest.raises(HwError, match="payload_bits is 48; give one of 32, 64, 128, 256, 512"):
        NpuFlit(replace(TINY, payload_bits=48), 1, 1)


def test_layouts_of_the_issue() -> None:
    """N10.1: 94 bits on 8x8; spikes have their own layout."""
    layout = NpuFlit(NPU_SHAPES["npu"], 3, 3)
    assert layout.size == 94
    names = ("x", "y", "kind", "stream", "address", "data")
    assert [layout[name].width for name in names] == [3, 3, 3, 4, 17, 64]


@pytest.mark.heavy
@pytest.mark.sample(0.5)
def test_differences_are_reported() -> None:
    """Differences that `first_difference` finds: a start, an end of a frame, a flit."""
    chip = random_chip(0)
    chip = chip._replace(shape=replace(chip.shape, payload_bits=32))
    times = run_mesh(chip, 1, keep=[0], flits=True)
    found = NpuSimulator(hardware_of(chip)).run(sides_of(chip, 1, np.random.default_rng(0)))
    require_equal(chip, found, times)
    place = next(iter(chip.programs))
    unit = next(n for n, cycles in enumerate(found.started[place]) if cycles)
    later = {**found.started, place: [[c + (n == unit) for c in each]
                                      for n, each in enumerate(found.started[place])]}  # fmt: skip
    assert "start of instruction 0" in str(
        first_difference(chip, found._replace(started=later), times)
    )
    idle = {**found.idle, place: [0]}
    assert "frames end in cycles" in str(first_difference(chip, found._replace(idle=idle), times))
    assert found.deliveries
    moved = [found.deliveries[0]._replace(node=99), *found.deliveries[1:]]
    assert "flits" in str(first_difference(chip, found._replace(deliveries=moved), times))
    assert "frames complete" in str(first_difference(chip, found._replace(completed=[0]), times))
