"""`mapper verify`: verify a network, a mapping or a compiled model with independent code."""

from __future__ import annotations

import argparse

from mapper.cli import options as common
from mapper.cli import terminal, worker_options
from mapper.cli.stores import add_timeout
from storage.address import path_of

EPILOG = """\
examples:
  mapper verify net.bin
  mapper verify result
  mapper verify out       (of compile: programs, or tables of spiking cores)
  mapper verify result --network moved/net.bin
  mapper verify /lustre/result --workers slurm:16
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "path", type=path_of, metavar="NET|DIR", help="network file or output folder"
    )
    parser.add_argument(
        "--network", type=path_of, metavar="NET", help="network of DIR, if it was moved"
    )
    common.add_memory(parser)
    add_timeout(parser)
    worker_options.add_workers(parser)


def run(options: argparse.Namespace) -> int:
    from rich.text import Text

    from mapper.jobs.verify import VerifyRequest, verify_path
    from mapper.results.tables import facts

    request = VerifyRequest(options.path, options.network, common.threads_of(options))
    found = verify_path(
        request, common.listener(options), lambda: worker_options.ranges_of(options)
    )
    line = f"{options.path}: {found}"
    terminal.emit(options, found.to_json(), [facts(line, found.facts)], Text(line))
    return 0
