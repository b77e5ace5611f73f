"""Code blocks of a documentation page, and a runner that executes them as a reader would."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from io import BytesIO, TextIOWrapper
from pathlib import Path
from typing import Any

from mapper.cli.main import main

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
NOT_RUN = "<!-- not run:"
FENCE = re.compile(r"^( *)(`{3,})(?:\{code-block\} *)?([\w-]*)\s*$")
CAPTION = re.compile(r"^:caption: (\S+)$")
CODE = re.compile(r"# exit code (\d+)\s*$")
SHELL = re.compile(r"[|&;]|<<|\$\(")


@dataclass(frozen=True, slots=True)
class Block:
    """language : language of the fence; caption : name of the shown file; line : from 1"""

    page: Path
    line: int
    language: str
    text: str
    caption: str
    run: bool

    @property
    def where(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}"


def blocks(page: Path) -> Iterator[Block]:
    """Yield all fenced blocks of a page in order."""
    lines = page.read_text(encoding="utf-8").splitlines()
    at, run = 0, True
    while at < len(lines):
        found = FENCE.match(lines[at])
        if not found:
            if lines[at].strip():
                run = not lines[at].startswith(NOT_RUN)
            at += 1
            continue
        indent, fence, language = found.groups()
        end = next(i for i in range(at + 1, len(lines)) if lines[i].strip() == fence)
        inside = [line.removeprefix(indent) for line in lines[at + 1 : end]]
        caption = CAPTION.match(inside[0]) if inside else None
        if caption:
            inside = inside[2:]  # the option and the blank line after it
        text = "".join(f"{line}\n" for line in inside)
        yield Block(page, at + 1, language, text, caption[1] if caption else "", run)
        at, run = end + 1, True


class Reader:
    """A reader who follows a page in the current folder, which is empty."""

    def __init__(self) -> None:
        self.names: dict[str, Any] = {}

    def follow(self, page: Path) -> int:
        """Write, run and compare all blocks of a page; return their number."""
        done = 0
        for block in blocks(page):
            if not block.run:
                continue
            if block.caption:
                Path(block.caption).write_text(block.text)
            elif block.language == "sh":
                for line in commands(block.text):
                    execute(line, block.where)
            elif block.language == "console":
                self._compare(block)
            elif block.language == "python":
                exec(compile(block.text, block.where, "exec"), self.names)
            else:
                continue
            done += 1
        return done

    def _compare(self, block: Block) -> None:
        """Run the lines after `$`; the quoted lines below each must be in its output."""
        for part in re.split(r"^\$ ", block.text, flags=re.MULTILINE)[1:]:
            line, _, quoted = part.partition("\n")
            require_quoted(quoted, execute(line, block.where), f"{block.where}: {line}")


def commands(text: str) -> Iterator[str]:
    """Yield the commands of a block: one per line, joined at backslashes."""
    for line in text.replace("\\\n", " ").splitlines():
        if line.strip() and not line.lstrip().startswith("#"):
            yield line


class Captured(TextIOWrapper):
    """A stream in memory that also takes bytes, as standard output does."""

    def __init__(self) -> None:
        super().__init__(BytesIO(), encoding="utf-8", newline="\n", write_through=True)

    def getvalue(self) -> str:
        self.flush()
        content = self.buffer
        assert isinstance(content, BytesIO)
        return content.getvalue().decode()


def execute(line: str, where: str) -> str:
    """Run a line and return stdout and stderr; `mapper` in this process, others in a shell."""
    wanted = int(found[1]) if (found := CODE.search(line)) else 0
    line = line.partition("  #")[0]
    if not line.startswith("mapper ") or SHELL.search(line):
        ended = subprocess.run(
            ["sh", "-ec", line], capture_output=True, text=True, check=False, env=os.environ
        )
        assert ended.returncode == wanted, f"{where}: {line}\n{ended.stderr}"
        return ended.stdout + ended.stderr
    words = shlex.split(line)[1:]
    into = None
    if ">" in words:
        at = words.index(">")
        into, words = Path(words[at + 1]).expanduser(), words[:at]
    out = Captured()
    err = out if into is None else Captured()  # in the order of a terminal
    with redirect_stdout(out), redirect_stderr(err):
        try:
            code = main(words)
        except SystemExit as stop:  # raised by argparse
            code = int(stop.code or 0)
    assert code == wanted, f"{where}: {line}: exit code {code}\n{err.getvalue()}"
    if into is not None:
        into.write_text(out.getvalue())
    return err.getvalue()


def require_quoted(quoted: str, actual: str, where: str) -> None:
    """Require every quoted line in the output, in this order, ignoring numbers."""
    lines = iter([loose(line) for line in actual.splitlines()])
    for line in quoted.splitlines():
        if line.strip() not in ("", "..."):
            assert loose(line) in lines, (
                f"{where}: {line!r} is not in, or not in this order:\n{actual}"
            )


def loose(line: str) -> str:
    """Return a line without variable parts: numbers, byte units, blanks, lengths of rules."""
    line = re.sub(r"\d[\d.,]*(e[+-]?\d+)?|(?<= )-(?= |$)", "#", line.rstrip())
    line = re.sub(r"# (B|[KMG]iB)\b", "# bytes", line)
    return " ".join(re.sub(r"─+", "─", line).split())
