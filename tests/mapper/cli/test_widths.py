"""Tables of every command on terminals of 60, 80 and 120 columns: no number is broken."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console
from rich.table import Table

from mapper.cli import terminal
from mapper.cli.hw_tables import cells_table
from mapper.cli.main import COMMANDS
from mapper.jobs.hardware import cells_row
from mapper.results.fitted import FittedTable, Head
from mapper.results.tables import columns, facts
from tests.compiler.bad_input.good import QUICK, good
from tests.mapper.conftest import Run
from tests.mapper.helpers import random_network
from tests.mapper.spiking.graphs import save_graph, save_spikes

WIDTHS = (60, 80, 120)
WITHOUT_TABLES = {"completion", "disassemble", "warm"}
"""Commands without tables, and `warm`, which compiles all kernels."""
SPIKING = ("compile", "model.nir", "--chip", "2x2", "--tick-length", "0.001", "--calibrate",
           "spikes.npz", "--max-loss", "50", "-o", "spiking")  # fmt: skip
CHIP = ("--chip", "2x2", "--neurons-per-core", "20")
MODEL = ("compile", "good.onnx", "--chip", "2x2", "--calibrate", "samples.npz", *QUICK)


def printed(table: Any, width: int) -> str:
    out = io.StringIO()
    Console(file=out, width=width, highlight=False).print(table, crop=False)
    return out.getvalue()


def numbers(text: str) -> set[str]:
    """Return the words with digits."""
    return {word for word in text.split() if re.search(r"\d", word)}


def require_whole(table: Any) -> None:
    """Check that a table has the same numbers at all widths, and keeps to the width."""
    wide = printed(table, 400)
    for width in WIDTHS:
        text = printed(table, width)
        names = {word for word in numbers(wide) if len(word) > 20}  # such as paths and hashes
        assert numbers(text) >= numbers(wide) - names, width
        assert numbers(text) - numbers(wide) == set() or names, width
        longest = max(map(len, names), default=0)
        assert max(map(len, text.splitlines())) <= max(width, longest + 2)


@pytest.fixture
def checked(monkeypatch: pytest.MonkeyPatch) -> Iterator[set[str]]:
    """Check the tables and the summary of every command; yield the commands checked."""
    found: set[str] = set()

    def emit(
        options: Any, result: dict[str, Any], tables: list[Table], summary: Any = None
    ) -> None:
        for table in (*tables, *([] if summary is None else [summary])):
            require_whole(table)
        found.add(options.command)

    monkeypatch.setattr(terminal, "emit", emit)
    yield found


@pytest.mark.jit
@pytest.mark.heavy
def test_tables_of_every_command(folder: Path, run: Run, checked: set[str]) -> None:
    random_network(folder / "net.bin", 60, 400)
    good().save(folder)
    save_graph(Path("model.nir"))
    save_spikes(Path("spikes.npz"))
    Path("tries.toml").write_text(
        'network = "net.bin"\nchip = "2x2"\nneurons_per_core = 20\nseed = "1..2"\n'
        'preset = ["fast", "default"]\n'
    )
    Path("timed.toml").write_text(
        'width = 4\nheight = 4\nneurons = 20\ndelivery = "core"\n[time]\nneuron = 2\n'
    )
    np.savetxt("net.csv", np.random.default_rng(1).integers(0, 9, (20, 2)), "%d", ",")
    for line in (
        ("generate", "cortex", "other.bin", "--side", "9"),
        ("import", "net.csv", "csv.bin"),
        ("info", "net.bin"),
        ("check", "net.bin", *CHIP, "--workers", "2"),
        ("run", "net.bin", *CHIP, "-o", "out", "--keep-scratch"),
        ("info", "out"),
        ("verify", "out"),
        ("verify", "net.bin"),
        ("score", "net.bin", "out/mapping.npz", "--chip", "2x2"),
        ("simulate", "out", "--cycles", "200"),
        ("run", "net.bin", "--chip", "timed.toml", "--preset", "fast", "-o", "timed"),
        ("simulate", "timed", "--ticks", "3"),
        ("report", "out", "timed", "-o", "both.html"),
        ("hw", "--chip", "2x2", "--mesh-only"),
        ("export", "out", "mapping.csv"),
        ("sweep", "tries.toml", "-o", "swept"),
        ("place", "net.csv", "--chip", "3x3"),
        ("partition", "net.bin", "--parts", "3", "--preset", "fast"),
        ("chips",),
        ("cache",),
        ("runs",),
        ("plugins",),
        ("docs",),
        (*MODEL, "-o", "model", "--explain"),
        (*MODEL, "-o", "model", "--compare"),
        (*MODEL, "-o", "model", "--ablate"),
        ("info", "model"),
        ("info", "model/core_0_0.npc"),
        ("info", "model/macros.bin"),
        ("verify", "model"),
        ("simulate", "model", "--input", "samples.npz", "--check", "--cycles"),
        ("simulate", "model", "--cycles"),
        SPIKING,
        ("info", "spiking"),
        ("verify", "spiking"),
        ("simulate", "spiking", "--input", "spikes.npz", "--check", "--cycles"),
    ):
        found = run(*line)
        assert found.code == 0, found.err
        assert line[0] in checked
    assert checked == COMMANDS.keys() - WITHOUT_TABLES


def test_cells_of_a_large_chip() -> None:
    """Names of modules and numbers of cells stay whole; columns that do not fit follow below."""
    from hw.flow.netlist import Cells

    modules = [
        Cells(f"router_{at}.node.input_buffer_{at}", 16_384 >> at, 834_560 << at, 99_999 << at,
              1 << (30 + at), 256)
        for at in range(5)
    ]  # fmt: skip
    table = cells_table([cells_row(one) for one in modules], keep_multipliers=True)
    require_whole(table)
    assert "router_3.node.input_buffer_3" in printed(table, 120)
    assert printed(table, 60).count("module") > 2  # "cells per module", and one a part


@pytest.mark.parametrize("width", WIDTHS)
def test_markup_in_names_is_printed(width: int) -> None:
    """A file name such as a[b].bin is no style of rich."""
    for table in (facts("[red]t", {"a[b].bin": "[bold]1"}), columns("[x]", ["[h]"], [["[y]9"]])):
        text = printed(table, width)
        for word in re.findall(r"\[\w+\]", str(table.title) + str(table.cells)):  # type: ignore[attr-defined]
            assert word in text


def test_a_long_value_has_its_own_line() -> None:
    table = facts("title", {"samples": 6, "SHA-256": "5b2b08" * 11, "names": "one two " * 20})
    lines = printed(table, 60).splitlines()
    assert "  " + "5b2b08" * 11 in lines
    assert max(len(line) for line in lines if "5b2b08" not in line) <= 60
    assert " ".join(lines).split().count("one") == 20


def test_the_first_column_repeats() -> None:
    heads = [Head("name", left=True), *(Head(f"column {at}") for at in range(12))]
    rows = [[name, *(f"{at * 10**9:,}" for at in range(12))] for name in ("first", "second")]
    text = printed(FittedTable("title", heads, rows), 60)
    assert text.count("title") == 1
    assert text.count("first") == text.count("second") == text.count("name") > 2
    require_whole(FittedTable("title", heads, rows))
