"""Whole runs of a trained spiking model: `mapper simulate` next to snnTorch, norse and Brian 2.

    python scripts/bench_spiking_model.py MODEL.nir SAMPLES.npz [--tick-length T] [--reset R]
        [--samples N] [--brian2-samples N] [--repeat N] [--weight-bits N] [--markdown]

The model is a chain of Conv2d, SumPool2d, Flatten, Linear and Affine nodes with IF and LIF neurons.
All run the same spikes on one thread: mapper the tables of the cores with integers, torch all
samples at once and dense, Brian 2 its Cython code one sample after the other. norse's cells reset
to a value, so it is left out with --reset subtract.

Runs of mapper and of a peer alternate. A row has the median CPU seconds per sample, the median of
the ratios of neighbouring runs (mapper = 1), the spikes, and for each population the first tick in
which a spike differs from the float reference of mapper, in float64.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from bench_common import machine, say
from bench_tables import Table, show
from numpy.typing import NDArray

from chipsim.chip.presets import parse_chip
from mapper.concurrency.threads import ThreadTeam
from mapper.spiking.agreement import compare_populations
from mapper.spiking.chip_core import core_within
from mapper.spiking.discretise import model_of_graph
from mapper.spiking.model import SpikingModel
from mapper.spiking.pipeline import SpikingOptions, compile_spikes, samples_of
from mapper.spiking.reference import SpikeTrains, run_reference
from mapper.spiking.simulate import CoresMachine
from storage.samples.spikes import SpikeSamples


class WholeRun(NamedTuple):
    """CPU seconds of a run, and the spikes of each population of neurons by its number."""

    seconds: float
    spikes: dict[int, SpikeTrains]


Runner = Callable[[], WholeRun]


class TrainsOfRun(NamedTuple):
    """Spikes of all populations, as `compare_populations` reads them."""

    spikes: tuple[SpikeTrains, ...]
    potentials: dict[int, Any]


def neural(model: SpikingModel) -> list[int]:
    return [n for n, each in enumerate(model.populations) if each.dynamics is not None]


def by_cores(options: argparse.Namespace, model: SpikingModel, samples: SpikeSamples) -> Runner:
    """Return a run of the cores, with weights of --weight-bits."""
    shape = core_within(parse_chip("16x16"), options.weight_bits)
    given = SpikingOptions(
        options.tick_length, options.reset, weight_bits=(options.weight_bits,), keep_going=True
    )
    found = compile_spikes(options.model, shape, options.path, given)
    machine = CoresMachine.unmapped(model, found.integers)

    def run() -> WholeRun:
        with ThreadTeam(1) as team:
            started = time.process_time()
            done = machine.run(samples, neural(model), team)
            seconds = time.process_time() - started
        return WholeRun(seconds, dict(enumerate(done.spikes)))

    return run


def dense_inputs(model: SpikingModel, samples: SpikeSamples) -> NDArray[np.float32]:
    """Return the spikes of the input, shape (ticks, samples, *shape)."""
    (number,) = model.inputs
    each = model.populations[number]
    dense = np.zeros((samples.ticks, samples.samples, each.size), np.float32)
    dense[samples.tick, samples.sample, samples.neuron] = samples.value * samples.unit
    return dense.reshape(samples.ticks, samples.samples, *each.shape)


def chain(graph: Any) -> list[tuple[str, Any]]:
    """Return the nodes of a chain from its Input to its Output, without both."""
    after = dict(graph.edges)
    if len(after) != len(graph.edges) or len(after) != len(graph.nodes) - 1:
        raise SystemExit("bench_spiking_model.py: the graph is not a chain; give another model")
    (name,) = (name for name, node in graph.nodes.items() if type(node).__name__ == "Input")
    found = []
    while (name := after[name]) in after:
        found.append((name, graph.nodes[name]))
    return found


def torch_layer(node: Any) -> Callable[[Any], Any]:
    """Return a node without neurons as a function of spikes or currents, (samples, *shape)."""
    import torch
    from torch.nn import functional

    kind = type(node).__name__
    if kind in ("Linear", "Affine"):
        weight = torch.from_numpy(np.asarray(node.weight, np.float32))
        bias = torch.from_numpy(np.asarray(node.bias, np.float32)) if kind == "Affine" else None
        return lambda x: functional.linear(x, weight, bias)
    if kind == "Conv2d":
        weight = torch.from_numpy(np.asarray(node.weight, np.float32))
        bias = torch.from_numpy(np.asarray(node.bias, np.float32))
        stride, padding = _whole(node.stride), _whole(node.padding)
        return lambda x: functional.conv2d(x, weight, bias, stride, padding)
    if kind == "SumPool2d":
        sizes = (node.kernel_size, node.stride, node.padding)
        size, stride, padding = map(_whole, sizes)
        return lambda x: functional.avg_pool2d(x, size, stride, padding, divisor_override=1)
    if kind == "Flatten":
        return lambda x: x.flatten(1)
    raise SystemExit(f"bench_spiking_model.py: {kind} nodes are not supported; give another model")


def _whole(values: Any) -> tuple[int, ...]:
    return tuple(int(one) for one in np.atleast_1d(values))


def snntorch_cell(dynamics: Any, shape: tuple[int, ...]) -> Callable[[Any, Any], Any]:
    """Return snnTorch's neurons, from currents and a state to spikes and a state.

    dynamics : of the discretised population, whose gain is a factor on the current
    """
    import snntorch
    import torch

    def tensor(values: NDArray[Any]) -> Any:
        return torch.from_numpy(values.astype(np.float32)).reshape(shape)

    reset = "subtract" if dynamics.subtract.all() else "zero"
    own = snntorch.Leaky(
        beta=tensor(dynamics.potential_decay), threshold=tensor(dynamics.threshold),
        reset_mechanism=reset, reset_delay=False,
    )  # fmt: skip
    return lambda current, state: own(current, 0 * current if state is None else state)


def norse_cell(dynamics: Any, shape: tuple[int, ...]) -> Callable[[Any, Any], Any]:
    """Return norse's neurons, as `snntorch_cell` does."""
    import torch
    from norse.torch import LIFBoxCell, LIFBoxParameters

    lost = torch.from_numpy((1 - dynamics.potential_decay).astype(np.float32)).reshape(shape)
    bound = torch.from_numpy(dynamics.threshold.astype(np.float32)).reshape(shape)
    # A cell adds part * current; without a leak, part is tiny and current / part large.
    part = torch.clamp(lost, min=2.0**-20)
    own = LIFBoxCell(LIFBoxParameters(tau_mem_inv=part / 0.001, v_th=bound), dt=0.001)
    return lambda current, state: own(current / part, state)


def by_torch(
    options: argparse.Namespace, model: SpikingModel, samples: SpikeSamples, cell: Any
) -> Runner:
    """Return a run of all samples at once in torch."""
    import nir
    import torch

    torch.set_num_threads(1)
    numbers = {each.name: number for number, each in enumerate(model.populations)}
    source = nir.read(options.model)
    given = torch.from_numpy(dense_inputs(model, samples))

    def run() -> WholeRun:
        steps: list[tuple[int | None, Any]] = []
        for name, node in chain(source):
            if name not in numbers:
                steps.append((None, torch_layer(node)))
                continue
            each = model.populations[numbers[name]]
            gain = np.broadcast_to(np.asarray(node.r, np.float64), each.shape)
            if hasattr(node, "tau"):
                gain = gain * (1 - np.reshape(each.dynamics.potential_decay, each.shape))
            factor = torch.from_numpy(gain.astype(np.float32))
            ready = cell(each.dynamics, each.shape)
            steps.append((numbers[name], (lambda x, s, f=factor, c=ready: c(x * f, s))))
        states: dict[int, Any] = {}
        fired: dict[int, list[Any]] = {number: [] for number in neural(model)}
        with torch.no_grad():
            started = time.process_time()
            for row in given:
                value = row
                for number, step in steps:
                    if number is None:
                        value = step(value)
                    else:
                        value, states[number] = step(value, states.get(number))
                        fired[number].append(value.flatten(1) != 0)
            seconds = time.process_time() - started
        return WholeRun(
            seconds, {n: trains(torch.stack(rows).numpy()) for n, rows in fired.items()}
        )

    return run


def trains(dense: NDArray[np.bool_]) -> SpikeTrains:
    """Return spikes of shape (ticks, samples, neurons) as lists by sample, tick and neuron."""
    sample, tick, neuron = np.nonzero(dense.swapaxes(0, 1))
    return SpikeTrains(sample, tick, neuron)


def by_brian2(options: argparse.Namespace, model: SpikingModel, samples: SpikeSamples) -> Runner:
    """Return a run of the first samples in Brian 2, where each connection takes a tick."""
    import brian2 as b2

    b2.defaultclock.dt = 1 * b2.ms
    (first,) = model.inputs

    def run() -> WholeRun:
        groups: dict[int, Any] = {}
        for number, each in enumerate(model.populations):
            if each.dynamics is None:
                groups[number] = b2.SpikeGeneratorGroup(each.size, [], [] * b2.ms)
                continue
            own = each.dynamics
            soft = bool(own.subtract.all())
            cells = b2.NeuronGroup(
                each.size, "v : 1\nkept : 1\nbias : 1\nbound : 1", threshold="v > bound",
                reset="v -= bound" if soft else "v = 0", method="exact",
            )  # fmt: skip
            cells.kept, cells.bound = own.potential_decay, own.threshold
            cells.bias = own.current_bias + own.potential_bias
            cells.run_regularly("v = kept * v + bias", when="start")
            groups[number] = cells
        links = []
        for link in model.connections:
            weights = link.weights.tocoo()
            synapses = b2.Synapses(groups[link.source], groups[link.target], "w : 1",
                                   on_pre="v_post += w")  # fmt: skip
            synapses.connect(i=weights.col, j=weights.row)
            synapses.w = weights.data
            links.append(synapses)
        seen = {number: b2.SpikeMonitor(groups[number]) for number in neural(model)}
        whole = b2.Network(*groups.values(), *links, *seen.values())
        groups[first].set_spikes([], [] * b2.ms)
        whole.store()
        seconds, found = 0.0, {number: [] for number in seen}
        for sample in range(-1, min(samples.samples, options.brian2_samples)):  # -1 compiles
            whole.restore()
            own = samples.sample == max(sample, 0)
            groups[first].set_spikes(samples.neuron[own], samples.tick[own] * b2.ms)
            started = time.process_time()
            whole.run((samples.ticks if sample >= 0 else 1) * b2.ms)
            seconds += (time.process_time() - started) * (sample >= 0)
            for number, one in seen.items() if sample >= 0 else ():
                tick = np.rint(np.asarray(one.t / b2.ms)).astype(np.int64)
                found[number].append((np.full(tick.size, sample), tick, np.asarray(one.i)))
        return WholeRun(seconds, {
            number: SpikeTrains(*(np.concatenate(each) for each in zip(*rows, strict=True)))
            for number, rows in found.items()
        })  # fmt: skip

    return run


def first_differences(
    model: SpikingModel, samples: SpikeSamples, expected: Any, found: WholeRun
) -> str:
    """Return the first tick in which a spike of each population differs from the reference."""
    none = SpikeTrains(*[np.zeros(0, np.int64)] * 3)
    spikes = tuple(found.spikes.get(n, none) for n in range(len(model.populations)))
    rows = compare_populations(model, samples, expected, TrainsOfRun(spikes, {}))
    return " ".join("equal" if each.diverges is None else str(each.diverges) for each in rows)


def measure(options: argparse.Namespace) -> Table:
    given = SpikingOptions(options.tick_length, options.reset)
    model = model_of_graph(options.model, given.tick, given.reset)
    samples = samples_of(model, options.path).first(options.samples)
    few = samples.first(options.brian2_samples)
    expected = run_reference(model, samples)
    ours = by_cores(options, model, samples)
    runners: dict[str, tuple[Runner, SpikeSamples]] = {}
    cells = {"snnTorch": ("snntorch", snntorch_cell), "norse": ("norse", norse_cell)}
    for name, (module, cell) in cells.items():
        if find_spec(module) is None:
            say(f"note: {name} is not installed")
        elif name == "snnTorch" or options.reset == "zero":
            runners[name] = by_torch(options, model, samples, cell), samples
    if find_spec("brian2") is None:
        say("note: Brian 2 is not installed")
    elif options.brian2_samples:
        runners["Brian 2"] = by_brian2(options, model, few), few
    rows = []
    own: list[float] = []
    ours()  # compiles
    for name, (runner, used) in runners.items():
        pairs = []
        for _ in range(options.repeat):
            say(f"{name}: pair {len(pairs) + 1}")
            pairs.append((ours(), runner()))
        own += [one.seconds / samples.samples for one, _ in pairs]
        each = [other.seconds / used.samples for _, other in pairs]
        ratios = [b / a for a, b in zip(own[-options.repeat :], each, strict=True)]
        last = pairs[-1][1]
        differ = "a tick per layer later" if name == "Brian 2" else (
            first_differences(model, used, expected, last)
        )  # fmt: skip
        rows.append([name, f"{1e3 * statistics.median(each):,.1f}",
                     f"{statistics.median(ratios):.2f}", _spikes(last, used), differ])  # fmt: skip
    final = ours()
    own.append(final.seconds / samples.samples)
    rows.insert(0, ["mapper", f"{1e3 * statistics.median(own):,.1f}", "1", _spikes(final, samples),
                    first_differences(model, samples, expected, final)])  # fmt: skip
    title = f"{options.model.name}, {samples.samples} samples of {samples.ticks} ticks"
    heads = ["simulator", "CPU ms per sample", "ratio", "spikes per sample", "first difference"]
    return Table("spiking-model", title, heads, rows)


def _spikes(found: WholeRun, samples: SpikeSamples) -> str:
    count = sum(each.tick.size for each in found.spikes.values())
    return f"{count / samples.samples:,.0f}"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("model", type=Path, metavar="MODEL.nir")
    add("path", type=Path, metavar="SAMPLES.npz")
    add("--tick-length", type=float, metavar="T", help="default: dt of the model")
    add("--reset", choices=("zero", "subtract"), default="zero")
    add("--samples", type=int, default=100, metavar="N", help="samples to run (100)")
    add("--brian2-samples", type=int, default=4, metavar="N", help="samples in Brian 2 (4)")
    add("--repeat", type=int, default=3, metavar="N", help="pairs of runs (3)")
    add("--weight-bits", type=int, default=8, metavar="N", help="of the cores (8)")
    add("--markdown", action="store_true", help="print the table as Markdown")
    options = parser.parse_args()
    if min(options.samples, options.repeat) < 1:
        parser.error("--samples and --repeat must be 1 or more")
    about = machine()
    sys.stdout.write(f"{about['cpu']}, {about['cores']} cores; Python {about['python']}\n")
    table = measure(options)
    show(table, options.markdown)


if __name__ == "__main__":
    main()
