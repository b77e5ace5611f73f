"""Names from files cannot harm a terminal, reorder a line, or look like another name.

Everything that people read is printable: standard output and error, logs, report pages and
listings. Data files keep the names.
"""

from __future__ import annotations

import random
import re
from pathlib import Path

import numpy as np
import pytest

from mapper.monitoring.console import SafeConsole
from mapper.reporting.page import SCRIPTS, asset
from storage.printable import plain, plain_lines
from tests.mapper.cli.residual_net import save_residual_net
from tests.mapper.conftest import Run
from tests.storage.formats.onnx_models import onnx

MARKS = {
    "right-to-left override": "\u202e", "isolate": "\u2067", "left-to-right mark": "\u200e",
    "arabic mark": "\u061c", "escape sequence": "\x1b[31m", "carriage return": "\r",
    "zero width": "\u200b", "line separator": "\u2028", "tag": "\U000e0041", "C1": "\x9b2J",
}  # fmt: skip
READ = (".html", ".txt", ".log", ".h", ".c", ".toml")
"""Files for people."""


def named(place: int, mark: str = "") -> str:
    """Return a name with one of the marks, or the given one, inside."""
    return f"a{mark or list(MARKS.values())[place % len(MARKS)]}{place}"


def require_printable(text: str, where: str) -> None:
    wrong = sorted({c for c in text if not c.isprintable() and c not in "\n\t"})
    assert not wrong, (where, wrong)


def test_every_mark_is_escaped() -> None:
    for mark in MARKS.values():
        assert plain(f"a{mark}b").isprintable()
        assert plain(f"a{mark}b").startswith("a\\") == plain_lines(f"a{mark}b").startswith("a\\")
        assert plain(plain(mark)) == plain(mark)
    assert plain("e\u0301 \u05d0 \u6f22 a\tb\n") == "e\u0301 \u05d0 \u6f22 a\\tb\\n"
    assert plain_lines("a\tb\n") == "a\tb\n"


def test_consoles(capsys: pytest.CaptureFixture[str]) -> None:
    """Colours of the console itself remain."""
    from rich.table import Table

    table = Table(title=named(0))
    table.add_column(named(1))
    table.add_row(named(4))
    console = SafeConsole(force_terminal=True, width=60, color_system="standard", highlight=False)
    console.print(table)
    console.print(f"[red]{named(2)}[/red]", named(4))
    out = capsys.readouterr().out
    assert "\x1b[31ma\\u200e2" in out
    assert "\\x1b[31m4" in out
    require_printable(out.replace("\x1b[", ""), "console")


def test_assets_of_pages_are_printable() -> None:
    """The hash of the script is the hash of the script in the page."""
    for name in (*(f"scripts/{script}.js" for script in SCRIPTS), "page.css"):
        require_printable(asset(name), name)


@pytest.fixture
def model(folder: Path) -> Path:
    """A model whose nodes and values all have such names."""
    path = folder / "model.onnx"
    save_residual_net(path, np.random.default_rng(5), side=8, channels=8, classes=4)
    found = onnx.load(path)
    names: dict[str, str] = {}
    for node in found.graph.node:
        node.name = names.setdefault(f"node {node.name}", named(len(names)))
        for values in (node.input, node.output):
            values[:] = [names.setdefault(one, named(len(names))) if one else "" for one in values]
    for one in (*found.graph.input, *found.graph.output, *found.graph.initializer):
        one.name = names.setdefault(one.name, named(len(names)))
    onnx.save(found, path)
    x = np.random.default_rng(6).normal(0, 1, (4, 2, 8, 8)).astype(np.float32)
    np.savez(folder / "samples.npz", x=x)
    return path


def every_text(run: Run, folder: Path, *commands: str) -> str:
    """Run commands, and require printable output and files; return the output."""
    told = ""
    for command in commands:
        done = run(*command.split())
        assert done.code in (0, 1, 2, 3), done
        for text in (done.out, done.err):
            require_printable(text, command)
            told += text
    for path in folder.rglob("*"):
        if path.suffix in READ:
            require_printable(path.read_text(encoding="utf-8"), str(path))
    return told


def test_explain(model: Path, folder: Path, run: Run) -> None:
    told = every_text(run, folder, "compile model.onnx --chip 1x1 --explain")
    assert {"\\u202e", "\\x1b[31m"} & set(re.findall(r"\\u202e|\\x1b\[31m", told))


@pytest.mark.heavy
def test_compiled_models(model: Path, folder: Path, run: Run) -> None:
    told = every_text(
        run,
        folder,
        "compile model.onnx --chip 1x1 --calibrate samples.npz --explain --emit c,loops "
        "--keep-graphs --details --keep-going",
        "info out --details",
        "info model.onnx",
        "disassemble out/macros.bin",
        "simulate out --input samples.npz --details",
        "verify out",
        "report out",
        "compile model.onnx --chip 1x1 --keep nothing -o other",
    )
    assert "\\u202e" in told
    assert "\\u202e" in (folder / "out" / "report.html").read_text()


@pytest.mark.heavy
def test_networks(folder: Path, run: Run) -> None:
    """Names of neurons, files, chips and populations."""
    draw = random.Random(1)
    names = [named(place).replace("\r", "\x1c").replace("\u2028", "\x1d") for place in range(60)]
    rows = [",".join(draw.choice(names) for _ in "ab") for _ in range(400)]
    (folder / "net.csv").write_text("source,target\n" + "\n".join(rows), encoding="utf-8")
    (folder / "n\u202eb.csv").write_bytes((folder / "net.csv").read_bytes())
    (folder / "twice.csv").write_text("source,target,x\u202e,x\u202e\na,b,1,2\n", encoding="utf-8")
    (folder / "pins.toml").write_text('[[pin]]\nneurons = ["a\\u202e0"]\ncore = 99\n')
    (folder / "none.toml").write_text('[["x\\u202e"]]\n')
    (folder / "chip.toml").write_text('name = "c\\u202e"\nwidth = 4\nheight = 4\n')
    told = every_text(
        run,
        folder,
        "import n\u202eb.csv net.bin",
        "info net.bin --details",
        "run net.csv --chip chip.toml -o out --neurons-per-core 9 --preset fast -v --details",
        "run net.csv --chip chip.toml -o other --constraints pins.toml",
        "run net.csv --chip chip.toml -o other --constraints none.toml",
        "run none\u202e.bin --chip chip.toml",
        "check net.csv --chip none\u202e",
        "run net.csv --chip 4x4 --preset none\u202e",
        "run net.csv --chip 4x4 --\u202e",
        "import twice.csv b.bin --columns source=source,target=target,weight=x\u202e",
        "export net.bin net.hgr",
        "chips chip.toml",
        "report out",
        "verify out",
        "info out --details",
        "docs \u202e",
    )
    assert "\\u202e" in told
