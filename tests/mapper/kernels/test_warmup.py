"""Compiled kernels are cached, and dropped when they may be outdated."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib import import_module
from inspect import signature
from pathlib import Path

import pytest

from mapper.kernels.lean_compilation import spare_work
from mapper.kernels.lean_loading import lean_loading
from mapper.kernels.types import name_of, types_of
from mapper.kernels.warmup import read_table, works_of_presets
from mapper.settings import PRESETS

SCRIPT = """
import os
from pathlib import Path
import numpy as np
from mapper.kernels.warmup import forget_kernels
from storage.scratch.packed import pack
cache = Path(os.environ["NUMBA_CACHE_DIR"])
pack(np.arange(300, dtype=np.int32))
print(len(list(cache.rglob("packed.*.nb?"))))
(cache / "other").mkdir()
(cache / "other" / "packed.mine.nbi").touch()
forget_kernels()
print(*(path.name for path in cache.rglob("*.nb?")))
"""


@pytest.mark.heavy
@pytest.mark.sample(0.25)
@pytest.mark.jit
def test_forgetting_kernels(tmp_path: Path) -> None:
    """All compiled kernels of these packages are deleted, and nothing else."""
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    root = Path(__file__).resolve().parents[3]
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", SCRIPT],
        cwd=root,
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    count, left = done.stdout.splitlines()
    assert int(count) > 0
    assert left == "packed.mine.nbi"


USED = """
import io, sys
from rich.console import Console
from mapper.kernels import warmup as kernels
from mapper.cli.compiling import compile_once
forgotten = []
kernels.forget_kernels = lambda: forgotten.append(1)
if sys.argv[1] == "trusting":
    kernels.trust_kernels()
if sys.argv[1] == "dying":
    sys.executable = "false"
said = io.StringIO()
found = compile_once(Console(file=said), sys.argv[2:], 2)
print(len(forgotten), found.kernels, len(found.failed), found.processes)
print(" ".join(said.getvalue().split()))
"""


def first_use(folder: Path, how: str, *works: str) -> tuple[list[int], str]:
    """Run `compile_once` for a new installation in a separate process; return counts and output."""
    root = Path(__file__).resolve().parents[3]
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", USED, how, *works],
        cwd=root,
        env={**os.environ, "NUMBA_CACHE_DIR": str(folder)},
        capture_output=True,
        text=True,
        check=True,
    )
    numbers, said = done.stdout.splitlines()
    return list(map(int, numbers.split())), said


def compiled(folder: Path) -> set[str]:
    """Return the kernels recorded as compiled."""
    (marker,) = (folder / "mapper").glob("compiled-*")
    return {line.split()[0] for line in marker.read_text().splitlines()}


def in_cache(folder: Path) -> set[str]:
    """Return the last module name and function of all kernels in numba's cache."""
    return {path.name.rpartition("-")[0] for path in folder.rglob("*.nbi")}


@pytest.mark.heavy
@pytest.mark.sample(0.25)
@pytest.mark.jit
def test_first_use_compiles_the_needed_kernels_and_reports_it(tmp_path: Path) -> None:
    """Once, by parallel processes; kernels shared with other kinds of work are not recompiled."""
    table = read_table()
    wanted = table.works["export/metis"]
    (forgotten, done, failed, processes), said = first_use(tmp_path, "well", "export/metis")
    assert (forgotten, done, failed) == (1, len(wanted), 0)
    assert 1 <= processes <= 2
    assert said.startswith(f"compiling {len(wanted)} kernels, once after installation")
    assert "compiling kernels: done in" in said
    assert compiled(tmp_path) == set(wanted)
    assert {".".join(name.rsplit(".", 2)[1:]) for name in wanted} <= in_cache(tmp_path)
    assert first_use(tmp_path, "well", "export/metis") == ([0, 0, 0, 0], "")
    more = set(table.works["import/metis"]) - set(wanted)
    (forgotten, done, *_), _ = first_use(tmp_path, "well", "import/metis", "export/metis")
    assert (forgotten, done) == (0, len(more))


@pytest.mark.heavy
@pytest.mark.sample(0.25)
@pytest.mark.jit
def test_trusted_kernels_are_not_forgotten(tmp_path: Path) -> None:
    (forgotten, done, *_), _ = first_use(tmp_path, "trusting", "export/metis")
    assert forgotten == 0
    assert done > 0


@pytest.mark.heavy
@pytest.mark.sample(0.25)
@pytest.mark.jit
def test_processes_that_die_are_reported(tmp_path: Path) -> None:
    """Their kernels are compiled on demand."""
    (_, done, failed, _), said = first_use(tmp_path, "dying", "export/metis")
    assert done == 0
    assert failed > 0
    assert "could not be compiled ahead" in said
    (_, done, failed, _), _ = first_use(tmp_path, "well", "export/metis")
    assert done > 0
    assert failed == 0


LOADED = """
import sys
from importlib import import_module
from mapper.kernels.warmup import load_kernels, read_table
load_kernels(sys.argv[1:])
for name in read_table().works[sys.argv[1]]:
    module, _, function = name.rpartition(".")
    kernel = getattr(import_module(module), function)
    stats = kernel.stats
    print(len(kernel.signatures), sum(stats.cache_hits.values()), sum(stats.cache_misses.values()))
"""


@pytest.mark.heavy
@pytest.mark.sample(0.25)
@pytest.mark.jit
def test_compiled_kernels_are_loaded_before_their_first_call(tmp_path: Path) -> None:
    """All of them, from the cache; kernels that are not compiled yet wait for their first call."""

    def loaded() -> list[list[int]]:
        done = subprocess.run(
            [sys.executable, "-W", "error", "-c", LOADED, "export/metis"],
            cwd=Path(__file__).resolve().parents[3],
            env={**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)},
            capture_output=True,
            text=True,
            check=True,
        )
        return [list(map(int, line.split())) for line in done.stdout.splitlines()]

    table = read_table()
    counts = [len(table.kernels[name]) for name in table.works["export/metis"]]
    assert loaded() == [[0, 0, 0]] * len(counts)
    first_use(tmp_path, "well", "export/metis")
    assert loaded() == [[count, count, 0] for count in counts]


def test_types_have_names() -> None:
    """Types in the table survive the round trip."""
    table = read_table()
    assert len(table.kernels) > 100
    for signatures in table.kernels.values():
        for text in signatures:
            assert " ".join(map(name_of, types_of(text))) == text


def test_table_names_kernels() -> None:
    """Signatures have the right number of arguments, and works refer to kernels in the table."""
    table = read_table()
    for name, signatures in table.kernels.items():
        module, _, function = name.rpartition(".")
        kernel = getattr(import_module(module), function)
        wanted = len(signature(getattr(kernel, "py_func", kernel)).parameters)
        assert {len(text.split()) for text in signatures} == {wanted}, name
    used = {kernel for kernels in table.works.values() for kernel in kernels}
    assert used == set(table.kernels)
    assert set(table.seconds) <= used


@pytest.mark.parametrize("preset", list(PRESETS))
def test_a_preset_needs_no_kernels_of_other_presets(preset: str) -> None:
    works = works_of_presets([preset])
    runs = [work for work in works if work.startswith(("run/", "place/"))]
    assert runs
    assert all(work.split("/")[1] == preset for work in runs)
    table = read_table()
    if preset != "classic":
        cut, hops = (set(table.works[f"run/{preset}/{name}/levels"]) for name in ("cut", "unicast"))
        assert not any(kernel.startswith("mapper.hypergraph") for kernel in cut | hops)
        assert hops - cut


SOME = (
    "generate", "export/metis import/metis", "run/fast/unicast scratch score simulate", "compile",
)  # fmt: skip
"""Kinds of work that call many kernels, with the works whose files they read; all of them take
minutes.
"""


@pytest.mark.heavy
@pytest.mark.sample(0.5)
@pytest.mark.jit
@pytest.mark.parametrize("works", SOME)
def test_the_table_matches_the_commands(works: str) -> None:
    """`scripts/kernels.py` has been run since kernels or their calls changed."""
    root = Path(__file__).resolve().parents[3]
    done = subprocess.run(
        [sys.executable, "scripts/kernels.py", "--check", *works.split()],
        cwd=root,
        env={**os.environ, "PYTHONPATH": str(root)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, ""), done.stdout + done.stderr


LEAN = """
import sys
import numpy as np
from mapper.kernels.warmup import read_table
from mapper.kernels.types import types_of
from mapper.kernels.lean_compilation import spare_work, spare_wrappers
import chipsim.traffic.pairs
roots = read_table().kernels
(types,) = roots["chipsim.traffic.pairs._encode"]
if sys.argv[1] == "lean":
    assert spare_work(roots), "test it with this version of numba, and add it to TRIED"
    spare_wrappers(("chipsim",), roots, True)
kernel = chipsim.traffic.pairs._encode
kernel.compile(types_of(types))
if sys.argv[1] == "call":
    keys, sums = np.cumsum(np.arange(99) ** 3), np.arange(1, 100) ** 4
    data = np.zeros((2, 9999), np.uint8)
    sizes = kernel(keys, sums, data[0]), kernel.py_func(keys, sums, data[1])
    print(*sizes, (data[0] == data[1]).all(), sum(kernel.stats.cache_hits.values()))
"""


@pytest.mark.heavy
@pytest.mark.sample(0.25)
@pytest.mark.jit
def test_kernels_compiled_with_less_work_are_called(tmp_path: Path) -> None:
    """From the cache, which lacks kernels called only by kernels."""
    root = Path(__file__).resolve().parents[3]
    for how in ("lean", "call"):
        if how == "call":
            assert in_cache(tmp_path) == {"pairs._encode"}
        done = subprocess.run(
            [sys.executable, "-W", "error", "-c", LEAN, how],
            cwd=root,
            env={**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
    size, plain, same, hits = done.stdout.split()
    assert (size, same, hits) == (plain, "True", "1")


LINKED = """
import sys
from contextlib import nullcontext
from pathlib import Path
import numpy as np
sys.path.insert(0, sys.argv[1])
Path(sys.argv[1], "inner.py").write_text(
    "from numba import njit\\n@njit(cache=True)\\ndef cubes(x):\\n    return (x**3).sum()\\n"
)
from numba import njit
from inner import cubes
from mapper.kernels.lean_loading import lean_loading
with lean_loading():
    cubes.compile("int64(int64[::1])")
(library,) = (found.library for found in cubes.overloads.values())
print(sum(cubes.stats.cache_hits.values()), library._shared_module is None)
print(cubes(np.arange(4)))
@njit
def outer(x):
    return cubes(x) + 1
print(outer(np.arange(4)), library._shared_module is None)
"""


@pytest.mark.heavy
@pytest.mark.sample(0.25)
@pytest.mark.jit
def test_a_loaded_kernel_is_linked_into_a_new_one(tmp_path: Path) -> None:
    """Its bitcode is parsed only then."""
    for _ in range(2):  # compiled, loaded
        done = subprocess.run(
            [sys.executable, "-W", "error", "-c", LINKED, str(tmp_path)],
            cwd=Path(__file__).resolve().parents[3],
            env={**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
    loaded, result, linked = done.stdout.splitlines()
    assert (loaded, result, linked) == ("1 True", "36", "37 False")


def test_an_untested_version_of_numba_compiles_as_usual(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from numba.core.codegen import CPUCodeLibrary, JITCodeLibrary

    before = dict(vars(CPUCodeLibrary))
    monkeypatch.setattr("numba.__version__", "0.1.0")
    assert not spare_work(["mapper.some._kernel"])
    with lean_loading():
        assert "_unserialize" not in vars(JITCodeLibrary)
    assert dict(vars(CPUCodeLibrary)) == before
