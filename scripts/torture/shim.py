"""Build `shim.c`, and set its fault in the process of a command."""

from __future__ import annotations

import ctypes
import errno
import os
import shutil
import struct
import subprocess
from pathlib import Path
from typing import NamedTuple

SOURCE = Path(__file__).with_name("shim.c")
CLASSES = (
    "open", "read", "write", "sync", "rename", "unlink", "truncate", "mkdir", "lock", "map",
    "allocate",
)  # fmt: skip
ACTIONS = ("none", "kill", "after", "torn", "short", "error", "lost", "reordered")
FIRED, SLOTS = 15, 16
FULL, BROKEN = errno.ENOSPC, errno.EIO
DIES = ("kill", "after", "torn", "lost", "reordered")
_KILLS = (("kill", 0), ("after", 0), ("lost", 0), ("reordered", 0))
FAULTS: dict[str, tuple[tuple[str, int], ...]] = {
    "open": (*_KILLS, ("error", BROKEN), ("error", FULL), ("error", errno.EMFILE),
             ("error", errno.EACCES)),
    "read": (("kill", 0), ("short", 0), ("short", 0), ("error", BROKEN)),
    "write": (*_KILLS, ("torn", 0), ("torn", 0), ("short", 0), ("error", BROKEN), ("error", FULL),
              ("error", FULL)),
    "sync": (*_KILLS, ("error", BROKEN), ("error", FULL)),
    "rename": (*_KILLS, ("error", BROKEN), ("error", FULL), ("error", errno.EACCES)),
    "unlink": (*_KILLS, ("error", BROKEN), ("error", errno.EACCES)),
    "truncate": (*_KILLS, ("error", BROKEN), ("error", FULL)),
    "mkdir": (*_KILLS, ("error", BROKEN), ("error", FULL), ("error", errno.EACCES)),
    "lock": (("kill", 0), ("after", 0), ("error", BROKEN), ("error", errno.ENOLCK)),
    "map": (("kill", 0), ("error", errno.ENOMEM), ("error", errno.ENODEV)),
    "allocate": (("kill", 0), ("error", errno.ENOMEM), ("error", errno.ENOMEM)),
}  # fmt: skip
"""Faults of each class of calls, with the error number of errors; some count twice."""


class Fault(NamedTuple):
    """A fault at a call.

    call : class of calls; nth : number of the call, 0 for none
    sticky : whether later calls of the class fail as well
    """

    call: str = "write"
    nth: int = 0
    action: str = "none"
    error: int = 0
    sticky: bool = False
    seed: int = 0

    def __str__(self) -> str:
        if not self.nth:
            return f"power cut at the end, {self.action}"
        name = errno.errorcode.get(self.error, "") if self.action == "error" else self.action
        return f"{name} at {self.call} {self.nth}{' and all later' if self.sticky else ''}"


def build(folder: Path) -> Path | None:
    """Compile the shim; return None if there is no compiler."""
    compiler = shutil.which("cc")
    if compiler is None:
        return None
    path = folder / "shim.so"
    words = [compiler, "-O1", "-shared", "-fPIC", "-o", str(path), str(SOURCE), "-ldl", "-lpthread"]
    subprocess.run(words, check=True)
    return path


class Shim:
    """The shim in this process and its forks, which is loaded with LD_PRELOAD.

    root : folder whose files get faults; spare : folder for its files, on the same file system
    """

    def __init__(self, root: Path, spare: Path) -> None:
        self._root, self._spare = root, spare
        self._counts = spare / "counts"
        self._library = ctypes.CDLL(None)

    def arm(self, fault: Fault) -> None:
        """Set the fault of this process, a fork, and of the processes that it starts."""
        self._counts.write_bytes(bytes(8 * SLOTS))
        journal = fault.action in ("lost", "reordered")
        os.environ |= {
            "TORTURE_ROOT": str(self._root), "TORTURE_SPARE": str(self._spare),
            "TORTURE_COUNTS": str(self._counts), "TORTURE_CLASS": str(CLASSES.index(fault.call)),
            "TORTURE_NTH": str(fault.nth), "TORTURE_ACTION": str(ACTIONS.index(fault.action)),
            "TORTURE_ERRNO": str(fault.error), "TORTURE_STICKY": str(int(fault.sticky)),
            "TORTURE_JOURNAL": str(int(journal)), "TORTURE_SEED": str(fault.seed),
        }  # fmt: skip
        if self._library.torture_arm() != 1:
            raise RuntimeError("the shim cannot read its settings")

    def power_cut(self) -> None:
        """Lose all that is not synced, at the end of a command."""
        self._library.torture_power_cut()

    def counts(self) -> tuple[dict[str, int], bool]:
        """Return the number of calls of each class in the last command, and whether it failed."""
        found = struct.unpack(f"{SLOTS}Q", self._counts.read_bytes())
        return dict(zip(CLASSES, found, strict=False)), bool(found[FIRED])
