"""The torture test: its faults happen, it sees wrong results, and a few cases of each family."""

from __future__ import annotations

import os
import shutil
import signal
import struct
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from scripts.torture.folder import Restored
from scripts.torture.outcomes import CRASHED, KILLED, RAISED, RIGHT, WRONG, Outcome, unclear
from scripts.torture.results import different, plain_json, results
from scripts.torture.running import TRACEBACK, Ran
from scripts.torture.shim import ACTIONS, CLASSES, FIRED, SLOTS, build
from scripts.torture.spoiling import PAGE, WAYS, spoiled, with_earlier_pages
from scripts.torture.table import Table

ROOT = Path(__file__).resolve().parents[2]
LINUX = pytest.mark.skipif(sys.platform != "linux", reason="the shim is for Linux")
WRITER = """
import ctypes, os, sys
with open("a.partial", "wb", 0) as file:
    file.write(b"first")
    os.fsync(file.fileno())
    file.write(b"second")
os.replace("a.partial", "a")
print(open("a").read())
if "cut" in sys.argv:
    ctypes.CDLL(None).torture_power_cut()
"""


@pytest.fixture(scope="module")
def shim(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = build(tmp_path_factory.mktemp("shim"))
    if found is None:
        pytest.skip("no C compiler")
    return found


def run(shim: Path, folder: Path, action: str, *words: str, **settings: object) -> tuple[int, str]:
    """Run `WRITER` with a fault; return its exit code and output."""
    work, spare = folder / "work", folder / "spare"
    for one in (work, spare):
        one.mkdir(exist_ok=True)
    (spare / "counts").write_bytes(bytes(8 * SLOTS))
    named = {f"TORTURE_{name.upper()}": str(value) for name, value in settings.items()}
    journal = str(int(action in ("lost", "reordered")))
    done = subprocess.run(
        [sys.executable, "-S", "-c", WRITER, *words], cwd=work, capture_output=True, text=True,
        check=False, env={
            **os.environ, "LD_PRELOAD": str(shim), "TORTURE_ROOT": str(work),
            "TORTURE_SPARE": str(spare), "TORTURE_COUNTS": str(spare / "counts"),
            "TORTURE_ACTION": str(ACTIONS.index(action)), "TORTURE_JOURNAL": journal,
            "TORTURE_CLASS": str(CLASSES.index(str(settings.pop("call", "write")))), **named,
        },
    )  # fmt: skip
    return done.returncode, done.stdout + done.stderr


def counts(folder: Path) -> tuple[int, ...]:
    return struct.unpack(f"{SLOTS}Q", (folder / "spare" / "counts").read_bytes())


@LINUX
def test_calls_are_counted(shim: Path, tmp_path: Path) -> None:
    assert run(shim, tmp_path, "none") == (0, "firstsecond\n")
    found = dict(zip(CLASSES, counts(tmp_path), strict=False))
    assert (found["write"], found["sync"], found["rename"]) == (2, 1, 1)
    assert counts(tmp_path)[FIRED] == 0


@LINUX
@pytest.mark.parametrize(
    ("action", "call", "nth", "left"),
    [
        ("kill", "write", 2, {"a.partial": b"first"}),
        ("torn", "write", 2, {"a.partial": b"firstsec"}),
        ("after", "rename", 1, {"a": b"firstsecond"}),
        ("lost", "rename", 1, {"a.partial": b"first"}),
    ],
)
def test_kills(
    shim: Path, tmp_path: Path, action: str, call: str, nth: int, left: dict[str, bytes]
) -> None:
    code, _ = run(shim, tmp_path, action, call=call, nth=nth)
    assert (code, counts(tmp_path)[FIRED]) == (-signal.SIGKILL, 1)
    assert {one.name: one.read_bytes() for one in (tmp_path / "work").iterdir()} == left


@LINUX
def test_errors_and_short_writes(shim: Path, tmp_path: Path) -> None:
    code, said = run(shim, tmp_path, "error", nth=2, errno=28)
    assert (code, "No space left on device" in said) == (1, True)
    assert run(shim, tmp_path, "short", nth=2) == (0, "firstsec\n")


@LINUX
def test_a_power_cut_loses_a_rename_that_is_not_synced(shim: Path, tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "a").write_bytes(b"old")
    assert run(shim, tmp_path, "lost", "cut", nth=0) == (0, "firstsecond\n")
    left = {one.name: one.read_bytes() for one in (tmp_path / "work").iterdir()}
    assert left == {"a": b"old", "a.partial": b"first"}


def test_results_without_times(tmp_path: Path) -> None:
    folders = [tmp_path / "a", tmp_path / "b"]
    for seconds, folder in enumerate(folders):
        folder.mkdir()
        (folder / "report.json").write_text(f'{{"hops": 3, "stages": [{{"seconds": {seconds}}}]}}')
        (folder / "run.log").write_text(str(seconds))
    assert different(*map(results, folders)) == ""
    (folders[1] / "report.json").write_text('{"hops": 4}')
    (folders[1] / "run.log").unlink()
    (folders[1] / "a.partial").touch()
    assert different(results(folders[1]), results(folders[0])) == (
        "a.partial (extra), report.json (differs), run.log (missing)"
    )
    assert plain_json("no JSON") == "no JSON"


def test_equal_content_of_hdf5_files(tmp_path: Path) -> None:
    h5py = pytest.importorskip("h5py")
    for name, values, compression in (("a", 7, "gzip"), ("b", 7, None), ("c", 8, "gzip")):
        (tmp_path / name).mkdir()
        with h5py.File(tmp_path / name / "new.h5", "w") as file:
            file.create_dataset("x", data=np.full(5000, values), compression=compression)
    found = [results(tmp_path / name) for name in "abc"]
    assert different(found[0], found[1]) == ""
    assert different(found[0], found[2]) == "new.h5 (differs)"


def test_restored_folders(tmp_path: Path) -> None:
    whole, copy = tmp_path / "whole", tmp_path / "copy"
    (whole / "a" / "b").mkdir(parents=True)
    for name in ("one", "a/two", "a/b/three"):
        (whole / name).write_text(name)
    (whole / "link").symlink_to("one")
    folder = Restored(whole, copy)
    folder.restore()
    assert folder.is_whole()
    changes: list[Callable[[], object]] = [
        lambda: (copy / "one").write_text("eno"),
        lambda: (copy / "a" / "two").unlink(),
        lambda: (copy / "new").mkdir(),
        lambda: (copy / "link").replace(copy / "one"),
        lambda: (copy / "a" / "b" / "three").chmod(0o600),
        lambda: shutil.rmtree(copy / "a"),
        lambda: (copy / "a").rename(copy / "b"),
        lambda: (copy / "a" / "b").chmod(0o500),
    ]
    for number, change in enumerate(changes):
        change()
        assert not folder.is_whole(), number
        folder.restore()
        assert folder.is_whole()
        assert results(copy) == results(whole)
        assert (copy / "link").readlink() == Path("one")


@pytest.mark.parametrize(
    ("code", "said", "kind"),
    [
        (0, "note: a\n", None),
        (1, "mapper run: net.bin: is damaged\n", None),
        (1, "note: a\nmapper run: net.bin: is damaged\n", None),
        (1, "seed-1: failed: net.bin: cannot read\nmapper run: 1 of 2 runs failed\n", None),
        (-signal.SIGKILL, "", None),
        (-signal.SIGSEGV, "", WRONG),
        (1, "", WRONG),
        (1, "mapper run: a\nmapper run: b\n", WRONG),
        (1, "net.bin: is damaged\n", WRONG),
        (5, "mapper run: a\n", WRONG),
        (1, "mapper run: [Errno 22] Invalid argument\n", WRONG),
        (1, f"mapper run: {'a' * 2000}\n", WRONG),
        (TRACEBACK, "ValueError: a\n", RAISED),
        (0, "Exception in thread\nTraceback (most recent call last):\n", RAISED),
    ],
)
def test_unclear_ends_are_found(code: int, said: str, kind: str | None) -> None:
    fault = unclear(Ran(code, "", said, 0.0), KILLED)
    assert (fault and fault[0]) == kind


def test_a_kill_that_the_case_does_not_cause_is_wrong() -> None:
    assert unclear(Ran(-signal.SIGKILL, "", "", 0.0)) is not None
    assert unclear(Ran(-signal.SIGSEGV, "", "", 0.0), CRASHED) is None
    assert unclear(Ran(0, "", "", 0.0, hung=True), KILLED) is not None


def test_damage_of_a_seed_is_the_same() -> None:
    data, ways = bytes(range(256)) * 40, set()
    for seed in range(200):
        found, what = spoiled(data, np.random.default_rng(seed))
        assert (found, what) == spoiled(data, np.random.default_rng(seed))
        ways |= {one.split()[0] for one in what.split(", ")}
    assert ways == set(WAYS)
    assert spoiled(b"", np.random.default_rng(0)) == (b"", "")


def test_earlier_pages() -> None:
    data, earlier = bytes([1]) * (5 * PAGE // 2), bytes([2]) * PAGE
    ends = set()
    for seed in range(20):
        found, _ = with_earlier_pages(data, earlier, np.random.default_rng(seed))
        assert len(found) == len(data)
        pages = [set(found[at : at + PAGE]) for at in range(0, len(data), PAGE)]
        assert all(one in ({1}, {wrong}) for one, wrong in zip(pages, (2, 0, 0), strict=True))
        ends.add(str(pages))
    assert len(ends) > 3


def test_the_table_counts_and_keeps(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    work = tmp_path / "work"
    work.mkdir()
    (work / "net.bin").write_bytes(b"a")
    table = Table(tmp_path / "kept")
    table.add(Outcome("kills", 1, RIGHT, "mapper run"), work)
    table.add(Outcome("kills", 2, "refused", "mapper run", "line", 0.26, 5 << 20), work)
    assert (table.failed, capsys.readouterr().out) == (0, "")
    table.add(Outcome("kills", 3, WRONG, "mapper run", "differs"), work)
    assert table.failed == 1
    assert "--only 'kills' --case 3" in capsys.readouterr().out
    assert (tmp_path / "kept" / "kills-3" / "work" / "net.bin").read_bytes() == b"a"
    assert table.lines()[2:] == [
        "| kills | 3 | 1 | 1 | 1 | 0 | 0 | 0.3 s | 5 MiB |",
        "| all | 3 | 1 | 1 | 1 | 0 | 0 | 0.3 s | 5 MiB |",
    ]


@LINUX
@pytest.mark.heavy
@pytest.mark.sample(1)
@pytest.mark.jit
@pytest.mark.parametrize("seed", [0, 1000, 2000, 3000])
def test_a_few_cases_of_each_family(seed: int, tmp_path: Path) -> None:
    """`python scripts/torture.py` runs more."""
    words = ["--count", "3", "--seed", str(seed), "--keep", str(tmp_path / "kept")]
    done = subprocess.run(
        [sys.executable, "scripts/torture.py", *words],
        cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT), "TMPDIR": str(tmp_path)},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    families = 11 if shutil.which("cc") else 10
    assert f"| all | {3 * families} |" in done.stdout
    assert list(tmp_path.iterdir()) == []
