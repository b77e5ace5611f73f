"""Compile a Verilog design and a bench in C++ to a program, by Verilator."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

from hw.flow.yosys import find_program, find_yosys

VERILATOR = find_program("verilator", "verilator-cli")
COMPILER = shutil.which("c++")
MISSING = "needs Verilator, Yosys and a C++ compiler"
INSTALLED = VERILATOR is not None and COMPILER is not None and find_yosys() is not None


RANDOM = ("--x-assign", "unique", "--x-initial", "unique")
"""Options with which memories start with random bits."""


def built(
    text: str, top: str, bench: Callable[[str], str], folder: Path, more: Sequence[str] = ()
) -> Path:
    """Return the program of a bench.

    text : Verilog with the module `top`; its class is `Vtop`
    bench : returns the C++ source of the bench from the header of the class of the root module
    more : options of Verilator
    """
    assert VERILATOR is not None and COMPILER is not None
    (folder / "top.v").write_text(text)
    options = ["--cc", "-O3", "-Wno-fatal", "--prefix", "Vtop", "--top-module", top, *more]
    done([*VERILATOR, *options, "top.v"], folder)
    library = Path(done([*VERILATOR, "--getenv", "VERILATOR_ROOT"], folder).strip(), "include")
    header = (folder / "obj_dir" / "Vtop___024root.h").read_text()
    (folder / "bench.cpp").write_text(bench(header))
    sources = [
        *sorted((folder / "obj_dir").glob("*.cpp")),
        *(library / f"verilated{part}.cpp" for part in ("", "_threads")),
    ]
    includes = [f"-I{library}", f"-I{library / 'vltstd'}", "-Iobj_dir"]
    command = [COMPILER, "-std=c++17", "-O1", "-pthread", *includes, "bench.cpp"]
    done([*command, *map(str, sources), "-o", "bench"], folder)
    return folder / "bench"


def done(command: Sequence[str], folder: Path, given: str = "") -> str:
    """Run a program that must not fail; return its output."""
    found = subprocess.run(
        command, cwd=folder, input=given, capture_output=True, text=True, check=False
    )
    assert found.returncode == 0, found.stderr
    return found.stdout
