"""`verify` and `score` report the same with workers as without."""

from __future__ import annotations

import json
import os
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mapper.errors import CheckFailedError, UsageError
from mapper.evaluation.verify import sum_blocks, verify_network
from mapper.evaluation.verify_mapping import verify_mapping
from tests.mapper.conftest import Run
from tests.mapper.helpers import random_network

SMALL_CHIP = ("--chip", "6x6", "--neurons-per-core", "40")


@pytest.fixture
def result(network: Path, run: Run, tmp_path: Path) -> Path:
    """Map a network of many blocks."""
    made = tmp_path / "made"
    found = run("run", str(network), *SMALL_CHIP, "-o", str(made), "-q")
    assert found.code == 0, found.err
    return made


@pytest.mark.heavy
@pytest.mark.sample(0.5)
@pytest.mark.jit
def test_verify_finds_the_same(result: Path, network: Path, two_workers: Any) -> None:
    assert verify_network(network, two_workers.ranges) == verify_network(network)
    report = json.loads((result / "report.json").read_text())
    found = verify_mapping(result, report, network, two_workers.ranges)
    assert found == verify_mapping(result, report, network)
    report["metrics"]["hops_total"] += 1
    with pytest.raises(CheckFailedError, match="hops_total is "):
        verify_mapping(result, report, network, two_workers.ranges)


@pytest.mark.heavy
@pytest.mark.jit
def test_damage_gives_the_same_message(network: Path, two_workers: Any) -> None:
    damaged = network.with_name("damaged.bin")
    with zipfile.ZipFile(network) as whole, zipfile.ZipFile(damaged, "w") as other:
        for name in whole.namelist():
            raw = whole.read(name)
            if name in ("blocks/00000005", "blocks/00000012"):
                raw = raw[:-1] + bytes([raw[-1] | 0x80])
            other.writestr(name, raw)
    with pytest.raises(CheckFailedError) as alone:
        verify_network(damaged)
    with pytest.raises(CheckFailedError) as worked:
        verify_network(damaged, two_workers.ranges)
    assert str(worked.value) == str(alone.value)


@pytest.mark.jit
def test_a_network_that_workers_cannot_read(network: Path, two_workers: Any) -> None:
    gone = network.with_name("gone.bin")
    with pytest.raises(UsageError, match=r"gone.bin: the worker on .* does not see it"):
        list(two_workers.ranges(sum_blocks, 3, gone))


def process_and_sum(some: range, array: np.ndarray) -> tuple[int, int, int]:
    """Return process, address and sum of an array that must be unchanged and writable."""
    array += 0
    return os.getpid(), id(array), int(array[some.start :].sum())


@pytest.mark.jit
def test_an_array_goes_to_each_worker_once(two_workers: Any) -> None:
    array = np.arange(1000, dtype=np.int64) ** 2
    found = list(two_workers.ranges(process_and_sum, 8, array))
    assert [sums for *_, sums in found] == [int(array[start:].sum()) for start in range(8)]
    places = {(process, place) for process, place, _ in found}
    assert len(places) == len({process for process, _ in places})


@pytest.mark.heavy
@pytest.mark.sample(0.25)
@pytest.mark.jit
@pytest.mark.parametrize("what", ["network", "folder"])
def test_the_command(what: str, result: Path, network: Path, run: Run) -> None:
    pytest.importorskip("distributed")
    path = str(network if what == "network" else result)
    alone, worked = run("verify", path, "--json"), run("verify", path, "--json", "--workers", "2")
    assert worked.code == 0, worked.err
    assert worked.out == alone.out


@pytest.mark.heavy
def test_srun_is_not_for_verify(run: Run, tmp_path: Path) -> None:
    random_network(tmp_path / "net.bin", 9, 30)
    found = run("verify", str(tmp_path / "net.bin"), "--workers", "srun")
    assert found.code == 2
    assert "--workers srun is for `mapper run`" in found.err


@pytest.mark.heavy
@pytest.mark.sample(0.25)
@pytest.mark.jit
@pytest.mark.parametrize("chip", [SMALL_CHIP, ("--chip", "6x6", "--neurons-per-core", "9")])
def test_score_gives_the_same(chip: tuple[str, ...], result: Path, network: Path, run: Run) -> None:
    """Also for a mapping that exceeds a limit."""
    pytest.importorskip("distributed")
    words = ("score", str(network), str(result / "mapping.npz"), *chip, "--json")
    alone, worked = run(*words), run(*words, "--workers", "2")
    assert worked.code == alone.code
    assert json.loads(worked.out) == json.loads(alone.out)
    assert worked.err == alone.err
