"""`mapper verify`: verify a network, a mapping or a compiled model with independent code."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

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
NEURON_BYTES = 16  # of a network, held for its verification


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
    from mapper.compiler.artifacts.manifest import is_compiled
    from mapper.compiler.artifacts.manifest import read_folder as read_compiled
    from mapper.compiler.artifacts.verify import verify_compiled
    from mapper.evaluation.verify import verify_network
    from mapper.executors.worker_interface import all_at_once
    from mapper.monitoring.resources import require_neurons
    from mapper.results.output_folder import find_folder, read_folder
    from mapper.results.sealed_folder import as_damage
    from mapper.spiking.artifacts.folder import is_spiking
    from storage.store.network import NetworkFile
    from storage.store.sharded import is_sharded

    find_folder(options.path)
    if not options.path.is_dir() or is_sharded(options.path):
        if options.path.exists():
            with NetworkFile(options.path) as opened:
                require_neurons(opened, NEURON_BYTES)
            common.compile_kernels(options, "verify")
        with worker_options.ranges_of(options) as ranges:
            found = verify_network(_named(options, options.path), ranges or all_at_once)
        result = {"path": str(options.path), "valid": True, **found}
        verdict = f"valid network: {found['neurons']:,} neurons, {found['synapses']:,} synapses"
        _print_verdict(options, result, found, verdict)
        return 0

    if is_spiking(options.path):
        return _verify_spiking(options)
    if is_compiled(options.path):
        with as_damage(options.path):
            found = verify_compiled(read_compiled(options.path))
        result = {"path": str(options.path), "valid": True, **found}
        verdict = f"valid programs: {found['instructions']:,} instructions of {_cores(found)}"
        _print_verdict(options, result, found, verdict)
        return 0
    network, found = read_folder(options.path, lambda: _verify_folder(options))
    result = {"path": str(options.path), "network": str(network), "valid": True, **found}
    verdict = f"valid mapping: {_count(found)} values of report.json recomputed, all equal"
    if left := found.get("not_recomputed"):
        verdict += f"; not recomputed: {', '.join(left)}"
    _print_verdict(options, result, found, verdict)
    return 0


def _verify_spiking(options: argparse.Namespace) -> int:
    """Verify the folder of a compiled spiking model."""
    from mapper.results.output_folder import read_folder
    from mapper.spiking.artifacts.folder import read_folder as read_spiking
    from mapper.spiking.artifacts.verify import verify_folder

    found = read_folder(options.path, lambda: verify_folder(read_spiking(options.path))._asdict())
    result = {"path": str(options.path), "valid": True, **found}
    verdict = f"valid tables: {found['synapses']:,} synapses in {found['words']:,} words of "
    verdict += f"{_cores(found)}, as in the model"
    _print_verdict(options, result, found, verdict)
    return 0


def _print_verdict(
    options: argparse.Namespace, result: dict[str, Any], found: dict[str, Any], verdict: str
) -> None:
    """Print the verdict in one line; with --details also the values."""
    from rich.text import Text

    from mapper.results.tables import facts

    line = f"{options.path}: {verdict}"
    terminal.emit(options, result, [facts(line, found)], Text(line))


def _cores(found: dict[str, Any]) -> str:
    return "1 core" if found["cores"] == 1 else f"{found['cores']:,} cores"


def _count(found: dict[str, Any]) -> int:
    """Return the number of values, including nested objects."""
    return sum(
        _count(value) if isinstance(value, dict) else 1
        for name, value in found.items()
        if name != "not_recomputed"
    )


def _named(options: argparse.Namespace, path: Path) -> Path:
    """Return a path that workers in other folders can open."""
    return path if options.workers is None else path.absolute()


def _verify_folder(options: argparse.Namespace) -> tuple[Path, dict[str, Any]]:
    """Verify a mapping; return the path of its network and the recomputed values."""
    from mapper.evaluation.verify import verify_network
    from mapper.evaluation.verify_mapping import verify_mapping
    from mapper.executors.worker_interface import all_at_once
    from mapper.results.output import network_of, read_report

    report = read_report(options.path)
    network = network_of(options.path, options.network, report)
    if network.exists():
        common.compile_kernels(options, "verify")
    network = _named(options, network)
    with worker_options.ranges_of(options) as ranges:
        each = ranges or all_at_once
        verify_network(network, each)
        return network, verify_mapping(options.path, report, network, each)
