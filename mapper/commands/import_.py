"""`mapper import`: any known format to a network file."""

from __future__ import annotations

import argparse
from dataclasses import asdict
from pathlib import Path

from mapper.commands import common

EPILOG = """\
examples:
  mapper import 4elt.graph 4elt.bin
  mapper import connectome.csv.gz net.bin --memory 1GiB
  mapper import table.txt net.bin --format edgelist

Formats: metis, hmetis, edgelist (txt, csv, tsv, also .gz), npz, matrixmarket,
parquet, qaplib; found by content and name. Sparse ids are compacted in
increasing order and kept as the attribute `id`.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("source", type=Path, metavar="SRC", help="file to read")
    parser.add_argument("network", type=Path, metavar="NET", help="network file to write")
    parser.add_argument("--format", metavar="F", help="format of SRC, if its name does not tell")
    common.add_effort(parser, seed=False)


def run(options: argparse.Namespace) -> int:
    from mapper.tables import facts
    from storage.formats import import_network

    with common.fraction_bar(options, f"importing {options.source.name}") as progress:
        meta = import_network(
            options.source,
            options.network,
            options.format,
            memory=common.memory_of(options) // 2,
            threads=common.threads_of(options),
            progress=progress,
        )
    common.tell_losses(options, meta)
    result = {"path": str(options.network), **asdict(meta)}
    shown = ("neurons", "synapses", "synapses_read", "undirected", "total_size")
    rows = [(name.replace("_", " "), result[name]) for name in shown]
    rows.append(("attributes", ", ".join(meta.attributes) or "none"))
    common.emit(options, result, [facts(str(options.network), rows)])
    return 0
