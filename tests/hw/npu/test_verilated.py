"""Random programs on the exported Verilog of the `tiny` core, outside Python."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from chipsim.chip.npu_shape import NPU_SHAPES
from hw.flow.netlist import verilog
from hw.npu.core_run import Credit
from hw.npu.isa.encoding import encode_micro_ops, encode_program
from hw.npu.isa.table import UNITS, MicroOp
from hw.npu.synthesis import core_netlist
from tests.hw.npu.programs import unit_of
from tests.hw.npu.three_ways import MARGIN, Wanted, programs_from
from tests.hw.npu.verilated import REQUEST, TO_HOST, VerilatedCore, VerilatedRun
from tests.hw.verilator import INSTALLED, MISSING

TINY = NPU_SHAPES["tiny"]
PROGRAMS = 50
pytestmark = [pytest.mark.jit, pytest.mark.skipif(not INSTALLED, reason=MISSING)]


def contents_of(wanted: Wanted) -> dict[str, bytes]:
    """Return the bytes of all memories that flits can load."""
    table = wanted.case.table
    micro_ops = [MicroOp(*row) for row in table["micro_ops"].tolist()]
    return {
        "FM": table["maps"].tobytes(),
        "WM": table["weights"].tobytes(),
        "PM": table["parameters"].astype("<i4").tobytes(),
        "UM": encode_micro_ops(micro_ops),
        "IM": encode_program(wanted.instructions),
        "HM": table["headers"].astype("<u8").tobytes(),
    }


def require_equal(found: VerilatedRun, wanted: Wanted) -> None:
    """Memories, flits for the host, and the cycles of all starts and ends are equal."""
    for name, lanes in found.memories.items():
        assert np.array_equal(lanes, wanted.memories[name]), (wanted.seed, name)
    sent = [flit for flit in found.sent if flit[2] == TO_HOST]
    vectors = [np.array([flit[5]], "<u4").view(np.int8).tolist() for flit in sent]
    host = [(flit[4], vector) for flit, vector in zip(sent, vectors, strict=True)]
    assert host == wanted.host, wanted.seed
    credits = [
        Credit(x, y, stream, data >> 16)
        for x, y, kind, stream, address, data in found.sent
        if kind == REQUEST and address == 0
    ]
    assert sorted(credits) == sorted(wanted.credits), wanted.seed
    units = [unit_of(each) for each in wanted.instructions]
    for unit in range(len(UNITS)):
        mine = [at for at, other in enumerate(units) if other == unit]
        start = [cycle for cycle, begins in enumerate(found.started) if begins >> unit & 1]
        end = [cycle + 1 for cycle, ends in enumerate(found.ended) if ends >> unit & 1]
        assert start == [wanted.start[at] for at in mine], (wanted.seed, UNITS[unit])
        assert end == [wanted.end[at] for at in mine], (wanted.seed, UNITS[unit])


@pytest.mark.heavy
@pytest.mark.sample(0.1)
def test_random_programs_in_verilator(tmp_path: Path) -> None:
    """Fifty programs, tables and products among them: equal in memories and cycles."""
    core = VerilatedCore(verilog(core_netlist(TINY)), tmp_path)
    kinds: list[str] = []
    for wanted in programs_from(TINY, 0, PROGRAMS):
        most = max(wanted.end) + MARGIN
        found = core.run(contents_of(wanted), wanted.counted, wanted.link, wanted.odd, most)
        require_equal(found, wanted)
        kinds += [each.kind for each in wanted.instructions]
    assert min(kinds.count(kind) for kind in ("LOOKUP", "MUL", "INT8", "WSTREAM")) > 5
