"""Terminal output: help within 80 columns, completion, colours, verbosity."""

from __future__ import annotations

import argparse
import os
import pty
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from shutil import which

import pytest

from mapper.cli.completion import SHELLS, completion_script
from mapper.cli.main import COMMANDS, STAGED, build_whole_parser, subparsers
from mapper.cli.parser import ALWAYS, HELP_ALL, Parser
from mapper.settings import PRESETS
from storage.formats import FORMATS
from tests.compiler.bad_input.good import QUICK, good
from tests.mapper.conftest import Run
from tests.mapper.helpers import PROGRAM

pytestmark = pytest.mark.jit  # output does not depend on the JIT
COLOUR = re.compile(r"\x1b\[[\d;]*(?:3[0-8]|4[0-8]|9[0-7])(?:;[\d;]*)?m")
CHIP = ["--chip", "2x2", "--neurons-per-core", "20"]


def parsers(parser: Parser) -> Iterator[Parser]:
    yield parser
    for sub in subparsers(parser).values():
        yield from parsers(sub)


def test_help_fits_a_screen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    for parser in parsers(build_whole_parser()):
        short, complete = parser.format_help(), parser.format_complete_help()
        assert max(map(len, [*short.splitlines(), *complete.splitlines()])) <= 80, parser.prog
        assert len(short.splitlines()) <= 40, parser.prog


def test_help_lists_frequent_options_and_complete_help_all() -> None:
    for parser in parsers(build_whole_parser()):
        short, complete = parser.format_help(), parser.format_complete_help()
        options = {action.dest: action.option_strings[-1] for action in parser._actions
                   if action.option_strings}  # fmt: skip
        assert set(parser.topic.frequent) <= {action.dest for action in parser._actions}
        for dest, option in options.items():
            assert re.search(rf"{option}\b", complete), f"{parser.prog}: {option}"
            frequent = not parser.topic.frequent or dest in (*parser.topic.frequent, *ALWAYS)
            assert bool(re.search(rf"^  .*{option}\b", short, re.MULTILINE)) >= frequent
        assert (HELP_ALL in short) == bool(parser.topic.frequent)


def test_help_all_prints_and_ends(run: Run) -> None:
    found = run("compile", "--help-all")
    assert (found.code, found.err) == (0, "")
    assert "--pack-chunk" in found.out
    assert "--pack-chunk" not in run("compile", "--help").out
    assert run("verify", "--help-all").code == 2


@pytest.mark.heavy
def test_help_of_simulate_depends_on_the_folder(network: Path, folder: Path, run: Run) -> None:
    """A mapping shows no option of compiled models, and vice versa."""
    good().save(folder)
    model = ("compile", "good.onnx", "--chip", "1x1", "--calibrate", "samples.npz", *QUICK)
    assert run(*model, "-o", "out", "-q").code == 0
    assert run("run", "net.bin", *CHIP, "--preset", "fast", "-o", "result", "-q").code == 0
    for option in ("--help", "--help-all"):
        of_mapping, of_model = (run("simulate", folder, option).out for folder in ("result", "out"))
        for word in ("--input", "--check", "--hardware", "--clock"):
            assert word in of_model and word not in of_mapping
        for word in ("--load-scale", "--spikes", "--threshold", "--packets"):
            assert word in of_mapping and word not in of_model
        assert max(map(len, (of_mapping + of_model).splitlines())) <= 80


def test_every_option_is_explained() -> None:
    for parser in parsers(build_whole_parser()):
        for action in parser._actions:
            if not isinstance(action, argparse._SubParsersAction):
                assert action.help, f"{parser.prog}: {action.option_strings or action.dest}"


def test_help_of_import_names_all_formats(run: Run) -> None:
    text = run("import", "--help").out
    for name in FORMATS:
        assert name in text


@pytest.mark.parametrize("shell", SHELLS)
def test_completion(shell: str, run: Run) -> None:
    found = run("completion", shell)
    assert (found.code, found.err) == (0, "")
    for word in (*COMMANDS, "neurons-per-core" if shell != "tcsh" else "json"):
        assert word in found.out
    assert run("completion", shell, "--json").json() == {"shell": shell, "script": found.out}
    assert run("completion", "csh").code == 2


def test_bash_completes(folder: Path) -> None:
    if which("bash") is None:
        pytest.skip("no bash")
    Path("mapper.bash").write_text(completion_script("bash"))

    def complete(*words: str) -> set[str]:
        script = (
            'source ./mapper.bash; COMP_WORDS=(mapper "$@"); COMP_CWORD=$#; '
            "function=$(complete -p mapper | sed 's/.*-F \\([^ ]*\\).*/\\1/'); "
            '$function mapper "${!#}" x; printf \'%s\\n\' "${COMPREPLY[@]}"'
        )
        done = subprocess.run(
            ["bash", "-c", script, "bash", *words], capture_output=True, text=True, check=True
        )
        return {line.strip() for line in done.stdout.splitlines()}

    assert complete("comp") == {"compile", "completion"}
    assert "--preset" in complete("run", "--pre")
    assert complete("run", "--preset", "") >= set(PRESETS)
    assert "--set" in complete("run", "--se")
    assert complete("run", "--set", "hop-b") == {"hop-budget="}
    assert complete("place", "--set", "force-") == {"force-share=", "force-iterations="}
    assert "hop-budget=" not in complete("place", "--set", "hop-b")
    assert "loihi64" in complete("check", "--chip", "loi")
    assert "microcircuit" in complete("generate", "micro")
    assert complete("docs", "tut") == {"tutorial"}


@pytest.mark.heavy
def test_quiet_and_verbose(network: Path, run: Run) -> None:
    assert run("generate", "cortex", "other.bin", "--side", "9", "-q").err == ""
    assert "note: " in run("generate", "cortex", "other.bin", "--side", "9").err
    for arguments in (("run", "net.bin", *CHIP, "-o", "a", "--preset", "fast"),):
        assert run(*arguments, "-q").err == ""
        assert "score: " not in run(*arguments, "--force").err
        assert "score: " in run(*arguments, "--force", "-v").err
    failed = run("info", "none.bin", "-q")
    assert (failed.code, failed.err.count("\n")) == (1, 1)


QUIET = """
check net.bin {chip}
run net.bin {chip} --preset fast -o out
verify out
score net.bin out/mapping.npz {chip}
report out
simulate out --cycles 50
export out mapping.csv
export net.bin net.npz
info out
place net.bin --chip 16x16 --neurons-per-core 1 --preset fast -o placed.npz
partition net.bin --parts 2 -o parts
chips
runs
plugins
docs
cache info
""".strip().splitlines()


@pytest.mark.heavy
@pytest.mark.sample(0.5)
def test_quiet_prints_errors_alone(network: Path, run: Run) -> None:
    for line in QUIET:
        found = run(*line.format(chip=" ".join(CHIP)).split(), "-q")
        assert (found.code, found.out, found.err) == (0, "", ""), line


def test_every_command_has_quiet_and_stage_options() -> None:
    for name, parser in subparsers(build_whole_parser()).items():
        options = {option for action in parser._actions for option in action.option_strings}
        assert {"-q", "--quiet", "--json", "--debug"} <= options
        assert ({"-v", "--verbose"} <= options) == (name in STAGED)


@pytest.mark.parametrize("command", STAGED)
def test_quiet_and_verbose_exclude_each_other(command: str, network: Path, run: Run) -> None:
    found = run(command, "net.bin", *CHIP, "-q", "-v")
    assert found.code == 2
    assert "not allowed with" in found.err


@pytest.mark.heavy
@pytest.mark.sample(0.5)
@pytest.mark.parametrize("no_color", ["", "1"])
def test_colours_of_a_terminal(no_color: str, network: Path) -> None:
    """A terminal gets colours (progress and tables); NO_COLOR turns them off."""
    environment = {**os.environ, "TERM": "xterm-256color", "NO_COLOR": no_color}
    controller, terminal = pty.openpty()
    running = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, "run", "net.bin", *CHIP, "--preset", "fast", "-o", "out"],
        stdout=terminal, stderr=terminal, stdin=subprocess.DEVNULL, env=environment,
    )  # fmt: skip
    os.close(terminal)
    shown = b""
    while True:
        try:
            part = os.read(controller, 1 << 16)
        except OSError:  # Linux reports this when the other end is closed
            break
        if not part:
            break
        shown += part
    os.close(controller)
    assert running.wait() == 0, shown
    text = shown.decode()
    assert "cores used" in text
    assert bool(COLOUR.search(text)) == (not no_color)


def test_commands_that_read_files_have_a_memory_budget() -> None:
    """Check that all of them use the same option; --memory of `sweep` is shared by its runs."""
    reads_nothing = {"cache", "completion", "docs", "generate", "plugins", "runs", "warm"}
    helps = set()
    for name, parser in subparsers(build_whole_parser()).items():
        found = [one for one in parser._actions if "--memory" in one.option_strings]
        assert len(found) == (name not in reads_nothing), name
        helps |= {(one.metavar, one.help) for one in found}
    assert helps == {("SIZE", "memory budget, e.g. 8GiB (default: 3/4 of free)")}
