"""Causes of stalls of NPU units."""

from __future__ import annotations

from chipsim.npu.cycles import UNITS

CAUSES = (
    "fetch", *(f"token of {unit}" for unit in UNITS),
    "stream", "credit", "router", "weights", "bank", "no more work",
)  # fmt: skip
"""Stream: data of another core; credit: a consumer has not freed its slot; router: the mesh does
not accept the flit; bank: a store's bank is receiving."""
FETCH, TOKEN = 0, 1
STREAM, CREDIT, ROUTER, WEIGHTS, BANK, DONE = range(TOKEN + len(UNITS), len(CAUSES))
