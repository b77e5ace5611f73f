"""Quality of mappings: presets of mapper compared with other partitioners on the same inputs.

    python scripts/bench_quality.py [--tables hops cut qap] [--presets default fast] [--json FILE]

Tables: hops (graphs on meshes), cortex (cortical sheets), cut (Walshaw graphs relative to METIS
k-way), qap (QAPLIB grids relative to best known), groups (layers of groups relative to simple
placements), multicast (connectivity relative to hypergraph partitioners), core (hops of packets to
cores), tight (vertices of many sizes, hardly any slack), limits (a microcircuit on chips whose
limits it may exceed).

Every run is a separate process. `mapper score` measures all results: a result with a core over its
capacity is not counted, and is shown as `N over`. Peers without a hard cap are called again with
less slack until they keep it. Peers that only partition are placed by `mapper place`
(`--placements` seeds, best kept). Seconds exclude start, compilation and scoring: for a preset they
are the sum of its stages, including reading; for a peer its partitioning, all calls, and the
placements.

Peers are metis, kaminpar, mtkahypar, kahip and scotch, optionally with :CONTEXT. They come with
`pip install .[bench]`; a missing peer gives a note.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import tempfile
from collections.abc import Callable
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path

from bench_common import PEER_MODULES, machine, mapper, need, say
from bench_mapping import cortex, cut, hops, tight
from bench_runs import Bench, default_data
from bench_special import core, groups, limits, multicast, qap
from bench_tables import Table, markdown
from rich.console import Console
from rich.measure import Measurement

from mapper.results.tables import columns, size

TABLES: dict[str, Callable[[Bench], list[Table]]] = {
    "hops": hops,
    "cortex": cortex,
    "cut": cut,
    "qap": qap,
    "groups": groups,
    "multicast": multicast,
    "core": core,
    "tight": tight,
    "limits": limits,
}
PEERS = (
    "metis",
    "kaminpar:default",
    "kaminpar:eco",
    "kaminpar:strong",
    "kaminpar:largek",
    "mtkahypar:default",
    "mtkahypar:quality",
    "kahip:eco",
    "scotch:default",
    "scotch:quality",
)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add(
        "--tables",
        nargs="+",
        choices=TABLES,
        default=list(TABLES),
        metavar="T",
        help="tables to print",
    )
    add("--presets", nargs="*", default=["strong", "default", "fast", "classic"], metavar="P")
    add("--peers", nargs="*", default=list(PEERS), metavar="PEER", help="or none")
    add("--seeds", type=int, nargs="+", metavar="S", help="default: 1 to --repeat")
    add("--repeat", type=int, default=1, metavar="N", help="seeds of each run")
    add("--threads", type=int, default=1, metavar="N", help="threads of presets and peers")
    add("--memory", metavar="SIZE", help="--memory of mapper (default: its own)")
    add("--placements", type=int, default=3, metavar="N", help="placements per peer, best kept")
    add(
        "--sides",
        type=int,
        nargs="+",
        default=[316, 1024],
        metavar="S",
        help="cortex: sides of the sheets",
    )
    add(
        "--parts",
        type=int,
        nargs="+",
        default=[8, 32, 64],
        choices=(8, 32, 64),
        help="cut: numbers of parts",
    )
    add(
        "--sizes",
        type=int,
        nargs="+",
        default=[64, 256],
        metavar="S",
        help="groups: sizes of the networks",
    )
    add("--graphs", nargs="+", metavar="NAME", help="hops, cut, core: only these graphs")
    add("--limit", type=float, default=600, metavar="SECONDS", help="time limit of a run")
    add("--data", type=Path, default=default_data(), metavar="DIR", help="folder of real inputs")
    add("--folder", type=Path, metavar="DIR", help="folder that keeps and reuses inputs")
    add("--json", type=Path, metavar="FILE", help="write all runs and tables")
    add("--known", type=Path, nargs="+", default=[], metavar="FILE", help="results of earlier runs")
    add("--no-runs", action="store_true", help="show only the runs of --known")
    add("--cpu", action="store_true", help="show CPU seconds, for a busy machine")
    add("--markdown", action="store_true", help="print the tables as Markdown")
    options = parser.parse_args()
    for peer in options.peers:
        if peer.partition(":")[0] not in (*PEER_MODULES, "none"):
            parser.error(f"--peers: {peer!r} is unknown; use {', '.join(PEER_MODULES)} or none")
    if min(options.repeat, options.threads, options.placements) < 1:
        parser.error("--repeat, --threads and --placements must be 1 or more")
    options.seeds = options.seeds or list(range(1, options.repeat + 1))
    return options


def show(table: Table, as_markdown: bool) -> None:
    if as_markdown:
        sys.stdout.write(markdown(table) + "\n")
    else:
        wide = Console(highlight=False, width=1000)
        heads = [head.replace(" ", "\n") for head in table.heads]
        made = columns(table.title, heads, table.rows)
        wide.width = Measurement.get(wide, wide.options, made).maximum
        wide.print(made)
    sys.stdout.flush()


def main() -> None:
    options = arguments()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # also ends the child
    about = machine()
    tables: list[Table] = []
    if options.folder:
        options.folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=options.folder, prefix="bench-") as name:
        work = Path(name).resolve()
        bench = Bench(options, (options.folder or work).resolve(), work)
        bench.read_known(options.known)

        def write_json() -> None:
            """Write after every run: a later one may be interrupted."""
            hidden = ("json", "data", "folder", "known")
            whole = {
                "date": datetime.now(UTC).isoformat(timespec="seconds"),
                "machine": about,
                "options": {k: v for k, v in vars(options).items() if k not in hidden},
                "notes": list(bench.notes),
                "tables": [asdict(table) for table in tables],
                "runs": bench.runs,
            }
            partial = options.json.with_name(options.json.name + ".partial")
            partial.write_text(json.dumps(whole, indent=1) + "\n")
            partial.replace(options.json)

        if options.json:
            bench.changed = write_json
        tiny = work / "tiny.bin"  # compiles the kernels if necessary
        need(mapper("generate", "cortex", "--side", "32", str(tiny), "-q"))
        versions = ", ".join(f"{name} {number}" for name, number in about["versions"].items())
        head = (
            f"{datetime.now(UTC):%Y-%m-%d}; {about['cpu']}, {about['cores']} cores, "
            f"{size(about['memory_bytes'])}; Python {about['python']}, {versions}\n"
            f"threads {options.threads}, seeds {' '.join(map(str, options.seeds))}\n"
        )
        sys.stdout.write(head)
        for table in options.tables:
            try:
                found = TABLES[table](bench)
            except OSError as error:
                bench.note(f"{table}: {error}")
                continue
            tables += found
            for one in found:
                show(one, options.markdown)
        if options.json:
            write_json()
        for note in bench.notes:
            sys.stdout.write(f"note: {note}\n")
    say(f"load average {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
