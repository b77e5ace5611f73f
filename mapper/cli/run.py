"""`mapper run`: the whole job."""

from __future__ import annotations

import argparse
import shutil
from pathlib import Path
from typing import Any

from mapper.cli import options as common
from mapper.cli import tuning
from mapper.errors import INTERRUPTED, MapperError
from mapper.settings import OBJECTIVES

EPILOG = """\
examples:
  mapper run net.bin --chip 64x64
  mapper run wing.graph --chip 16x16 --neurons-per-core 250 --seed 1 --json

Ctrl-C keeps the best mapping so far; before there is one, --resume goes on.
`mapper docs formats` describes the files of the output folder.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.usage = "%(prog)s NET --chip C [options]"
    parser.add_argument("network", type=Path, metavar="NET", help="net.bin, or a file to import")
    parser.add_argument(
        "-o", "--output", type=Path, metavar="DIR", help="output folder (default: NAME-mapping)"
    )
    parser.add_argument("--force", action="store_true", help="replace an existing output folder")
    parser.add_argument(
        "--resume", action="store_true", help="resume an interrupted run after its last step"
    )
    parser.add_argument(
        "--keep-scratch",
        action="store_true",
        help="keep the scratch database (coarse levels)",
    )
    common.add_constraints(parser)
    common.add_split(parser)
    common.add_columns(parser)
    common.add_rates(parser)
    common.add_chip(parser)
    method = parser.add_argument_group("method and effort")
    tuning.add_preset(method)
    method.add_argument(
        "--objective",
        choices=OBJECTIVES,
        metavar="O",
        help="minimize hops of what the chip sends (hops), or as named: "
        + ", ".join(OBJECTIVES[1:]),
    )
    tuning.add_room(method)
    tuning.add_settings(method, old=tuning.OLD)
    common.add_effort(method)


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
    from mapper.runtime.resume import describe_run, planned_memory, require_same
    from mapper.runtime.stopping import GRACE, Stop
    from mapper.session import MapRequest, Workspace, mapped
    from storage.files import digest, real_path, write_file

    chip = common.chip_of(options)
    stem = Path(options.network.name.removesuffix(".gz")).stem
    output = options.output or Path(f"{stem}-mapping")
    if real_path(output) in real_path(options.network).parents:
        raise MapperError(f"{options.network}: lies in {output}, which it would replace; move it")
    if options.resume and options.memory is None:
        options.memory = planned_memory(partial_folder(output))
    settings = tuning.settings_of(options)
    console = common.stderr_console(options)
    try:
        run_here = describe_run(options.network, chip, settings)
    except OSError as error:
        raise MapperError(f"{options.network}: cannot read: {error.strerror}") from error
    if options.resume and is_complete(output):
        report = read_report(output)
        require_same(report, output, run_here)
        common.say(options, f"{output}: is complete already")
        return _print_results(options, report, output)
    tuning.tell_unread(options, settings)
    constraint_file = common.constraints_of(options)
    run_here["constraints"] = None if constraint_file is None else constraint_file.raw.hex()
    run_here["columns"] = None if options.columns is None else asdict(options.columns)
    run_here["rates"] = None
    if isinstance(options.rates, str):
        run_here["rates"] = options.rates
    elif options.rates is not None:
        run_here["rates"] = digest(options.rates)
        run_here["rates duration"] = options.rates_duration
    if options.weights_are is not None:
        run_here["weights are"] = options.weights_are
    run_here["split neurons"] = options.split_neurons
    source = common.source_of(options, options.network)
    request = MapRequest(
        source,
        chip,
        settings,
        constraint_file,
        options.split_neurons,
        ("mapper", *options.arguments),
    )
    stop = Stop(GRACE)
    with output_folder(output, options.force, options.resume, run_here) as work:
        folder, resumed = work.folder, work.resumed
        place = Workspace(folder, output, resumed=resumed)
        with (
            Monitor(console, options.verbose, folder / LOG, stop=stop) as monitor,
            mapped(request, place, monitor, common.listener(options)) as session,
        ):
            mapping, report, relays = session.mapping, session.report, session.relays

        def write() -> None:
            write_results(folder, report, mapping, chip, relays)
            loads = Loads.of(mapping.traffic)
            write_page(folder / PAGE, [make_view(real_path(output).name, report, loads)])
            if constraint_file is not None:
                write_file(folder / CONSTRAINTS, constraint_file.raw)
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
    code = _print_results(options, report, output)
    return INTERRUPTED if interrupted else code


def _print_results(options: argparse.Namespace, report: dict[str, Any], output: Path) -> int:
    """The report on stdout."""
    from mapper.report.make import PAGE
    from mapper.results.activity import traffic_in
    from mapper.results.tables import facts, levels, quality, size, stages

    used = report["resources"]
    rows = [("neurons", report["network"]["neurons"]), ("synapses", report["network"]["synapses"])]
    if report.get("split"):
        split = report["split"]
        rows += [("split neurons", split["neurons"]), ("relay neurons", split["helpers"])]
    rows += [
        ("seconds", used["seconds"]),
        ("peak memory", size(used["peak_rss_bytes"])),
        ("output", str(output)),
        ("open in a browser", str(output / PAGE)),
    ]
    about = facts(f"{options.network.name} on {report['chip']['name']}", rows)
    tables = [about, levels(report["levels"]), stages(report["stages"])]
    tables += quality(report["metrics"], traffic_in(report), report["chip"]["delivery"])
    common.emit(options, {**report, "output": str(output)}, tables)
    return 0
