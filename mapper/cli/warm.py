"""`mapper warm`: compile the kernels ahead of their first use."""

from __future__ import annotations

import argparse
import os

from mapper.cli import options as common
from mapper.cli import terminal
from mapper.errors import BAD_INPUT

EPILOG = """\
examples:
  mapper warm
  mapper warm --preset default --preset fast
  NUMBA_CACHE_DIR=/opt/kernels mapper warm --json

By default, kernels are compiled at first use. If NUMBA_CACHE_DIR is set here,
set it to the same folder for later commands. Exit code 1 if a kernel could not
be compiled.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    from mapper.settings import PRESETS

    parser.add_argument(
        "--preset",
        action="append",
        choices=tuple(PRESETS),
        help="preset to compile for; repeatable (default: all)",
    )
    common.add_threads(parser)


def run(options: argparse.Namespace) -> int:
    import numba

    from mapper.cli.compiling import compile_once
    from mapper.errors import MapperError
    from mapper.kernels.warmup import missing_kernels, works_of_presets
    from mapper.results.tables import facts
    from mapper.settings import PRESETS

    if numba.config.DISABLE_JIT:  # type: ignore[attr-defined]
        raise MapperError("NUMBA_DISABLE_JIT is set and disables compilation; unset it")
    presets = options.preset or list(PRESETS)
    works = works_of_presets(presets)
    before = len(missing_kernels(works))
    found = compile_once(terminal.stderr_console(options), works, common.threads_of(options))
    missing = missing_kernels(works)
    result = {
        "presets": presets,
        "compiled": before - len(missing),
        "missing": missing,
        "processes": found.processes,
        "seconds": found.seconds,
        "cache": os.environ.get("NUMBA_CACHE_DIR"),
    }
    rows = [
        ("presets", ", ".join(presets)),
        ("compiled", result["compiled"]),
        ("missing", len(missing)),
        ("processes", found.processes),
        ("seconds", found.seconds),
    ]
    terminal.emit(options, result, [facts("kernels", rows)])
    return BAD_INPUT if missing else 0
