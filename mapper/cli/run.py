"""`mapper run`: the whole job."""

from __future__ import annotations

import argparse
import shutil
from pathlib import Path
from typing import Any

from mapper.cli import options as common
from mapper.errors import INTERRUPTED, MapperError

EPILOG = """\
examples:
  mapper run net.bin --chip 64x64
  mapper run wing.graph --chip 16x16 --neurons-per-core 250 --seed 1 --json
  mapper run net.bin --chip loihi64 -o result --force --keep-scratch
  mapper run net.bin --chip truenorth --split-neurons --constraints wishes.toml

The output folder holds mapping.npz (`core`: one core id per neuron),
report.html, report.json, traffic.npz (what the page shows of each core and
link) and run.log; with --keep-scratch also the coarse levels.

Ctrl-C (or SIGTERM) ends a run early, with exit code 130: once all neurons have
cores within the limits the folder holds the best mapping so far; before,
--resume goes on. A second one stops at once, and --resume goes on.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("network", type=Path, metavar="NET", help="net.bin, or a file to import")
    common.add_chip(parser)
    common.add_constraints(parser)
    common.add_split(parser)
    common.add_rates(parser)
    parser.add_argument(
        "-o", "--output", type=Path, metavar="DIR", help="default: NAME-mapping, here"
    )
    parser.add_argument("--force", action="store_true", help="replace an existing output folder")
    parser.add_argument(
        "--resume",
        action="store_true",
        help="go on behind the last finished step of a run that was interrupted or killed",
    )
    parser.add_argument(
        "--keep-scratch", action="store_true", help="keep coarse levels, to look at"
    )
    method = parser.add_argument_group("method")
    method.add_argument(
        "--preset", default="default", metavar="P", help="fast, default, strong or classic"
    )
    method.add_argument(
        "--objective",
        choices=("unicast", "cut", "multicast"),
        help="fewest hops of all spikes, one a synapse; or the smallest cut (then cores are "
        "placed, no more); or fewest hops of spikes that fan out inside the core",
    )
    for name, text in (
        ("bisection-repeats", "random starts of each bisection"),
        ("refinement-passes", "visits to all vertices while refining cores"),
        ("degree", "connections of a neuron, in the mean, that passes look at"),
        ("cluster-rounds", "rounds of label propagation that make clusters"),
        ("coarse-degree", "connections of a cluster that the coarse graph keeps"),
        ("block-vertices", "neurons of a block, which is cut into cores in memory"),
        ("block-passes", "visits to all vertices while refining blocks"),
        ("fm-passes", "passes of FM in each bisection of a block"),
        ("smoothing", "steps that smooth the cut of a bisection"),
        ("level-budget", "connections up to which a network is mapped on levels in memory"),
        ("starts", "partitions of the coarsest level, of which the best is taken"),
        ("hop-passes", "visits to all neurons while they move to cores with fewer hops"),
        ("exchanges", "rounds of exchanges of neurons between cores near each other, at most"),
        ("hop-budget", "connections that these passes, and these rounds, look at in all"),
        ("cycles", "V-cycles over the mapping, of networks held in memory"),
        ("proposals", "of annealing, for each neuron on each level, at most"),
        ("cycle-proposals", "the same in V-cycles"),
        ("anneal-budget", "connections that annealing of the neurons looks at, about"),
        ("net-budget", "multicast: pins of nets that a refinement of the partition looks at"),
        ("recuts", "multicast: rounds in which pairs of parts are bisected anew"),
        ("tree-cycles", "multicast: V-cycles over the mapping by hops of trees"),
        ("tree-proposals", "multicast: of annealing, for each neuron on each level of these"),
        ("matching-repeats", "classic: random orders for each round of pairing"),
        ("force-iterations", "classic: limit of force-directed refinement"),
        ("size-divisor", "classic: a coarse vertex is at most a core over this"),
    ):
        method.add_argument(f"--{name}", type=common.natural, metavar="N", help=text)
    for name, text in (
        ("stop-shrink", "classic: coarsening stops below this share of vertices removed"),
        ("force-share", "classic: share of the groups that may swap in an iteration"),
    ):
        method.add_argument(f"--{name}", type=float, metavar="F", help=text)
    common.add_columns(parser)
    common.add_effort(parser)


METHOD = (
    "degree",
    "cluster_rounds",
    "coarse_degree",
    "block_vertices",
    "block_passes",
    "fm_passes",
    "smoothing",
    "level_budget",
    "starts",
    "hop_passes",
    "exchanges",
    "hop_budget",
    "cycles",
    "proposals",
    "cycle_proposals",
    "anneal_budget",
    "net_budget",
    "recuts",
    "tree_cycles",
    "tree_proposals",
    "objective",
    "matching_repeats",
    "bisection_repeats",
    "refinement_passes",
    "force_iterations",
    "size_divisor",
    "stop_shrink",
    "force_share",
)


def run(options: argparse.Namespace) -> int:
    from dataclasses import asdict

    from mapper.inputs.split import SPLIT
    from mapper.report.make import PAGE, write_page
    from mapper.report.view import make_view
    from mapper.results.loads import Loads
    from mapper.results.output import (
        CONSTRAINTS,
        LOG,
        SCRATCH,
        read_report,
        write_results,
    )
    from mapper.results.output_folder import is_complete, output_folder, partial_folder
    from mapper.runtime.monitor import Monitor
    from mapper.runtime.resume import describe_run, planned_memory
    from mapper.runtime.stopping import GRACE, Stop
    from mapper.session import MapRequest, Workspace, mapped
    from mapper.settings import preset
    from storage.files import digest, real_path, write_file

    chip = common.chip_of(options)
    stem = Path(options.network.name.removesuffix(".gz")).stem
    output = options.output or Path(f"{stem}-mapping")
    if real_path(output) in real_path(options.network).parents:
        raise MapperError(f"{options.network}: lies in {output}, which it would replace; move it")
    if options.resume and options.memory is None:
        options.memory = planned_memory(partial_folder(output))
    given = {name: getattr(options, name) for name in METHOD if getattr(options, name) is not None}
    settings = preset(
        options.preset,
        seed=options.seed,
        threads=common.threads_of(options),
        memory_bytes=common.memory_of(options),
        **given,
    )
    console = common.stderr_console(options)
    if options.resume and is_complete(output):
        report = read_report(output)
        common.say(options, f"{output}: is complete already")
        return _tell(options, report, output)
    try:
        run_here = describe_run(options.network, chip, settings)
    except OSError as error:
        raise MapperError(f"{options.network}: cannot read: {error.strerror}") from error
    wishes = common.wishes_of(options)
    run_here["constraints"] = None if wishes is None else wishes.raw.hex()
    run_here["columns"] = None if options.columns is None else asdict(options.columns)
    run_here["rates"] = None
    if isinstance(options.rates, str):
        run_here["rates"] = options.rates
    elif options.rates is not None:
        run_here["rates"] = digest(options.rates)
        run_here["rates duration"] = options.rates_duration
    run_here["split neurons"] = options.split_neurons
    source = common.source_of(options, options.network)
    request = MapRequest(
        source, chip, settings, wishes, options.split_neurons, ("mapper", *options.arguments)
    )
    stop = Stop(GRACE)
    with output_folder(output, options.force, options.resume, run_here) as work:
        folder, resumed = work.folder, work.resumed
        place = Workspace(folder, output, resumed=resumed)
        with (
            Monitor(console, options.verbose, folder / LOG, stop=stop) as monitor,
            mapped(request, place, monitor, common.listener(options)) as session,
        ):
            mapping, report, helpers = session.mapping, session.report, session.helpers

        def write() -> None:
            write_results(folder, report, mapping, chip, helpers)
            loads = Loads.of(mapping.traffic)
            write_page(folder / PAGE, [make_view(real_path(output).name, report, loads)])
            if wishes is not None:
                write_file(folder / CONSTRAINTS, wishes.raw)
            if not options.keep_scratch:  # last: who is killed before goes on behind all steps
                shutil.rmtree(folder / SCRATCH, ignore_errors=True)
                (folder / SPLIT).unlink(missing_ok=True)

        stop.run(write, patient=True)
    interrupted = stop.asked
    if mapping.interrupted:
        when = f"during the stage {mapping.interrupted!r}"
        common.complain(f"interrupted {when}: this is the best mapping found so far")
    elif interrupted:
        common.complain("interrupted while results were written: the mapping is complete")
    code = _tell(options, report, output)
    return INTERRUPTED if interrupted else code


def _tell(options: argparse.Namespace, report: dict[str, Any], output: Path) -> int:
    """The report on stdout."""
    from mapper.report.make import PAGE
    from mapper.results.activity import traffic_in
    from mapper.results.tables import facts, levels, quality, size, stages

    used = report["resources"]
    rows = [("neurons", report["network"]["neurons"]), ("synapses", report["network"]["synapses"])]
    if report.get("split"):
        rows += [(f"split {name}", report["split"][name]) for name in ("neurons", "helpers")]
    rows += [
        ("seconds", used["seconds"]),
        ("peak memory", size(used["peak_rss_bytes"])),
        ("output", str(output)),
        ("open in a browser", str(output / PAGE)),
    ]
    about = facts(f"{options.network.name} on {report['chip']['name']}", rows)
    tables = [about, levels(report["levels"]), stages(report["stages"])]
    tables += quality(report["metrics"], traffic_in(report))
    common.emit(options, {**report, "output": str(output)}, tables)
    return 0
