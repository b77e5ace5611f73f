"""Runs on workers give the same bytes as runs without; lost workers are in `test_failures`."""

from __future__ import annotations

import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mapper import map_network
from mapper.distributed.start import check_workers, parse_workers, start_workers
from mapper.errors import UsageError
from mapper.executors.shard import Shard, State
from mapper.executors.shared import SharedFolder
from mapper.executors.worker_interface import Asked
from mapper.graph.csr import Chunk
from mapper.graph.network_rows import NetworkRows
from mapper.monitoring.monitor import Monitor
from storage.blobs.access import StoreAccess
from storage.store.network import NetworkFile
from tests.mapper.conftest import Run
from tests.mapper.distributed.conftest import LEVELS, Mapped
from tests.mapper.helpers import PROGRAM, random_network


@pytest.mark.heavy
@pytest.mark.sample(1)
@pytest.mark.jit
@pytest.mark.parametrize("changes", [{}, {"objective": "cut"}, {"degree": 8}])
def test_two_workers_give_the_same_mapping(
    mapped: Mapped, two_workers: Any, changes: dict[str, Any]
) -> None:
    expected = mapped(**changes)
    assert mapped(two_workers, **changes).tolist() == expected.tolist()
    facts = two_workers.facts()
    assert (facts["count"], facts["threads"], facts["replaced"]) == (2, 2, 0)
    at = {stage["name"]: stage for stage in facts["stages"]}
    assert {"read", "coarsen", "refine blocks", "split blocks", "groups"} <= set(at)
    assert at["coarsen"]["bytes_to"] > 0
    assert at["coarsen"]["calls"] > 1
    assert at["coarsen"]["cpu_seconds"] > 0
    assert at["coarsen"]["bytes_from"] > 600
    assert at["coarsen"]["bytes_shared"] == 0
    assert at["split blocks"]["bytes_shared"] > 600
    assert not list(two_workers.shared.place.folder.glob("*.run"))


def labels_of(shard: Shard, chunk: Chunk, count: int) -> np.ndarray:
    """Return this many numbers for each chunk."""
    return np.random.default_rng(chunk.first).integers(-9, 2**31 - 9, count).astype(np.int32)


def count_writes(start: bool) -> int:
    """Return the bytes that this process has sent over connections of the engine since the
    start.
    """
    from distributed.comm import tcp

    if start:
        plain = tcp.TCP.write

        async def write(comm: Any, *given: Any, **named: Any) -> int:
            moved: int = await plain(comm, *given, **named)
            tcp.TCP.written = getattr(tcp.TCP, "written", 0) + moved
            return moved

        write.plain = plain
        tcp.TCP.written, tcp.TCP.write = 0, write
        return 0
    tcp.TCP.write = tcp.TCP.write.plain
    return int(tcp.TCP.written)


@pytest.mark.heavy
@pytest.mark.jit
def test_counted_bytes_match_the_connections(two_workers: Any, network: Path) -> None:
    with NetworkFile(network) as opened:
        source = NetworkRows(network, opened.identity, StoreAccess(), 0, 1, opened.connections)
        executor = two_workers.executor(source, opened.block_count, opened.connections, Monitor())
        chunks = range(opened.block_count)
    two_workers.stages.clear()
    count_writes(True)
    two_workers.client.run(count_writes, True)
    part = np.random.default_rng(1).integers(0, 2**20, 10**6).astype(np.int32)
    executor.begin(State(part))
    list(executor.each(labels_of, chunks, 100_000))
    part[::3] += 1
    executor.settled(slice(0, part.size))
    list(executor.each(labels_of, chunks, 100))
    moved = count_writes(False), sum(two_workers.client.run(count_writes, False).values())
    (found,) = two_workers.stages.values()
    assert found["calls"] == 2
    assert 0.9 < found["bytes_to"] / moved[0] < 1.1
    assert 0.9 < found["bytes_from"] / moved[1] < 1.1


@pytest.mark.heavy
@pytest.mark.sample(0.5)
@pytest.mark.jit
@pytest.mark.parametrize("levels", LEVELS)
@pytest.mark.parametrize("network", [False, True], indirect=True, ids=["natural", "shuffled"])
def test_more_coarsening_levels_give_the_same_mapping(
    mapped: Mapped, two_workers: Any, levels: int, tmp_path: Path
) -> None:
    """Workers have rows of all levels; their files are deleted with the levels."""
    changes = {"block_vertices": 200, "threads": 2, "shares": LEVELS[levels]}
    expected = mapped(**changes)
    log = tmp_path / "run.log"
    heard = Monitor(log=log)
    two_workers.stages.clear()
    found = mapped(two_workers, heard, **changes)
    assert found.tolist() == expected.tolist()
    assert heard.sample is not None
    assert heard.sample.levels == levels
    said = [line for line in log.read_text().splitlines() if " on workers: " in line]
    assert len(said) == levels
    assert two_workers.stages["initial partition"]["bytes_shared"] > 600
    assert not list(two_workers.shared.place.folder.glob("*.run"))
    folder = two_workers.shared.place.folder.parent / "workers"
    assert len(list(folder.glob("mapper-*"))) == 2  # of no level


@pytest.mark.heavy
@pytest.mark.sample(0.25)
@pytest.mark.jit
@pytest.mark.parametrize("count", [1, 3])
@pytest.mark.parametrize("network", [False, True], indirect=True, ids=["natural", "shuffled"])
def test_any_number_of_workers_gives_the_same_mapping(
    mapped: Mapped, count: int, tmp_path: Path
) -> None:
    pytest.importorskip("distributed")
    with start_workers(Asked(count), tmp_path) as workers:
        assert mapped(workers).tolist() == mapped().tolist()
        for shares in LEVELS.values():
            changes = {"block_vertices": 200, "shares": shares}
            assert mapped(workers, **changes).tolist() == mapped(**changes).tolist()
    assert not (tmp_path / "workers").exists()


@pytest.mark.heavy
def test_an_address_without_a_scheduler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("distributed")
    monkeypatch.setattr("mapper.distributed.connection.ANSWERS_WITHIN", 0.5)
    with pytest.raises(UsageError, match=r"^--workers tcp://127.0.0.1:1: no scheduler answers"):
        start_workers(Asked("tcp://127.0.0.1:1"), tmp_path)


@pytest.mark.heavy
@pytest.mark.jit
def test_workers_of_another_version(two_workers: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from mapper.distributed.owner import about

    own = about()
    monkeypatch.setattr(
        "mapper.distributed.connection.about", lambda: own._replace(versions=(("mapper", "0.0"),))
    )
    monkeypatch.setattr(two_workers.client, "run", lambda _, **__: {"tcp://other:1": own})
    with pytest.raises(UsageError, match=r"mapper is .* on .*, 0\.0 here; install the same"):
        two_workers._require_same()


@pytest.mark.jit
def test_a_network_that_workers_cannot_read(two_workers: Any, tmp_path: Path) -> None:
    source = NetworkRows(tmp_path / "nowhere.bin", (30, 0), StoreAccess(), 0, 1, 10)
    with pytest.raises(UsageError, match=r"nowhere.bin: the worker on .* does not see it"):
        two_workers.executor(source, 3, 30, Monitor())
    random_network(source.path, 10, 20)
    with pytest.raises(UsageError, match=r"nowhere.bin: differs on"):
        two_workers.executor(source, 3, 30, Monitor())


@pytest.mark.heavy
@pytest.mark.sample(0.25)
@pytest.mark.jit
def test_several_batches_of_blocks_give_the_same_mapping(
    mapped: Mapped, two_workers: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = mapped()
    calls = []
    for most in (1 << 28, 4000):
        monkeypatch.setattr(two_workers, "exchanged", most)
        two_workers.stages.clear()
        assert mapped(two_workers).tolist() == expected.tolist()
        calls.append(two_workers.stages["split blocks"]["calls"])
    assert calls[1] > calls[0]


@pytest.mark.jit
def test_a_folder_that_workers_cannot_read(
    two_workers: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each worker must read a file that the driver has written there."""

    def elsewhere(given: Path, work: Path) -> SharedFolder:
        made = SharedFolder(given, work)
        made.place = made.place._replace(tag="content on another host")
        return made

    monkeypatch.setattr(two_workers, "_given", tmp_path)
    monkeypatch.setattr(two_workers, "_shared", None)
    with monkeypatch.context() as patched:
        patched.setattr("mapper.distributed.dask.SharedFolder", elsewhere)
        for _ in range(2):
            with pytest.raises(UsageError) as raised:
                two_workers.share(1 << 20)
            line = f"--shared {tmp_path}: the worker on {socket.gethostname()} does not see it; "
            assert str(raised.value) == line + "use a path that all workers see"
    assert two_workers.share(1 << 20).place.folder.parent == tmp_path


def test_a_shared_folder_requires_workers(tmp_path: Path, run: Run) -> None:
    random_network(tmp_path / "net.bin", 40, 100)
    words = (str(tmp_path / "net.bin"), "--chip", "3x3", "--shared", str(tmp_path))
    found = run("run", *words)
    assert found.code == 2
    assert "--shared requires --workers; add it, or drop this option" in found.err
    found = run("run", *words, "--seeds", "1..2", "--workers", "2")
    assert found.code == 2
    assert "--patience and --shared are for workers of one run; omit" in found.err
    with pytest.raises(UsageError, match="--shared requires --workers"):
        map_network(tmp_path / "net.bin", "3x3", shared=tmp_path)
    with pytest.raises(UsageError, match="shared is 3; give the path of a folder"):
        map_network(tmp_path / "net.bin", "3x3", shared=3)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("4", 4),
        ("tcp://node:8786", "tcp://node:8786"),
        ("tls://a:1", "tls://a:1"),
        ("slurm:4", "slurm:4"),
        ("htcondor:16", "htcondor:16"),
    ],
)
def test_valid_arguments(text: str, found: object) -> None:
    assert parse_workers(text) == found
    assert check_workers(text) == found


@pytest.mark.parametrize(
    "text", ["", "0", "-1", "2.5", "many", "slurm:0", "slurm:", "lfs:4", "9" * 20, "1025"]
)
def test_invalid_arguments(text: str) -> None:
    with pytest.raises(ValueError, match="is not a valid choice of workers; give a number"):
        parse_workers(text)
    with pytest.raises(UsageError, match=r"^workers: .* is not a valid choice of workers"):
        check_workers(text)


def test_files(tmp_path: Path) -> None:
    path = tmp_path / "scheduler.json"
    with pytest.raises(ValueError, match="no such file"):
        parse_workers(str(path))
    path.write_text("{}")
    assert parse_workers(str(path)) == str(path)


@pytest.mark.parametrize("given", [2.5, True, [2], object()])
def test_python_checks_workers(given: object) -> None:
    with pytest.raises(UsageError, match="is not a valid choice of workers"):
        check_workers(given)
    assert check_workers(None) is None


def test_without_the_engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    monkeypatch.setitem(sys.modules, "dask", None)
    monkeypatch.delitem(sys.modules, "mapper.distributed.dask", raising=False)
    with pytest.raises(UsageError, match=r"^--workers needs the extra distributed: pip install '"):
        start_workers(Asked(2), tmp_path)


@pytest.mark.heavy
@pytest.mark.sample(0.25)
@pytest.mark.jit
def test_a_run_without_workers_loads_no_engine(tmp_path: Path) -> None:
    random_network(tmp_path / "net.bin", 40, 100)
    program = PROGRAM.replace(
        "sys.exit(main())",
        "code = main(sys.argv[1:])\n"
        "assert not {'dask', 'distributed'} & set(sys.modules)\nsys.exit(code)",
    )
    words = ["run", "net.bin", "--chip", "3x3", "--neurons-per-core", "9", "-q"]
    subprocess.run([sys.executable, "-c", program, *words], cwd=tmp_path, check=True, timeout=300)


@pytest.mark.heavy
@pytest.mark.sample(0.25)
@pytest.mark.jit
def test_unused_workers_are_noted(tmp_path: Path) -> None:
    random_network(tmp_path / "net.bin", 40, 100)
    words = ["run", "net.bin", "--chip", "3x3", "--neurons-per-core", "9", "--workers", "2"]
    found = subprocess.run(
        [sys.executable, "-c", PROGRAM, *words],
        cwd=tmp_path, check=True, timeout=300, capture_output=True, text=True,
    )  # fmt: skip
    assert "note: --workers is not used: the network is held in memory" in found.stderr
