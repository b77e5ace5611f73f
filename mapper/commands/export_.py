"""`mapper export`: a network file, or the traffic of a mapping, to another format."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from mapper.commands import common
from mapper.commands.simulate_ import above_zero, add_units

EPILOG = """\
examples:
  mapper export net.bin net.graph
  mapper export net.bin net.csv.gz
  mapper export result mapping.noxim

METIS graphs are undirected: the two directions of a pair are added. csv holds
one line `source,target,weight` per synapse, with original ids where the
network has them.

The output folder of a run becomes a traffic table of the simulator Noxim: a
line `src dst pir` for each pair of cores, node ids y * width + x, packets a
cycle as `mapper simulate` would send them; see there for the units.
"""
NOXIM = "noxim"
SUFFIX = ".noxim"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "network", type=Path, metavar="NET|DIR", help="network file or output folder to read"
    )
    parser.add_argument("destination", type=Path, metavar="DST", help="file to write")
    parser.add_argument(
        "--format", metavar="F", help="metis, csv or noxim, if the name does not tell"
    )
    group = parser.add_argument_group("of an output folder")
    group.add_argument(
        "--network",
        dest="moved",
        type=Path,
        metavar="NET",
        help="the network of DIR, if it was moved",
    )
    group.add_argument(
        "--load-scale", type=above_zero, metavar="F", help="factor on the load (default: 1)"
    )
    add_units(group)


def run(options: argparse.Namespace) -> int:
    from mapper.errors import UsageError

    noxim = options.format == NOXIM or (
        options.format is None and options.destination.suffix.lower() == SUFFIX
    )
    if options.network.is_dir():
        if not noxim:
            raise UsageError(
                f"{options.network}: is a folder; its traffic is exported as {NOXIM}, "
                f"a network as metis or csv"
            )
        result = _traffic(options)
    else:
        if noxim:
            raise UsageError(
                f"{options.network}: is not the output folder of a run; only a mapping has the "
                f"traffic between cores that {NOXIM} holds"
            )
        for name in ("moved", "load_scale", "tick_cycles", "packets"):
            if getattr(options, name) is not None:
                option = "network" if name == "moved" else name.replace("_", "-")
                raise UsageError(f"--{option} is for the output folder of a run")
        result = _network(options)
    from mapper.tables import facts

    result["bytes"] = options.destination.stat().st_size
    common.emit(options, result, [facts("exported", result)])
    return 0


def _network(options: argparse.Namespace) -> dict[str, Any]:
    from storage.formats import export_network
    from storage.network import NetworkFile

    with NetworkFile(options.network) as network:
        export_network(network, options.destination, options.format)
        return {"path": str(options.destination), "synapses": network.meta.synapses}


def _traffic(options: argparse.Namespace) -> dict[str, Any]:
    from mapper.noxim import save_noxim
    from mapper.offered import offered_load
    from mapper.output import read_report
    from storage.network import NetworkFile

    report = read_report(options.network)
    with NetworkFile(common.network_of(options.network, options.moved, report)) as network:
        offered = offered_load(
            options.network,
            report,
            network,
            packets=options.packets or "synapse",
            tick_cycles=options.tick_cycles,
        )
    scale = options.load_scale or 1.0
    pairs = save_noxim(offered, scale, options.destination)
    ticks = None if offered.tick_cycles is None else offered.tick_cycles / scale
    return {"path": str(options.destination), "pairs": pairs, "tick_cycles": ticks}
