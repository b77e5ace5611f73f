"""Compiling the kernels once per installation, and saying so."""

from __future__ import annotations

import hashlib
import os
import sys
import tempfile
from pathlib import Path

from rich.console import Console


def _marker() -> Path:
    """A file that exists once this very code has been compiled for this interpreter."""
    import llvmlite
    import numba

    import chipsim
    import mapper
    import storage

    digest = hashlib.sha256(repr((sys.version, numba.__version__, llvmlite.__version__)).encode())
    for package in (mapper, storage, chipsim):
        folder = Path(str(package.__file__)).parent
        for source in sorted(folder.rglob("*.py")):
            status = source.stat()
            digest.update(f"{source}{status.st_mtime_ns}{status.st_size}".encode())
    cache = os.environ.get("NUMBA_CACHE_DIR") or os.environ.get("XDG_CACHE_HOME")
    home = Path(cache) if cache else Path.home() / ".cache"
    return home / "mapper" / f"compiled-{digest.hexdigest()[:16]}"


def compile_once(console: Console) -> None:
    """Map a tiny network where this installation never mapped one, so that numba fills its cache.

    The first use after an installation takes its time here and says why; all later ones, and the
    timings that a run reports, are free of compilation.
    """
    import numba

    try:
        marker = _marker()
    except (OSError, RuntimeError):  # no home folder: compile as it comes
        return
    if numba.config.DISABLE_JIT or marker.exists():  # type: ignore[attr-defined]
        return
    console.print("compiling kernels (first use of this installation, up to a minute) ...")
    _map_tiny_networks()
    console.print("compiling kernels: done")
    try:
        marker.parent.mkdir(parents=True, exist_ok=True)
        for old in marker.parent.glob("compiled-*"):
            old.unlink(missing_ok=True)
        marker.touch()
    except OSError:
        pass  # a read-only home: the message will come again, nothing else


def _map_tiny_networks() -> None:
    import numpy as np

    from chipsim.chip import Chip
    from mapper.monitor import Monitor
    from mapper.pipeline import map_network
    from mapper.settings import Settings
    from mapper.verify import verify_network
    from storage.network import NetworkFile
    from storage.scratch import Scratch
    from storage.writer import NetworkWriter

    rng = np.random.default_rng(0)
    source, target = rng.integers(0, 300, (2, 3000))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "net.bin"
        for undirected in (False, True):
            with NetworkWriter(path, 300, undirected=undirected, memory=1 << 16) as writer:
                writer.add(source, target, source % 5)
                writer.finish()
            chip = Chip(name="tiny", width=4, height=4, neurons=32)
            with NetworkFile(path) as network, Scratch(Path(folder) / "scratch") as scratch:
                map_network(network, chip, Settings(memory_bytes=1 << 26), scratch, Monitor())
            verify_network(path)
