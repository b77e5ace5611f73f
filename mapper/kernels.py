"""Compiling the kernels once per installation, and saying so."""

from __future__ import annotations

import hashlib
import os
import sys
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console


def _marker() -> Path:
    """A file that exists once this very code has been compiled for this interpreter.

    Its name begins with a hash of where the code is, so that installations do not share it.
    """
    import llvmlite
    import numba

    import chipsim
    import mapper
    import storage

    place = hashlib.sha256(f"{Path(mapper.__file__).parent} {sys.prefix}".encode())
    digest = hashlib.sha256(repr((sys.version, numba.__version__, llvmlite.__version__)).encode())
    for package in (mapper, storage, chipsim):
        folder = Path(str(package.__file__)).parent
        for source in sorted(folder.rglob("*.py")):
            status = source.stat()
            digest.update(f"{source}{status.st_mtime_ns}{status.st_size}".encode())
    cache = os.environ.get("NUMBA_CACHE_DIR") or os.environ.get("XDG_CACHE_HOME")
    home = Path(cache) if cache else Path.home() / ".cache"
    return home / "mapper" / f"compiled-{place.hexdigest()[:8]}-{digest.hexdigest()[:16]}"


def forget_kernels() -> None:
    """Remove what numba has compiled of these packages.

    It notices when the file of a kernel changes, but not when a kernel that is called from there
    does, in a file of its own.
    """
    import pkgutil
    from importlib import import_module

    import chipsim
    import mapper
    import storage

    for package in (mapper, storage, chipsim):
        for found in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            if found.name.endswith("__main__"):
                continue
            module = import_module(found.name)
            stats = [getattr(value, "stats", None) for value in vars(module).values()]
            folders = {getattr(stat, "cache_path", None) for stat in stats}
            for folder in filter(None, folders):
                for file in Path(folder).glob(f"{found.name.rsplit('.', 1)[-1]}.*.nb?"):
                    file.unlink(missing_ok=True)


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
    console.print("compiling kernels, once after installation; takes up to two minutes ...")
    begun = marker.with_name(f"{marker.name}-begun")
    with suppress(OSError):  # a read-only home: the message will come again, nothing else
        if not begun.exists():  # else what a run that was killed has compiled is good
            marker.parent.mkdir(parents=True, exist_ok=True)
            forget_kernels()
            begun.touch()
    try:
        _map_tiny_networks()
    except OSError:  # no room for temporary files: the kernels are compiled when they are used
        return
    console.print("compiling kernels: done")
    with suppress(OSError):
        marker.touch()
        for old in marker.parent.glob(f"{marker.name.rpartition('-')[0]}-*"):
            if old != marker:
                old.unlink(missing_ok=True)


def _map_tiny_networks() -> None:
    from dataclasses import replace

    import numpy as np

    from chipsim.chip import Chip
    from mapper.monitor import Monitor
    from mapper.output import make_report, write_results
    from mapper.partition.bisection import whole
    from mapper.pipeline import map_network
    from mapper.placement.portfolio import place
    from mapper.placement.region import choose_region
    from mapper.settings import PRESETS, preset
    from mapper.verify import verify_network
    from mapper.verify_mapping import verify_mapping
    from storage.formats import export_network, import_network
    from storage.memory import MemoryGraph
    from storage.network import NetworkFile
    from storage.packed import pack_lists, unpack_lists
    from storage.scratch import Scratch
    from storage.writer import NetworkWriter

    rng = np.random.default_rng(0)
    source, target = rng.integers(0, 300, (2, 3000))
    chip = Chip(name="tiny", width=4, height=4, neurons=32)
    presets = [
        preset(name, memory_bytes=1 << 28, block_vertices=64, degree=8, cycles=1)
        for name in PRESETS
    ]
    presets.append(replace(presets[0], preset="multicast", objective="multicast"))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        path = folder / "net.bin"
        for undirected in (False, True):
            with NetworkWriter(path, 300, undirected=undirected, memory=1 << 16) as writer:
                writer.add(source, target, source % 5)
                writer.finish()
            with NetworkFile(path) as network:
                for settings in presets:
                    with Scratch(folder / f"{settings.preset}-{undirected}") as scratch:
                        monitor = Monitor()
                        mapping = map_network(network, chip, settings, scratch, monitor)
                report = make_report(network, path, chip, settings, mapping, monitor)
                write_results(folder, report, mapping, chip)
                for text in ("net.graph", "net.csv"):
                    export_network(network, folder / text)
                    import_network(folder / text, folder / "again.bin")
            verify_network(path)
            verify_mapping(folder, report, path)
    for most in (1, 1 << 12, 1 << 28):  # numbers of one, two and four bytes
        numbers = np.arange(8, dtype=np.int32) * most
        unpack_lists(pack_lists(np.array([0, 8]), numbers, numbers))
    groups = whole(MemoryGraph.from_edges(256, *np.indices((256, 256)).reshape(2, -1)))
    region = choose_region(np.ones((16, 16), np.bool_), 256)
    place(groups, region, "fast", rng)  # dense graphs are split by kernels of their own
