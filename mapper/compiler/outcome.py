"""Figures and notes of a compilation that are not in its report."""

from __future__ import annotations

from typing import NamedTuple

from mapper.compiler.compiled import Compiled
from mapper.compiler.tiling.packing import PackingCycles

Value = int | float | str


class CompileOutcome(NamedTuple):
    """Figures and notes of a compiled model.

    rows : figures by name; missed, notes : see `Compiled`
    attempts : number of quantisations that were verified
    """

    rows: dict[str, Value]
    missed: list[str]
    notes: list[str]
    attempts: int

    @classmethod
    def of(cls, compiled: Compiled, pack: str) -> CompileOutcome:
        """Return the outcome of a compilation. pack : option `--pack`"""
        rows: dict[str, Value] = {
            "macro nodes": len(compiled.macros),
            "nodes on the host": sum(step["do"] == "node" for step in compiled.host),
            **_cycles(compiled),
            **_packing(compiled.packing, pack),
            "instructions": sum(len(code.program) for code in compiled.codes),
            "micro-ops": sum(len(code.tables.micro_ops) for code in compiled.codes),
            "weight words": sum(len(code.tables.weights) for code in compiled.codes),
            "parameter words": sum(len(code.tables.parameters) for code in compiled.codes),
        }
        attempts = [] if compiled.verified is None else compiled.verified.attempts
        if compiled.verified is not None and attempts:
            signal = attempts[compiled.verified.number].score.signal
            rows["SQNR"] = "no error" if signal is None else f"{signal:.1f} dB"
        if compiled.missed:
            rows["misses limits"] = "; ".join(compiled.missed)
        return cls(rows, compiled.missed, compiled.notes, len(attempts))


def _packing(cost: PackingCycles, pack: str) -> dict[str, Value]:
    """Return the cycles of bit packing on the core and on the host; {} without bit packing."""
    if not cost.transfers:
        return {}
    asked: dict[str, Value] = {}
    if pack == "host":
        asked["cycles, bits packed by the host"] = cost.by_host
    return asked | {
        "cycles of packing on the core": cost.core,
        "cycles of packing by the host": cost.host,
    }


def _cycles(compiled: Compiled) -> dict[str, Value]:
    """Return the cycles per frame, for several cores of the busiest core."""
    if len(compiled.codes) == 1:
        return {"cycles per frame": compiled.cycles}
    return {"cores": len(compiled.codes), "cycles of the busiest core": compiled.cycles}
