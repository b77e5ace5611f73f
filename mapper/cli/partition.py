"""`mapper partition`: divide a graph into parts of equal weight with few edges between them."""

from __future__ import annotations

import argparse
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mapper.cli import options as common
from mapper.cli import terminal, worker_options
from mapper.cli.options import Option, add_options, flag
from mapper.cli.stores import add_timeout
from mapper.errors import MapperError, UsageError
from mapper.settings import EFFORTS
from storage.address import path_of

if TYPE_CHECKING:
    from mapper.partitions.request import PartitionRequest
    from mapper.partitions.run import Partitioned
    from mapper.settings import Settings

FREQUENT = (
    "parts", "imbalance", "output", "force", "resume", "workdir", "preset", "memory", "threads",
    "seed", "workers",
)  # fmt: skip
EPILOG = """\
examples:
  mapper partition web.graph --parts 64
  mapper partition edges.csv --parts 8 --imbalance 0.1 -o edges.parts
  mapper partition net.bin --parts 1000 --memory 8GiB --preset strong --json

FILE has the part of a vertex per line, 0 to K-1, as METIS writes it. The
direction of edges is ignored: weights of both directions add. A part weighs at
most floor((1 + I) * ceil(weight of all vertices / K)).
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.usage = "%(prog)s GRAPH --parts K [options]"
    parser.add_argument("graph", type=path_of, metavar="GRAPH", help="a file to import, or net.bin")
    parser.add_argument(
        "--parts", type=common.positive, metavar="K", required=True, help="number of parts"
    )
    add_options(
        parser,
        Option("--imbalance", "I", "allowed excess over the mean (default: 0.03)", share, 0.03),
        Option("-o --output", "FILE", "partition to write (default: NAME.part.K)", Path),
        flag("--force", "replace an existing partition"),
        flag("--resume", "resume an interrupted run after its last step"),
        Option("--workdir", "DIR", "for temporary files (default: next to FILE)", Path),
    )
    common.add_columns(parser)
    method = parser.add_argument_group("method and effort")
    method.add_argument(
        "--preset", default="default", metavar="P", choices=EFFORTS, help="fast, default or strong"
    )
    common.add_effort(method)
    worker_options.add_workers(method)
    worker_options.add_worker_size(method)
    add_timeout(method)


def share(text: str) -> float:
    """Parse --imbalance."""
    from mapper.partitions.request import require_parts

    value: float | str = text
    with suppress(ValueError):
        value = float(text)
    try:
        require_parts(1, value)
    except UsageError as error:
        raise argparse.ArgumentTypeError(str(error)) from error
    return float(value)


def run(options: argparse.Namespace) -> int:
    from mapper.partitions.work_folder import require_output, work_folder, working_folder
    from mapper.resume.resume import describe_job, planned_memory
    from mapper.session import Workspace

    output = options.output or Path(f"{options.graph.name}.part.{options.parts}")
    folder = working_folder(output, options.workdir)
    if options.resume and output.exists() and not options.force:
        return _complete(options, output, folder)
    require_output(output, options.force)
    planned = planned_memory(folder) if options.resume and options.memory is None else None
    settings = _settings(options, planned)
    request = _request(options, settings)
    columns = request.source.columns
    given = {
        "parts": options.parts,
        "imbalance": options.imbalance,
        "columns": None if columns is None else asdict(columns),
    }
    try:
        about = describe_job(options.graph, settings, given)
    except OSError as error:
        raise MapperError(f"{options.graph}: cannot read: {error.strerror}") from error
    with work_folder(output, folder, options.resume, about) as work:
        place = Workspace(work.folder, resumed=work.resumed)
        found, entries = _search(options, request, place, output)
    _print(options, found, entries, output)
    return 0


def _settings(options: argparse.Namespace, memory: int | None = None) -> Settings:
    """Return the settings of the command line; memory : bytes that replace --memory."""
    from mapper.partitions.request import partition_settings

    return partition_settings(
        options.preset,
        seed=options.seed,
        threads=common.threads_of(options),
        memory_bytes=memory or common.memory_of(options),
    )


def _request(options: argparse.Namespace, settings: Settings) -> PartitionRequest:
    from mapper.cli.caching import cache_of
    from mapper.distributed.start import SRUN, ask_workers
    from mapper.partitions.request import PartitionRequest

    if options.workers == SRUN:
        raise UsageError("--workers srun is for `mapper run`; give the scheduler's file")
    asked = ask_workers(
        options.workers, settings.threads, options.worker_threads, options.worker_memory
    )
    source = common.source_of(options, options.graph)
    return PartitionRequest(
        source, options.parts, options.imbalance, settings, asked, cache_of(options)
    )


def _search(
    options: argparse.Namespace, request: PartitionRequest, place: Any, output: Path
) -> tuple[Partitioned, dict[str, Any]]:
    """Partition and write the file; return the partition, and its stages and resources."""
    from mapper.concurrency.interrupts import GRACE, Stop
    from mapper.monitoring.monitor import Monitor
    from mapper.partitions.part_file import write_parts
    from mapper.partitions.run import run_partition
    from mapper.results.output import LOG

    console = terminal.stderr_console(options)
    with Monitor(console, options.verbose, place.folder / LOG, stop=Stop(GRACE)) as monitor:
        found = run_partition(request, place, monitor, common.listener(options))
        write_parts(output, found.part)
        if note := order_note(found.names):
            terminal.say(options, note)
        return found, {"stages": monitor.stages, "resources": monitor.resources()}


def order_note(names: Any) -> str:
    """Return a note on the order of vertices with names; empty for the names 0 .. n-1.

    names : see `mapper.inputs.objects.names_of`
    """
    import numpy as np

    if names is None or (isinstance(names, np.ndarray) and (names == np.arange(names.size)).all()):
        return ""
    numbers = isinstance(names, np.ndarray) and bool((np.diff(names) > 0).all())
    order = "of increasing ids" if numbers else "of the vertices in `mapper import`"
    return f"note: vertices have names: the lines of the partition are in the order {order}"


def _complete(options: argparse.Namespace, output: Path, folder: Path) -> int:
    """Report a partition that an earlier command has completed, measured again.

    folder : working folder of that command, which may have been killed before it was removed
    """
    from mapper.concurrency.threads import ThreadTeam
    from mapper.partitions.part_file import read_parts
    from mapper.partitions.request import part_limits
    from mapper.partitions.run import Partitioned, graph_facts
    from mapper.partitions.score import score_partition
    from mapper.partitions.work_folder import remove_work

    settings = _settings(options)
    request = _request(options, settings)
    with (
        common.open_network(options, options.graph) as network,
        ThreadTeam(settings.threads) as team,
    ):
        limits = part_limits(network.vertex_sizes(), request)
        part = read_parts(output, network.vertices, options.parts)
        score = score_partition(network, part, options.parts, team)
        if score.weights.max() > limits.neurons:
            raise MapperError(
                f"{output}: a part weighs {score.weights.max():,}, more than {limits.neurons:,}; "
                "give --force without --resume to replace it"
            )
        found = Partitioned(part, score, limits.neurons, graph_facts(network), settings, None)
    remove_work(output, folder)
    terminal.say(options, f"{output}: already complete")
    _print(options, found, {}, output)
    return 0


def _print(
    options: argparse.Namespace, found: Partitioned, entries: dict[str, Any], output: Path
) -> None:
    """Print the summary, or one JSON object."""
    from mapper.results.summary import GAP, Row, resources_row, summary
    from mapper.results.tables import facts, number, stages

    score = found.score
    heaviest, allowed = int(score.weights.max()), found.capacity
    result = {
        "graph": {"path": str(options.graph), **found.graph},
        "parts": score.weights.size,
        "cut": score.cut,
        "imbalance": score.imbalance,
        "heaviest_part": heaviest,
        "lightest_part": int(score.weights.min()),
        "capacity": allowed,
        "settings": found.settings.to_json(),
        **entries,
        "output": str(output),
    }
    rows = [
        Row("vertices", found.graph["vertices"]),
        Row("edges", found.graph["edges"]),
        Row("parts", score.weights.size),
        GAP,
        Row("cut weight", score.cut, "each edge between parts once"),
        Row("imbalance", f"{score.imbalance:.4f}",
            f"heaviest part {number(heaviest)}, allowed {number(allowed)}"),
    ]  # fmt: skip
    if entries:
        rows.append(resources_row(entries["resources"]))
    rows += [GAP, Row("partition", "", str(output))]
    title = f"{options.graph.name} in {score.weights.size:,} parts"
    tables = [facts(title, [(row.name, row.value or row.remark) for row in rows if row.name])]
    if entries:
        tables.append(stages(entries["stages"]))
    terminal.emit(options, result, tables, summary(title, rows))
