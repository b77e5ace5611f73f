"""`mapper generate`: generate a synthetic network."""

from __future__ import annotations

import argparse
from dataclasses import MISSING, asdict, fields
from pathlib import Path

from mapper.cli import options as common
from mapper.cli import terminal, worker_options
from mapper.errors import UsageError
from mapper.jobs.locking import lock_output

EPILOG = """\
examples:
  mapper generate cortex net.bin --side 316 --fanout 50 --sigma 6 --shuffle
  mapper generate layered net.bin --layers 32x32x3,16x16x8,1x1x10 --kernel 3
  mapper generate microcircuit net.bin --scale 0.1
  mapper generate group-dnn net.bin --size 64
  mapper generate cortex /lustre/net.bin --side 9999 --workers slurm:16
  mapper generate cortex net.shards --side 316 --files 8

`mapper generate KIND --help` lists the options of a kind.
"""
WORKS = ("generate",)
MEMORY = 1 << 30  # bytes; more memory hardly speeds up the sort


def add_arguments(parser: argparse.ArgumentParser) -> None:
    from storage.generate import KINDS, VERSIONS

    kinds = parser.add_subparsers(dest="kind", metavar="KIND", required=True)
    for name, spec in KINDS.items():
        sub = kinds.add_parser(name, help=spec.about, description=spec.__doc__)
        sub.add_argument("network", type=Path, metavar="NET", help="network file to write")
        for field in fields(spec):
            required = field.default is MISSING
            text = field.metadata["help"]
            sub.add_argument(
                f"--{field.name.replace('_', '-')}",
                type={"int": int, "float": float}.get(str(field.type), str),
                metavar={"int": "N", "float": "F"}.get(str(field.type), "TEXT"),
                required=required,
                default=None if required else field.default,
                help=text if required else f"{text} (default: {field.default})",
            )
        sub.add_argument("--shuffle", action="store_true", help="permute neuron ids at random")
        sub.add_argument(
            "--draws",
            type=int,
            choices=VERSIONS,
            default=max(VERSIONS),
            help="random stream: 2 parallel, 1 serial (default: %(default)s)",
        )
        sub.add_argument(
            "--files", type=common.positive, metavar="N", help="write NET as a folder of N files"
        )
        common.add_effort(sub, memory="at most 1GiB")
        worker_options.add_workers(sub, " (to draw and sort)")
        # accept the common options also after KIND
        shared = sub.add_argument_group("common options")
        for flags, text in (
            (("--json",), "print one JSON object only"),
            (("-q", "--quiet"), "print nothing on success, except --json"),
            (("--debug",), "show tracebacks of errors"),
        ):
            shared.add_argument(*flags, action="store_true", default=argparse.SUPPRESS, help=text)


def run(options: argparse.Namespace) -> int:
    from mapper.kernels.warmup import compile_kernels
    from mapper.monitoring.resources import peak_rss_bytes
    from mapper.results.tables import facts, size
    from storage.errors import BadInputError
    from storage.generate import KINDS, Folder, Helpers, generate

    kind = KINDS[options.kind]
    try:
        spec = kind(**{field.name: getattr(options, field.name) for field in fields(kind)})
    except BadInputError as error:
        raise UsageError(str(error)) from error
    if options.workers is not None and options.draws == 1:
        raise UsageError(
            "--draws 1 uses one stream of random numbers, for one process; omit --workers"
        )
    memory = options.memory or min(common.memory_of(options), MEMORY)
    threads = common.threads_of(options)
    common.compile_kernels(options, *WORKS)
    with (
        lock_output(options.network, bool(options.files)),
        worker_options.workers_of(options, threads) as workers,
        terminal.fraction_bar(options, f"generating {options.kind}") as progress,
    ):
        helpers = None
        if workers is not None:
            workers.prepare(compile_kernels, WORKS, workers.threads())
            helpers = Helpers(workers.ranges, workers.task_memory(memory))
        meta = generate(
            spec,
            Folder(options.network, options.files) if options.files else options.network,
            options.seed,
            options.shuffle,
            draws=options.draws,
            memory=memory // 2,
            threads=threads,
            progress=progress,
            helpers=helpers,
        )
    common.tell_losses(options, meta)
    result = {"path": str(options.network), **asdict(meta), "peak_rss_bytes": peak_rss_bytes()}
    rows = [(name, result[name]) for name in ("neurons", "synapses")]
    rows.append(("attributes", ", ".join(meta.attributes) or "none"))
    rows.append(("peak memory", size(result["peak_rss_bytes"])))
    terminal.emit(options, result, [facts(str(options.network), rows)])
    return 0
