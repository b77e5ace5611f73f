"""Overlapping frames on a chip give the bytes of sequential frames, or the check reports an
error."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from chipsim.errors import ChipError
from chipsim.npu.execute import Frame, NpuChip
from chipsim.npu.mesh.chip import MeshChip
from chipsim.npu.mesh.run import run_mesh
from chipsim.npu.records import FIELDS, KINDS, Op
from chipsim.npu.replay import Results, in_turn, overlapped
from tests.chipsim.npu.test_mesh_run import pipeline

FRAMES = 5


def both(chip: MeshChip) -> tuple[tuple[list[Results], Frame], tuple[list[Results], Frame]]:
    """Return results and memories of sequential frames, and of overlapping frames."""
    functional = NpuChip(chip.shape, chip.programs, chip.streams)
    rng = np.random.default_rng(0)
    columns = chip.shape.columns
    inputs: list[list[NDArray[np.int8]]] = [
        [
            rng.integers(-128, 128, (len(port.inputs.stream), columns)).astype(np.int8)
            for port in chip.hosts
        ]
        for _ in range(FRAMES)
    ]
    times = run_mesh(chip, FRAMES, keep=range(FRAMES), flits=True)
    assert times.cores[0, 0].start[1].min() < times.completed[0]  # frames overlap
    return in_turn(chip, functional, inputs), overlapped(chip, functional, inputs, times)


def changed(chip: MeshChip, at: int, **values: int) -> MeshChip:
    """Return the chip with other fields of an instruction, on all cores that have it."""
    programs = {}
    for place, program in chip.programs.items():
        fields = program.fields.copy()
        names = FIELDS[int(program.op[at]), int(program.kind[at])]
        for name, value in values.items():
            if name in names:
                fields[at, names.index(name)] = value
        programs[place] = program._replace(fields=fields)
    return chip._replace(programs=programs)


@pytest.mark.jit
@pytest.mark.parametrize("slots", [1, 2])
def test_overlapping_frames_give_equal_bytes(slots: int) -> None:
    (wanted, before), (found, after) = both(pipeline(slots))
    assert len({one.vectors.tobytes() for one in wanted}) == FRAMES
    for one, other in zip(wanted, found, strict=True):
        assert one.address.tolist() == other.address.tolist() == [0, 1, 2, 3]
        assert np.array_equal(one.vectors, other.vectors)
    for x in range(3):
        for name, values in before.memory((x, 0)).items():
            assert np.array_equal(values, after.memory((x, 0))[name]), (x, name)


def test_slots_freed_too_early_are_named() -> None:
    """More credits than slots: the next frame overwrites unread data."""
    chip = changed(pipeline(1), 1, pp=0)
    chip = chip._replace(
        programs=changed(chip, 5, pp=0).programs,
        streams={place: [0, 4] + [0] * 14 for place in chip.streams},
        hosts=[
            one._replace(inputs=one.inputs._replace(odd=np.zeros(4, int), slots=np.full(4, 4)))
            for one in chip.hosts
        ],
    )
    with pytest.raises(ChipError, match=r"instruction 1 \(LOAD.ACC8\) changes while"):
        both(chip)


def test_a_row_read_too_early_is_named() -> None:
    """A wait for fewer vectors than the load reads: invisible with sequential frames."""
    chip = changed(pipeline(2), 0, count=1)
    with pytest.raises(ChipError, match=r"instruction 1 \(LOAD.ACC8\) changes while"):
        both(chip)


def test_results_overwritten_during_a_store_are_named() -> None:
    """A move that does not wait for the store of the previous frame."""
    chip = pipeline(2)
    programs = {}
    for place, program in chip.programs.items():
        # the move is repeated after the store in the program, and waits for nothing
        order = [0, 1, 2, 3, 4, 5, 3, 6] if place[0] < 2 else [0, 1, 2, 3, 4, 3, 5]
        wait, signal = program.wait[order].copy(), program.signal[order].copy()
        wait[-2] = signal[-2] = 0
        fields = program.fields[order].copy()
        names = FIELDS[Op.ALU, KINDS[Op.ALU].index("MOV")]
        for name, value in {"imm": 99, "source": 0, "n_in": 1}.items():
            fields[-2, names.index(name)] = value
        programs[place] = program._replace(
            op=program.op[order], kind=program.kind[order], wait=wait, signal=signal,
            fields=fields,
        )  # fmt: skip
    with pytest.raises(ChipError, match=r"instruction 5 \(STORE.REMOTE\) changes"):
        both(chip._replace(programs=programs))
