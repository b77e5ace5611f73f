"""Synaptic events per second of the spiking cores, next to simulators of spiking networks.

    python scripts/bench_spiking.py [--ticks N] [--repeat N] [--networks NAME ...] [--markdown]

Each network is one layer of leaky integrate-and-fire neurons with inputs that spike at random, and
runs on one thread: dense (1,024 inputs to 1,024 neurons, 0.1 spikes per input and tick), sparse
(10,000 to 10,000, 100 synapses per input, 0.01), delays (the same with delays of 0 to 62 ticks) and
convolution (2x34x34 inputs to 16 channels, 5x5, 0.02; synapse lists are shared).

A cell is synaptic events per second of CPU time, best of --repeat runs, and the number of spikes of
the neurons, which rounding may change. norse and snnTorch run all ticks of 16 samples at once and
have no delays; they and Brian 2 are left out if they are not installed.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from importlib.util import find_spec
from typing import Any, NamedTuple

import numpy as np
from bench_common import machine, say
from bench_tables import Table, show
from numpy.typing import NDArray

from chipsim.spiking.play import HostSpikes, SpikingRun
from hw.core.network import SpikingNetwork
from hw.core.shape import CoreShape
from hw.tables import make_tables
from mapper.spiking.slots import Slots

Int64 = NDArray[np.int64]
DECAY_BITS, KEPT = 12, 3686  # a membrane time constant of about 10 ticks
THRESHOLD, WEIGHTS = 3000, (-60, 90)
SAMPLES = 16  # at once in torch
SHAPE = CoreShape(
    neurons=1024, axons=1 << 14, routes=1 << 18, synapses=1 << 20, delay_slots=64,
    decay_bits=DECAY_BITS, weight_bits=10, sum_bits=24,
)  # fmt: skip
KERNEL, CHANNELS, SIDE = 5, 16, 34


class BenchNetwork(NamedTuple):
    """A layer of neurons: its synapses, the spikes per input and tick, and the cores of neurons.

    kernel : weights of a convolution, shape (channels, input channels, 5, 5), or None
    """

    inputs: int
    neurons: int
    source: Int64
    target: Int64
    weight: Int64
    delay: Int64
    rate: float
    core: Int64
    kernel: Int64 | None = None


def all_to_all(rng: np.random.Generator) -> BenchNetwork:
    source, target = (one.ravel() for one in np.indices((1024, 1024)))
    weight = rng.integers(*WEIGHTS, source.size)
    return BenchNetwork(
        1024, 1024, source, target, weight, 0 * source, 0.1, np.arange(1024) // 256
    )  # fmt: skip


def sparse(rng: np.random.Generator, longest: int = 0) -> BenchNetwork:
    source = np.repeat(np.arange(10_000), 100)
    target = rng.integers(0, 10_000, source.size)
    weight, delay = (
        rng.integers(*bounds, source.size) for bounds in ((-60, 390), (0, longest + 1))
    )
    core = np.arange(10_000) // 1000
    return BenchNetwork(10_000, 10_000, source, target, weight, delay, 0.01, core)


def delays(rng: np.random.Generator) -> BenchNetwork:
    return sparse(rng, SHAPE.longest_delay)


def convolution(rng: np.random.Generator) -> BenchNetwork:
    kernel = rng.integers(-60, 500, (CHANNELS, 2, KERNEL, KERNEL))
    side = SIDE - KERNEL + 1
    channel, y, x, come, dy, dx = np.indices((CHANNELS, side, side, 2, KERNEL, KERNEL))
    source = ((come * SIDE + y + dy) * SIDE + x + dx).ravel()
    target = ((channel * side + y) * side + x).ravel()
    weight = kernel[channel, come, dy, dx].ravel()
    neurons = CHANNELS * side * side
    core = np.arange(neurons) // (side * side)  # one channel per core
    return BenchNetwork(
        2 * SIDE * SIDE, neurons, source, target, weight, 0 * source, 0.02, core, kernel
    )  # fmt: skip


NETWORKS: dict[str, Callable[[np.random.Generator], BenchNetwork]] = {
    "dense": all_to_all, "sparse": sparse, "delays": delays, "convolution": convolution,
}  # fmt: skip


class Measured(NamedTuple):
    """CPU seconds and spikes of one sample."""

    seconds: float
    spikes: float


def by_kernel(network: BenchNetwork, given: NDArray[np.bool_], repeat: int) -> Measured:
    """Run the cores' tables; given : spikes of inputs, shape (ticks, inputs)."""
    cores = int(network.core.max()) + 1
    shape = SHAPE if network.delay.any() else replace(SHAPE, delay_slots=2)
    slots = Slots.of(make_tables(
        SpikingNetwork(
            network.neurons, network.source + network.neurons, network.target, network.weight,
            threshold=np.full(network.neurons, THRESHOLD), delay=network.delay,
            potential_decay=np.full(network.neurons, KEPT), inputs=network.inputs,
        ),
        network.core, cores, 1, shape,
    ))  # fmt: skip
    tick, neuron = np.nonzero(given)
    ends = np.searchsorted(tick, np.arange(len(given) + 1)).astype(np.int64)
    host = HostSpikes(slots.sender[network.neurons + neuron], ends)
    run, nobody = SpikingRun(slots.cores), np.zeros(0, np.int64)
    found: list[Measured] = []
    for _ in range(repeat + 1):  # the first compiles
        run.restart()
        started = time.process_time()
        log = run.run(host, nobody)
        found.append(Measured(time.process_time() - started, log.slot.size))
    return min(found[1:])


def by_brian2(network: BenchNetwork, given: NDArray[np.bool_], repeat: int) -> Measured | None:
    """Run the network in Brian 2 with its Cython code."""
    import brian2 as b2

    b2.defaultclock.dt = 1 * b2.ms
    tick, neuron = np.nonzero(given)
    found: list[Measured] = []
    for _ in range(repeat + 1):  # the first compiles
        source = b2.SpikeGeneratorGroup(network.inputs, neuron, tick * b2.ms)
        cells = b2.NeuronGroup(
            network.neurons, "v : 1", threshold=f"v >= {THRESHOLD}", reset="v = 0", method="exact"
        )
        cells.run_regularly(f"v *= {KEPT / 2**DECAY_BITS}", when="start")
        synapses = b2.Synapses(source, cells, "w : 1", on_pre="v_post += w")
        synapses.connect(i=network.source, j=network.target)
        synapses.w = network.weight
        synapses.delay = network.delay * b2.ms
        seen = b2.SpikeMonitor(cells, record=False)
        whole = b2.Network(source, cells, synapses, seen)
        whole.run(0 * b2.ms)
        started = time.process_time()
        whole.run(len(given) * b2.ms)
        found.append(Measured(time.process_time() - started, seen.num_spikes))
    return min(found[1:])


def by_torch(
    network: BenchNetwork, given: NDArray[np.bool_], repeat: int, cell: Callable[[], Any]
) -> Measured | None:
    """Run samples with the same spikes at once, with torch's fastest form of the weights.

    cell : returns a function from input currents and a state to spikes and a state
    """
    import torch

    if network.delay.any():
        return None
    torch.set_num_threads(1)
    layer = _torch_layer(network)
    spikes = torch.from_numpy(given.astype(np.float32))
    found: list[Measured] = []
    for _ in range(repeat):
        step, state, fired = cell(), None, 0.0
        with torch.no_grad():
            started = time.process_time()
            for row in spikes:
                out, state = step(layer(row.expand(SAMPLES, -1)), state)
                fired += float(out.sum())
            seconds = time.process_time() - started
        found.append(Measured(seconds / SAMPLES, fired / SAMPLES))
    return min(found)


def _torch_layer(network: BenchNetwork) -> Callable[[Any], Any]:
    """Return the function from spikes of the inputs to currents, in units of the threshold."""
    import torch

    if network.kernel is not None:
        kernel = torch.from_numpy(network.kernel / THRESHOLD).float()
        return lambda spikes: torch.nn.functional.conv2d(
            spikes.reshape(SAMPLES, 2, SIDE, SIDE), kernel
        ).flatten(1)
    place = torch.from_numpy(np.stack([network.target, network.source]))
    weight = torch.from_numpy(network.weight / THRESHOLD).float()
    matrix = torch.sparse_coo_tensor(place, weight, (network.neurons, network.inputs)).coalesce()
    if weight.numel() * 4 > network.neurons * network.inputs:
        dense = matrix.to_dense()
        return lambda spikes: spikes @ dense.T
    rows = matrix.to_sparse_csr()
    return lambda spikes: (rows @ spikes.T).T


def norse_cell() -> Any:
    import torch
    from norse.torch import LIFBoxCell, LIFBoxParameters

    kept = KEPT / 2**DECAY_BITS
    parameters = LIFBoxParameters(tau_mem_inv=torch.tensor((1 - kept) / 0.001))
    own = LIFBoxCell(parameters, dt=0.001)
    return lambda current, state: own(current / (1 - kept), state)


def snntorch_cell() -> Any:
    import snntorch

    own = snntorch.Leaky(beta=KEPT / 2**DECAY_BITS, reset_mechanism="zero", reset_delay=False)
    return lambda current, state: own(current, 0 * current if state is None else state)


def by_norse(network: BenchNetwork, given: NDArray[np.bool_], repeat: int) -> Measured | None:
    return by_torch(network, given, repeat, norse_cell)


def by_snntorch(network: BenchNetwork, given: NDArray[np.bool_], repeat: int) -> Measured | None:
    return by_torch(network, given, repeat, snntorch_cell)


Runner = Callable[[BenchNetwork, NDArray[np.bool_], int], Measured | None]
PEERS: dict[str, tuple[str, Runner]] = {
    "Brian 2": ("brian2", by_brian2), "norse": ("norse", by_norse),
    "snnTorch": ("snntorch", by_snntorch),
}  # fmt: skip


def measure(options: argparse.Namespace) -> Table:
    runners: dict[str, Runner] = {"mapper": by_kernel}
    for name, (module, runner) in PEERS.items():
        if find_spec(module) is None:
            say(f"note: {name} is not installed")
        else:
            runners[name] = runner
    rows = []
    for name in options.networks:
        rng = np.random.default_rng(0)
        network = NETWORKS[name](rng)
        given = rng.random((options.ticks, network.inputs)) < network.rate
        fan_out = np.bincount(network.source, minlength=network.inputs)
        events = int(given.sum(axis=0) @ fan_out)
        row = [name, f"{events / options.ticks:,.0f}"]
        for peer, runner in runners.items():
            say(f"{name}: {peer}")
            found = runner(network, given, options.repeat)
            row.append("-" if found is None else _cell(events, found))
        rows.append(row)
    title = f"million synaptic events per second (spikes), {options.ticks:,} ticks"
    return Table("spiking", title, ["network", "events per tick", *runners], rows)


def _cell(events: int, found: Measured) -> str:
    rate = events / found.seconds / 1e6
    return f"{rate:,.{0 if rate >= 100 else 1}f} ({found.spikes:,.0f})"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--ticks", type=int, default=300, metavar="N", help="ticks per run")
    add("--repeat", type=int, default=3, metavar="N", help="best of N runs")
    add("--networks", nargs="+", choices=NETWORKS, default=list(NETWORKS), metavar="NAME")
    add("--markdown", action="store_true", help="print the table as Markdown")
    options = parser.parse_args()
    if min(options.ticks, options.repeat) < 1:
        parser.error("--ticks and --repeat must be 1 or more")
    about = machine()
    sys.stdout.write(f"{about['cpu']}, {about['cores']} cores; Python {about['python']}\n")
    table = measure(options)
    show(table, options.markdown)


if __name__ == "__main__":
    main()
