"""`mapper simulate`: simulate the traffic of a mapping, or run a compiled model."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mapper.cli import options as common
from mapper.cli import terminal
from mapper.cli.given_options import refuse_others
from mapper.cli.hw import CORE_OPTIONS
from mapper.cli.neurons import add_neurons
from mapper.cli.options import Option, above_zero, add_options, choice, flag, positive
from mapper.cli.parser import HELP_ALL, Topic
from mapper.cli.stores import add_timeout
from mapper.errors import UsageError
from mapper.exports.base import NEURON_OPTIONS, WIDTHS
from mapper.inputs.source import Effort
from storage.address import path_of

if TYPE_CHECKING:
    from mapper.jobs.simulate import Spikes

MEASURED = 10_000  # default, mesh cycles
OF_BOTH = ("path", "cycles", "threads")
OF_MODELS = ("input", "limit", "check", "dump", "frames", "hardware", "clock")
OF_SPIKES = (*OF_BOTH, "input", "limit", "check", "hardware")
OF_MAPPINGS = (
    "network", "warmup", "load_scale", "tick_cycles", "packets", "ticks", "depth", "no_saturation",
    "spikes", "save", *NEURON_OPTIONS, *WIDTHS, "memory", "seed",
)  # fmt: skip
FREQUENT = (
    "network", "cycles", "load_scale", "tick_cycles", "packets", "ticks", "depth", "spikes", "save",
    "threshold", "leak", "reset", "tick_length", "threads", "seed",
)  # fmt: skip
"""Options of a mapping in the short help."""

MODELS = """\
Compiled models: the programs of the cores run bit for bit on the samples of
--input, including the nodes on the host. Accuracy is printed if there are
labels. --check compares every layer with the integer reference; --dump FOLDER
also writes every stored map (N.npy, and tensors.json). --cycles without a
number runs cycle by cycle and reports busy and stall cycles of each unit;
without --input it reports only times. One core runs the first sample. Several
cores run --frames consecutive frames, with the mesh flit by flit and the host:
latency, initiation interval, bottleneck and link loads are reported, and the
bytes of the first three frames are compared.
"""
SPIKES = """\
Compiled spiking models: the tables of the cores run bit for bit on the spikes
of --input, each sample from the states before the first tick. Accuracy is
printed if there are labels. --check compares every spike with the integer
reference, and reports the agreement with the model in floating point. --cycles
counts the cycles of each tick: cores, mesh and barrier. --hardware also runs
all samples in Amaranth (up to 4 cores), and compares every spike, the final
states and the cycles of every tick; it takes about a minute per sample, so add
--limit.
"""
MAPPINGS = """\
Mappings: their traffic is simulated. The result is added to report.json, and
report.html is written again.

If the chip sends packets to cores or along trees (`delivery` in its file) and
defines cycle counts (`[time]`), ticks run cycle by cycle with all cores, from
neuron update to barrier, in cycles of the chip. Neurons spike at random at
their rates. --ticks sets the number of ticks; results are `ticks` in
report.json.

With --spikes the network itself runs on the tables of its cores, bit for bit as
on the chip. It needs synaptic weights and neuron parameters, from the network
or the options. IN has the input spikes: npz with the arrays neuron and tick, or
a SONATA report with times in ms and --tick-length ms per tick (default: 1). A
spike in tick t charges the targets of its neuron in tick t. --save writes the
spikes of the network; as npz it is also a file for --rates (spikes per tick).

Otherwise, and with load options, only the mesh is simulated, router by router
and flit by flit: packets of one flit between different cores, sent at random at
constant mean rates. Packets within a core are counted but not sent. Cores and
the barrier between ticks are not simulated, so a chip needs more cycles per
tick than reported (`simulation` in report.json).

The traffic of the network (weights or firing rates) is used as packets per unit
of time. --tick-cycles sets the mesh cycles per unit of time at load scale 1; by
default, the busiest link or core has half a flit per cycle. --load-scale 2
sends twice as much in the same time. Saturation is reported as a load scale,
and as the fewest mesh cycles per unit of time that the mesh sustains.
"""
MODEL_EXAMPLES = """\
  mapper simulate out --input samples.npz
  mapper simulate out --input samples.npz --check --dump maps
  mapper simulate out --cycles --frames 100 --clock 400
"""
SPIKES_EXAMPLES = """\
  mapper simulate out --input spikes.npz
  mapper simulate out --input spikes.npz --check --cycles
"""
MAPPING_EXAMPLES = """\
  mapper simulate result
  mapper simulate result --load-scale 1.5 --depth 8 --no-saturation
  mapper simulate result --ticks 1000
  mapper simulate result --spikes in.npz --ticks 500 --save out.h5
  mapper simulate result --tick-cycles 20000 --packets core --json
"""
EPILOG = f"""\
examples:
{MAPPING_EXAMPLES}{MODEL_EXAMPLES}
DIR is the output folder of `run` (a mapping) or of `compile` (a compiled
model); `mapper simulate DIR --help` lists the options that apply to it.

{MODELS}
{SPIKES}
{MAPPINGS}"""


def topic(words: Sequence[str]) -> Topic:
    """Return the help for the kind of folder in the words of the command line."""
    if "-h" in words or "--help" in words or HELP_ALL in words:
        from mapper.compiler.artifacts.manifest import is_compiled
        from mapper.results.output import REPORT
        from mapper.spiking.artifacts.folder import is_spiking

        for folder in (Path(word) for word in words[1:] if not word.startswith("-")):
            if is_spiking(folder):
                return Topic(
                    OF_SPIKES, f"examples:\n{SPIKES_EXAMPLES}\n{SPIKES}",
                    [one for one in (*OF_MODELS, *OF_MAPPINGS) if one not in OF_SPIKES],
                )  # fmt: skip
            if is_compiled(folder):
                return Topic(
                    (*OF_BOTH, *OF_MODELS), f"examples:\n{MODEL_EXAMPLES}\n{MODELS}", OF_MAPPINGS
                )
            if (folder / REPORT).is_file():
                return Topic(FREQUENT, f"examples:\n{MAPPING_EXAMPLES}\n{MAPPINGS}", OF_MODELS)
    frequent = ("cycles", "input", "check", "spikes", "ticks", "threads")
    return Topic(
        frequent, EPILOG, more="`mapper simulate DIR --help` lists the options that apply to DIR."
    )


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.usage = "%(prog)s DIR [options]"
    add_options(
        parser,
        Option("path", "DIR", "output folder of run or compile", Path),
        Option("--network", "NET", "network of DIR, if it was moved", path_of),
    )
    samples = parser.add_argument_group("compiled models")
    add_options(
        samples,
        Option("--input", "DATA", "samples: .npz, .npy, .csv or a folder of images", Path),
        Option("--limit", "N", "run only the first N samples (default: all)", positive),
        flag("--check", "compare every layer with the integer reference"),
        Option("--dump", "FOLDER", "write and compare every stored map", Path),
    )
    samples.add_argument("--frames", type=common.positive, metavar="N",
                         help="with --cycles: frames on several cores "
                         "(default: 20)")  # fmt: skip
    samples.add_argument("--hardware", action="store_true",
                         help="also simulate the first samples in Amaranth "
                         "(up to 2x2)")  # fmt: skip
    samples.add_argument("--clock", type=above_zero, metavar="MHZ",
                         help="clock in MHz, for frames per second (default: 500)")  # fmt: skip
    group = parser.add_argument_group("mappings")
    group.add_argument(
        "--cycles",
        type=common.positive,
        nargs="?",
        const=MEASURED,
        metavar="N",
        help="measured cycles of the mesh (10000), or timed run of a model",
    )
    add_options(
        group,
        Option(
            "--warmup",
            "N",
            "cycles before the measurement (default: half of --cycles)",
            common.natural,
        ),
        Option("--load-scale", "F", "factor on the load (default: 1)", above_zero, 1.0),
    )
    add_units(group)
    add_options(
        group,
        Option("--ticks", "N", "ticks to run with the cores (default: 100)", positive),
        Option("--depth", "D", "flits per router input buffer (default: 4)", positive, 4),
        flag("--no-saturation", "do not search for the saturation load"),
    )
    group = parser.add_argument_group("spikes of a mapping")
    add_options(
        group,
        Option("--spikes", "IN", "run the network with input spikes (.npz, SONATA .h5)", Path),
        Option("--save", "OUT", "output spikes, npz or .h5 (default: DIR/spikes.npz)", Path),
    )
    add_neurons(group, lambda name: "")
    for name in WIDTHS:
        option, text = f"--{name.replace('_', '-')}", CORE_OPTIONS[name]
        group.add_argument(option, type=common.positive, metavar="N", help=text)
    add_timeout(parser)
    common.add_effort(parser)


def add_units(group: argparse._ArgumentGroup) -> None:
    """Add the options that convert the traffic of a mapping to flits."""
    add_options(
        group,
        Option(
            "--tick-cycles", "C", "mesh cycles per unit of time (default: for load 0.5)", above_zero
        ),
        choice(
            "--packets", "synapse core", "flit per spike and synapse or core (default: from chip)"
        ),
    )


def run(options: argparse.Namespace) -> int:
    from mapper.compiler.artifacts.manifest import is_compiled
    from mapper.results.output import read_report
    from mapper.results.output_folder import writing_into
    from mapper.spiking.artifacts.folder import is_spiking

    if is_spiking(options.path):
        from mapper.cli.spiking_runs import run_spiking

        refuse_others(options, add_arguments, OF_SPIKES, "to other folders only")
        return run_spiking(options)
    if is_compiled(options.path):
        from mapper.cli.compiled_runs import run_compiled

        return run_compiled(options)
    _refuse_without_spikes(options)
    if any(getattr(options, name) for name in OF_MODELS):
        raise UsageError(
            f"{options.path}: is not a compiled model; --input, --limit, --check, --dump, "
            "--frames, --clock and --hardware are for compiled models"
        )
    read_report(options.path)  # fail for other folders before locking
    with writing_into(options.path):
        return _simulate(options)


def _simulate(options: argparse.Namespace) -> int:
    from mapper.jobs.simulate import MeshLoad, Simulated, simulate_cores, simulate_mesh
    from mapper.results.output import read_report

    what = Simulated(
        options.path, options.network, options.depth, options.seed,
        Effort(common.threads_of(options), common.memory_of(options)),
    )  # fmt: skip
    report, listener = read_report(options.path), common.listener(options)
    if _with_cores(options, report):
        found = simulate_cores(what, options.ticks, _spikes(options), listener)
        return _print_ticks(options, report, found)
    mesh = MeshLoad(
        options.cycles or MEASURED, options.warmup, options.load_scale, not options.no_saturation,
        options.packets, options.tick_cycles,
    )  # fmt: skip
    found, (width, height) = simulate_mesh(what, mesh, listener)
    return _print_mesh(options, found, f"{width}x{height}")


def _spikes(options: argparse.Namespace) -> Spikes | None:
    """Return the input spikes of --spikes, with the options of neurons."""
    from mapper.jobs.simulate import Spikes

    if options.spikes is None:
        return None
    given = {name: getattr(options, name) for name in (*NEURON_OPTIONS, *WIDTHS)}
    neuron, widths = (
        {name: given[name] for name in names if given[name] is not None}
        for names in (NEURON_OPTIONS, WIDTHS)
    )
    return Spikes(options.spikes, options.save, options.tick_length or 1.0, neuron, widths)


def _print_ticks(options: argparse.Namespace, report: dict[str, Any], found: dict[str, Any]) -> int:
    from mapper.results.tables import facts, tick_rows

    chip = report["chip"]
    title = f"ticks of {options.path} on {chip['width']}x{chip['height']} cores"
    rows = tick_rows(found, report["metrics"].get("tick_cycles"))
    terminal.emit(options, found, [facts(title, rows)])
    return 0


def _print_mesh(options: argparse.Namespace, found: dict[str, Any], mesh: str) -> int:
    from mapper.evaluation.simulate import summary_rows, tables
    from mapper.reporting.make import PAGE
    from mapper.results.summary import next_steps, summary

    title = f"{options.path} on {mesh}, {options.depth} flits per input"
    rows = summary_rows(found)
    rows += next_steps(str(options.path / PAGE), f"mapper info {options.path}")
    terminal.emit(options, found, tables(found, title), summary(title, rows))
    return 0


def _with_cores(options: argparse.Namespace, report: dict[str, Any]) -> bool:
    """Return whether to run ticks with the cores instead of a load on the mesh only."""
    from mapper.jobs.simulate import runs_cores

    names = ("cycles", "warmup", "tick_cycles", "packets", "no_saturation")
    given = [name for name in names if getattr(options, name) not in (None, False)]
    given += ["load_scale"] * (options.load_scale != 1.0)
    of_cores = "ticks" if options.ticks is not None else None
    return runs_cores(report, given, of_cores if options.spikes is None else "spikes")


def _refuse_without_spikes(options: argparse.Namespace) -> None:
    """Raise `UsageError` for options that need --spikes, without it."""
    for name in ("save", *NEURON_OPTIONS, *WIDTHS):
        if options.spikes is None and getattr(options, name) is not None:
            raise UsageError(f"--{name.replace('_', '-')}: needs input spikes; add --spikes")
