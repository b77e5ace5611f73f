"""Commands run without the calls of POSIX, as on Windows, and give the same bytes."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from storage.system import files, processes
from tests.test_structure import ROOT

pytestmark = [
    pytest.mark.jit,
    pytest.mark.skipif(sys.platform != "linux", reason="the simulation reads /proc"),
]

COMMANDS = """
generate cortex net.bin --side 24 --fanout 12 --sigma 3 --seed 1
run net.bin --chip 4x4 --neurons-per-core 64 --preset fast --seed 1 -o result
verify result
export result mapping.csv
export net.bin net.npz
import net.npz again.bin
run net.npz --chip 4x4 --neurons-per-core 64 --preset fast --seed 1 -o result --force
run net.bin --chip 4x4 --neurons-per-core 64 --preset fast --set level-budget=0 --seed 1 -o streamed
import net.bin net.shards --files 3
place net.bin --chip 24x24 --preset fast --neurons-per-core 1 -o placed.npz
partition net.bin --parts 4 -o parts
run net.bin --chip 4x4 --neurons-per-core 64 --preset fast --seeds 1..2 --workers 2 -o both
runs
cache
"""
SCRIPT = """
import pickle
import sys
from pathlib import Path
import numpy as np
import mapper
import mapper.kernels.warmup
from mapper.cli.main import main
from tests.mapper.conftest import nothing_to_compile

mapper.kernels.warmup.compile_kernels = nothing_to_compile
for line in Path("commands.txt").read_text().split("\\n"):
    if line:
        code = main([*line.split(), "-q"])
        assert code == 0, line
rng = np.random.default_rng(1)
mapping = mapper.map_network(tuple(rng.integers(0, 50, (2, 200))), (4, 4), neurons_per_core=8)
again = pickle.loads(pickle.dumps(mapping))
mapping.save("saved")
again.save("pickled")
del mapping, again
"""


def run(folder: Path, *words: str) -> None:
    folder.mkdir()
    (folder / "commands.txt").write_text(COMMANDS)
    (folder / "script.py").write_text(SCRIPT)
    temporary = folder / "temporary"
    temporary.mkdir()
    places = {"MAPPER_CACHE_DIR": str(folder / "cache"), "TMPDIR": str(temporary)}
    found = subprocess.run(
        [sys.executable, *words, "script.py"], cwd=folder, capture_output=True, text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT), "MAPPER_CACHE_SIZE": "1GiB", **places},
    )  # fmt: skip
    assert found.returncode == 0, found.stderr
    left = [path.name for path in temporary.iterdir() if path.name.startswith("mapper-")]
    assert not left
    assert not list(folder.rglob("*.partial*"))
    assert not list(folder.rglob("*.lock"))


@pytest.mark.heavy
@pytest.mark.sample(0.25)
def test_commands_give_the_same_bytes(tmp_path: Path) -> None:
    run(tmp_path / "windows", "-m", "tests.windows")
    run(tmp_path / "posix")
    names = ["mapping.csv", "net.bin", "again.bin", "placed.npz", "parts"]
    names += [f"{name}/mapping.npz" for name in ("result", "streamed", "saved", "pickled")]
    names += [f"both/seed-{seed}/mapping.npz" for seed in (1, 2)]
    for name in names:
        found = [(tmp_path / system / name).read_bytes() for system in ("windows", "posix")]
        assert found[0] == found[1], name


@pytest.fixture
def without(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take the calls of POSIX away from this process."""
    for name in ("pread", "preadv", "pwrite", "fdatasync", "link", "register_at_fork",
                 "sched_getaffinity", "geteuid", "O_CLOEXEC"):  # fmt: skip
        monkeypatch.delattr(os, name)
    monkeypatch.delattr("signal.pthread_sigmask")
    monkeypatch.setitem(sys.modules, "resource", None)


@pytest.mark.usefixtures("without")
def test_twins_without_posix(tmp_path: Path) -> None:
    check_files(tmp_path)
    assert not files.hard_link(tmp_path / "a", tmp_path / "b")
    assert processes.usable_processors() == os.cpu_count()
    assert processes.user_id() is None
    assert processes.largest_memory() is None
    assert not processes.block_interrupts()
    processes.after_fork(lambda: None)


def test_calls_of_posix(tmp_path: Path) -> None:
    check_files(tmp_path)
    assert files.hard_link(tmp_path / "a", tmp_path / "b")
    assert not files.hard_link(tmp_path / "none", tmp_path / "c")
    assert (tmp_path / "b").samefile(tmp_path / "a")
    assert processes.user_id() == os.geteuid()
    assert (processes.largest_memory() or 0) > 1000


def check_files(folder: Path) -> None:
    """Check reads and writes at offsets, by several threads that share a descriptor."""
    path = folder / "a"
    descriptor = files.open_descriptor(path, os.O_RDWR | os.O_CREAT)
    try:
        pieces = {place: bytes([place % 251]) * 1000 for place in range(0, 64_000, 1000)}

        def write(first: int) -> None:
            for place in list(pieces)[first::4]:
                files.write_at(descriptor, pieces[place], place)

        def read(first: int) -> None:
            for place in list(pieces)[first::4]:
                wrong.extend([place] * (files.read_at(descriptor, 1000, place) != pieces[place]))

        wrong: list[int] = []
        for task in (write, read):
            threads = [threading.Thread(target=task, args=(first,)) for first in range(4)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        assert not wrong
        files.sync_data(descriptor)
        assert files.read_at(descriptor, 5000, 63_500) == pieces[63_000][:500]
        room = bytearray(1500)
        assert files.read_into(descriptor, memoryview(room), 63_000) == 1000
        assert bytes(room) == pieces[63_000] + bytes(500)
    finally:
        os.close(descriptor)
    assert path.read_bytes() == b"".join(pieces.values())


def test_a_rename_waits_for_another_program(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Windows refuses to replace a file while a scanner reads it; POSIX never does for long."""
    source, target = tmp_path / "a", tmp_path / "b"
    source.write_text("new")
    target.write_text("old")
    real, tries = os.replace, []

    def busy(*paths: object) -> None:
        tries.append(paths)
        if len(tries) < 3:
            raise PermissionError("used by another process")
        real(*paths)  # type: ignore[arg-type]

    monkeypatch.setattr(os, "replace", busy)
    with pytest.raises(PermissionError):
        files.replace_file(source, target)
    monkeypatch.delattr(os, "fork")
    files.replace_file(source, target)
    assert (target.read_text(), len(tries)) == ("new", 3)
    monkeypatch.setattr(files, "_BUSY_FOR", 0.0)
    tries.clear()
    source.write_text("newer")
    with pytest.raises(PermissionError):
        files.replace_file(source, target)
