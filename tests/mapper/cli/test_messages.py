"""Messages of commands: errors in spite of --quiet, usage, pipes, numbers in tables."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from mapper.errors import CLOSED_PIPE
from mapper.results.tables import number
from storage.store.network import POPULATION
from storage.store.writer import NetworkWriter
from tests.mapper.conftest import Run
from tests.mapper.helpers import random_network

Fails = Callable[..., str]


@pytest.fixture
def network(folder: Path) -> Path:
    return random_network(folder / "net.bin", 20, 60)


def test_quiet_does_not_hide_why_a_network_does_not_fit(run: Run, network: Path) -> None:
    for more in ((), ("-q",), ("-q", "--json")):
        found = run("check", network, "--chip", "2x2", "--neurons-per-core", "4", *more)
        assert found.code == 3
        assert found.err.startswith("does not fit: needs 20 neurons; the chip holds")


def test_quiet_does_not_hide_violations(run: Run, network: Path, folder: Path) -> None:
    (folder / "map.csv").write_text("0\n" * 20)
    found = run("score", network, "map.csv", "--chip", "2x2", "--neurons-per-core", "4", "-q")
    assert found.code == 1
    assert found.err.startswith("limit exceeded: core 0")


@pytest.mark.parametrize("command", ["check", "run", "place"])
def test_unknown_arguments_show_the_usage_of_their_command(command: str, run: Run) -> None:
    found = run(command, "net.bin", "--chip", "2x2", "--no-such", "option")
    assert found.code == 2
    assert found.err.startswith(f"usage: mapper {command} ")
    assert found.err.endswith(
        f"mapper {command}: error: unrecognized arguments: --no-such option\n"
    )


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            "run net.bin --chip 2x2 --objective speed",
            "run: error: argument --objective: 'speed' is not known; choose from hops, time, ",
        ),
        (
            "fly",
            "mapper: error: argument COMMAND: 'fly' is not known; choose from run, sweep, ",
        ),
        ("generate cube net.bin", "argument KIND: 'cube' is not known; choose from "),
    ],
)
def test_unknown_choices_list_the_valid_ones(words: str, said: str, run: Run) -> None:
    found = run(*words.split())
    assert found.code == 2
    assert said in found.err


@pytest.mark.parametrize(
    "words",
    [
        ("import", "net.csv", "-"),
        ("generate", "group-dnn", "-", "--size", "3"),
        ("run", "net.bin", "--chip", "2x2", "-o", "-"),
    ],
)
def test_standard_output_is_not_a_file(
    words: tuple[str, ...], network: Path, folder: Path, fails: Fails
) -> None:
    (folder / "net.csv").write_text("0,1\n1,2\n")
    assert fails(*words).startswith("-: ")


def test_info_lists_populations(run: Run, folder: Path) -> None:
    with NetworkWriter(folder / "net.bin", 50) as writer:
        writer.add(np.array([0]), np.array([1]))
        labels = [f"p{i}" for i in range(45)]
        writer.set_attribute(POPULATION, np.minimum(np.arange(50), 44), labels)
        writer.finish()
    found = run("info", "net.bin")
    assert "p0" in found.out
    assert "... and 5 more" in found.out
    populations = run("info", "net.bin", "--json").json()["populations"]
    assert (len(populations), populations["p0"], populations["p44"]) == (45, 1, 6)


def test_run_names_the_page_to_open(run: Run, network: Path) -> None:
    words = ("run", network, "--chip", "2x2", "--preset", "classic", "-o")
    lines = [line.split() for line in run(*words, "out").out.splitlines()]
    assert ["page", str(Path("out/report.html"))] in lines


@pytest.mark.heavy
def test_classic_notes_that_it_minimises_other_hops(run: Run, network: Path) -> None:
    Path("chip.toml").write_text('width = 2\nheight = 2\ndelivery = "core"\n')
    words = ("run", network, "--preset", "classic", "--force", "-o", "out", "--chip")
    note = "minimises hops of one packet per synapse"
    assert note in run(*words, "chip.toml").err
    assert note not in run(*words, "2x2").err
    assert note not in run(*words, "chip.toml", "--objective", "unicast").err


@pytest.mark.heavy
@pytest.mark.sample(0.5)
@pytest.mark.skipif(os.name == "nt", reason="pipes close differently")
def test_a_closed_pipe_is_not_bad_input() -> None:
    for words in (("chips",), ("chips", "--json"), ("docs", "method")):
        read, write = os.pipe()
        os.close(read)
        program = [sys.executable, "-m", "mapper", *words]
        found = subprocess.run(program, stdout=write, stderr=subprocess.PIPE)
        os.close(write)
        assert (found.returncode, found.stderr) == (CLOSED_PIPE, b"")


def test_numbers_of_a_column_have_one_format() -> None:
    values = [999, 999.5, 1000, 1000.5, 9999, 9999.5, 10000, 10000.5, 1234567.0]
    assert [number(value) for value in values] == [
        "999", "999.5", "1,000", "1,000.5", "9,999", "9,999.5", "10,000", "10,000.5", "1,234,567",
    ]  # fmt: skip


def test_lists_are_formatted_for_people() -> None:
    assert number(["a", "b"]) == "a, b"
    assert number([[28, 28, 1], [1, 1, 1000]]) == "(28, 28, 1), (1, 1, 1,000)"
    assert number({"weight": "w", "ignored": ["delay"]}) == "weight: w, ignored: delay"
