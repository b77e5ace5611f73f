"""What a unit that does not work waits for."""

from __future__ import annotations

from chipsim.npu.cycles import UNITS

CAUSES = (
    "fetch", *(f"token of {unit}" for unit in UNITS),
    "stream", "credit", "router", "weights", "bank", "no more work",
)  # fmt: skip
"""Stream: maps of another core; credit: that a consumer has read its slot; router: that the mesh
takes a flit; bank: that nothing is received into the bank of a store."""
FETCH, TOKEN = 0, 1
STREAM, CREDIT, ROUTER, WEIGHTS, BANK, DONE = range(TOKEN + len(UNITS), len(CAUSES))
