"""`mapper export`: convert a network file, or the mapping of an output folder."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from mapper.cli import options as common
from mapper.cli import terminal
from mapper.cli.formats import AnyFormat, list_added, list_formats
from mapper.cli.hw import CORE_OPTIONS
from mapper.cli.neurons import add_neurons
from mapper.cli.options import above_zero
from mapper.cli.parser import Topic
from mapper.cli.simulate import add_units
from mapper.cli.stores import add_timeout
from mapper.cli.streams import is_standard
from mapper.exports import EXPORTS as MAPPINGS
from mapper.exports import added_mappings
from mapper.jobs.locking import lock_output
from storage.address import path_of
from storage.formats import EXPORTS as NETWORKS
from storage.formats import added_exporters

FREQUENT = ("format", "moved", "graph", "threshold", "leak", "reset")
EPILOG = f"""\
examples:
  mapper export net.bin net.graph
  mapper export net.bin net.csv.gz
  mapper export net.bin edges.h5
  mapper export net.bin - --format csv | head
  mapper export result mapping.csv
  mapper export result mapping.yaml --threshold 2
  mapper export result chip.tables.json --threshold 100 --leak 4
  mapper export result mapped.nir --graph model.nir
  mapper export result mapping.noxim
  mapper export out back.nir

The extension of DST selects the format of a network; text may be gzipped (.gz):
{list_formats(NETWORKS.values())}

Attributes that the format cannot store are listed on stderr.

The output folder of a run is exported as a mapping, a compiled spiking model as
tables, sanafe or nir; the extension of DST selects the format:
{list_formats(MAPPINGS.values())}

`mapper docs export` lists the data that each format can store.
"""


def topic(words: Sequence[str]) -> Topic:
    """Return the help, with the formats of other packages if the words ask for help."""
    return Topic(FREQUENT, EPILOG + list_added(words, _added))


def _added() -> Iterator[AnyFormat]:
    yield from added_exporters()
    yield from added_mappings()


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.usage = "%(prog)s NET|DIR DST [options]"
    parser.add_argument(
        "network", type=path_of, metavar="NET|DIR", help="network file or output folder to read"
    )
    parser.add_argument(
        "destination", type=Path, metavar="DST", help="file to write, - for text to standard output"
    )
    names = ", ".join(dict.fromkeys((*NETWORKS, *MAPPINGS)))
    parser.add_argument("--format", metavar="F", help=f"{names} (default: by extension)")
    common.add_memory(parser)
    add_timeout(parser)
    group = parser.add_argument_group("output folders")
    group.add_argument(
        "--network",
        dest="moved",
        type=path_of,
        metavar="NET",
        help="network of DIR, if it was moved",
    )
    group.add_argument(
        "--graph",
        type=Path,
        metavar="FILE",
        help=f"NIR file of the network, to add the cores to{_takers('graph')}",
    )
    add_neurons(parser.add_argument_group("neuron parameters"), _takers)
    group = parser.add_argument_group(f"cores, as for mapper hw{_takers('axon_bits')}")
    group.add_argument(
        "--axon-bits", type=common.positive, metavar="N", help="bits per axon number in a packet"
    )
    for name, text in CORE_OPTIONS.items():
        option = f"--{name.replace('_', '-')}"
        group.add_argument(option, type=common.positive, metavar="N", help=text)
    group = parser.add_argument_group(f"traffic, as for mapper simulate{_takers('load_scale')}")
    group.add_argument(
        "--load-scale", type=above_zero, metavar="F", help="factor on the load (default: 1)"
    )
    add_units(group)


def _takers(option: str) -> str:
    """Return the mapping formats with an option, for its help."""
    names = ", ".join(each.name for each in MAPPINGS.values() if option in each.options)
    return f" ({names})"


def run(options: argparse.Namespace) -> int:
    from mapper.inputs.source import Effort
    from mapper.jobs.export import ExportRequest, export
    from mapper.results.tables import facts
    from storage.formats.sinks import STANDARD_OUTPUT

    names = [name for each in MAPPINGS.values() for name in each.options]
    given = {name: getattr(options, name) for name in names}
    request = ExportRequest(
        options.network, options.destination, options.format, given, options.moved,
        Effort(common.threads_of(options), common.memory_of(options)),
    )  # fmt: skip
    if is_standard(options.destination):
        _require_text(options)
        export(request._replace(destination=STANDARD_OUTPUT), common.listener(options))
        return 0
    with lock_output(options.destination):
        result = export(request, common.listener(options))
    result["bytes"] = options.destination.stat().st_size
    shown = {name: value for name, value in result.items() if name != "left_out"}
    terminal.emit(options, result, [facts("exported", shown)])
    return 0


def _require_text(options: argparse.Namespace) -> None:
    """Raise `UsageError` for exports that cannot go to standard output."""
    from mapper.errors import UsageError
    from mapper.results.output_folder import find_folder
    from storage.formats import choose_exporter
    from storage.store.sharded import is_sharded

    texts = ", ".join(each.name for each in NETWORKS.values() if each.text)
    if find_folder(options.network).is_dir() and not is_sharded(options.network):
        raise UsageError("-: mappings are not written to standard output; name a file")
    if sys.stdout is None:
        raise UsageError("-: standard output is closed; name a file")
    if options.json:
        raise UsageError("-: --json prints to standard output; name a file")
    if options.format is None or not choose_exporter(options.destination, options.format).text:
        raise UsageError(f"-: choose a format of text with --format ({texts}), or name a file")
