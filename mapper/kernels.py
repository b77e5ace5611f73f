"""Compiling the kernels once per installation, and saying so."""

from __future__ import annotations

import hashlib
import os
import sys
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from chipsim.chip import Chip

if TYPE_CHECKING:
    from rich.console import Console

    from mapper.settings import Settings


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


def _begun(code: Path) -> Path:
    """Of a `_marker`: a file that exists once all older kernels have been forgotten."""
    return code.with_name(f"{code.name}-begun")


def _begin(code: Path) -> None:
    for old in code.parent.glob(f"{code.name.rpartition('-')[0]}-*"):
        old.unlink(missing_ok=True)
    _begun(code).touch()


def trust_kernels() -> None:
    """Say that all compiled kernels are of this very code: the first use of it forgets none."""
    with suppress(OSError, RuntimeError):  # as without: they are compiled again
        code = _marker()
        code.parent.mkdir(parents=True, exist_ok=True)
        if not _begun(code).exists():
            _begin(code)


def compile_once(console: Console, work: str) -> None:
    """Work on a tiny scale where this installation never did, so that numba fills its cache.

    work : a key of `WORK`: what the kernels of a command are compiled by

    The first use after an installation takes its time here and says why; all later ones, and the
    timings that a run reports, are free of compilation.
    """
    import numba

    try:
        code = _marker()
    except (OSError, RuntimeError):  # no home folder: compile as it comes
        return
    marker = code.with_name(f"{code.name}-{work.replace(' ', '-')}")
    if numba.config.DISABLE_JIT or marker.exists():  # type: ignore[attr-defined]
        return
    console.print(
        f"compiling kernels to {work}, once after installation; takes a minute or two ..."
    )
    with suppress(OSError):  # a read-only home: the message will come again, nothing else
        if not _begun(code).exists():  # else what has been compiled since is good
            code.parent.mkdir(parents=True, exist_ok=True)
            forget_kernels()
            _begin(code)
    try:
        _work_on_tiny_networks(work)
    except OSError:  # no room for temporary files: the kernels are compiled when they are used
        return
    console.print("compiling kernels: done")
    with suppress(OSError):
        marker.touch()


TINY = Chip(name="tiny", width=4, height=4, neurons=32)
WORK = {  # presets to map with, objectives
    "read and write networks": ((), ()),
    "place groups": ((), ()),
    "score mappings": ((), ()),
    "simulate mappings": ((), ()),
    "map by classic": (("classic",), ("unicast",)),
    "map by hops": (("fast", "default", "strong"), ("unicast",)),
    "map by cut": (("fast", "default", "strong"), ("cut",)),
    "map for multicast": (("fast", "strong"), ("multicast",)),
}


def work_of(preset: str, objective: str | None) -> str:
    """The key of `WORK` for a run."""
    if preset == "classic":
        return "map by classic"
    names = {"cut": "map by cut", "multicast": "map for multicast"}
    return names.get(objective or "", "map by hops")


def _work_on_tiny_networks(work: str) -> None:
    import numpy as np

    from chipsim.noc.load import measure_load
    from chipsim.noc.mesh import Mesh
    from chipsim.noc.patterns import uniform
    from mapper.measure import measure_network
    from mapper.partition.bisection import whole
    from mapper.placement.portfolio import place
    from mapper.placement.region import choose_region
    from mapper.settings import preset
    from mapper.verify import verify_network
    from storage.formats import export_network, import_network
    from storage.memory import MemoryGraph
    from storage.network import NetworkFile
    from storage.packed import pack_lists, unpack_lists
    from storage.writer import NetworkWriter

    presets, objectives = WORK[work]
    rng = np.random.default_rng(0)
    if work.startswith(("place", "map")):
        groups = whole(MemoryGraph.from_edges(256, *np.indices((256, 256)).reshape(2, -1)))
        region = choose_region(np.ones((16, 16), np.bool_), 256)
        place(groups, region, "fast", rng)  # dense graphs are split by kernels of their own
    source, target = rng.integers(0, 300, (2, 3000))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        path = folder / "net.bin"
        for undirected in (False, True):
            with NetworkWriter(path, 300, undirected=undirected, memory=1 << 16) as writer:
                writer.add(source, target, source % 5)
                writer.finish()
            if work == "read and write networks":
                with NetworkFile(path) as network:
                    for text in ("net.graph", "net.csv"):
                        export_network(network, folder / text)
                        import_network(folder / text, folder / "again.bin")
                verify_network(path)
            if work in ("score mappings", "simulate mappings"):
                with NetworkFile(path) as network:
                    core = rng.integers(0, TINY.cores, 300).astype(np.int32)
                    measure_network(network, TINY, core)
            for objective in objectives:
                for kind in presets:
                    settings = preset(
                        kind, memory_bytes=1 << 28, block_vertices=64, degree=8, cycles=1,
                        objective=objective,
                    )  # fmt: skip
                    _map_tiny_network(path, settings)
    if work == "simulate mappings":
        mesh = Mesh(2, 2)
        measure_load(mesh, uniform(mesh, 0.1), cycles=2)
    for most in (1, 1 << 12, 1 << 28):  # numbers of one, two and four bytes
        numbers = np.arange(8, dtype=np.int32) * most
        unpack_lists(pack_lists(np.array([0, 8]), numbers, numbers))


def _map_tiny_network(path: Path, settings: Settings) -> None:
    from dataclasses import replace

    from mapper.monitor import Monitor
    from mapper.output import make_report, write_results
    from mapper.pipeline import map_network
    from mapper.verify_mapping import verify_mapping
    from storage.network import NetworkFile
    from storage.scratch import Scratch

    with NetworkFile(path) as network:
        # on levels, if it has them, and streamed
        for budget in {settings.level_budget, 0} if settings.method == "streamed" else {0}:
            tried = replace(settings, level_budget=budget)
            monitor = Monitor()
            with Scratch(Path(tempfile.mkdtemp(dir=path.parent)) / "scratch") as scratch:
                mapping = map_network(network, TINY, tried, scratch, monitor)
            monitor.stop.check()
        report = make_report(network, path, TINY, settings, mapping, monitor)
        write_results(path.parent, report, mapping, TINY)
    verify_mapping(path.parent, report, path)
