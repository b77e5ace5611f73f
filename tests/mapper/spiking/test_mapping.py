"""Mapping of spiking models: within all limits, with the same spikes, and as few words as counted.

`make_tables` raises for a core that does not hold its part, so a mapping that it accepts is legal.
"""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from typing import Literal

import numpy as np
import pytest
from scipy.sparse import csr_array

from chipsim.chip.host import ChipHost
from chipsim.chip.model import Chip
from hw.core.network import SpikingNetwork
from hw.core.shape import CoreShape
from hw.tables import CoreTables, make_tables
from mapper.errors import DoesNotFitError
from mapper.spiking.integer_run import run_integers
from mapper.spiking.integers import IntegerOptions, to_integers
from mapper.spiking.mapping import map_neurons
from mapper.spiking.model import ModelOutput, SpikingConnection, SpikingModel, SpikingPopulation
from mapper.spiking.pipeline import SpikingOptions, compile_spikes
from mapper.spiking.schedule import schedule
from tests.mapper.spiking.models import connected, convolution, dynamics, inputs_and, spikes_of
from tests.mapper.spiking.runs import as_sets, chip_spikes

SIZE = (3, 3)
DENSE = {
    "layers": [(0, 1, 0), (1, 2, 0), (2, 3, 0)],
    "skip": [(0, 1, 0), (1, 2, 0), (0, 3, 0), (1, 3, 1), (2, 3, 0)],
    "recurrent": [(0, 1, 0), (1, 1, 0), (1, 2, 2), (2, 2, 0), (2, 3, 0)],
}


def convolutional(seed: int) -> SpikingModel:
    """Return two convolutions, the first recurrent, and a dense layer."""
    rng = np.random.default_rng(seed)
    sides = (int(rng.integers(1, 3)), 7, 6)
    first, inner = convolution(sides, 4, 3, int(rng.integers(1, 3)), int(rng.integers(0, 2)), seed)
    second, outer = convolution(inner, 3, 2, 1, 1, seed + 1)
    own, _ = convolution(inner, 4, 3, 1, 1, seed + 2)
    dense = rng.integers(-3, 6, (5, np.prod(outer))) / 8
    shapes = (sides, inner, outer, (5,))
    populations = tuple(
        SpikingPopulation(
            f"p{number}", "CubaLIF" if number else "Input", shape,
            dynamics(rng, int(np.prod(shape))) if number else None,
        )
        for number, shape in enumerate(shapes)
    )  # fmt: skip
    connections = (
        SpikingConnection(0, 1, first, 0),
        SpikingConnection(1, 1, own, 0),
        SpikingConnection(1, 2, second, int(rng.integers(0, 3))),
        SpikingConnection(2, 3, csr_array(dense), 0),
    )
    return SpikingModel(populations, connections, (ModelOutput("output", 3),), 1.0)


def model_of(kind: str, seed: int) -> SpikingModel:
    if kind == "convolutional":
        return convolutional(seed)
    sizes = np.random.default_rng(seed).integers(4, 30, 4).tolist()
    return connected(inputs_and(*sizes, seed=seed), DENSE[kind], seed)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("kind", [*DENSE, "convolutional"])
def test_mappings_keep_limits_and_spikes(kind: str, seed: int) -> None:
    model = model_of(kind, seed)
    samples = spikes_of(model, 2, 8, seed)
    shape = CoreShape(
        neurons=64, axons=256, synapses=1024, routes=256, sum_bits=20, state_bits=32, delay_slots=8
    )
    times = schedule(model)
    integers = to_integers(model, times, shape, IntegerOptions(input_spikes=2))
    core = map_neurons(model, integers.network, Chip("chip", *SIZE), shape)
    assert core.shape == (integers.network.neurons,)
    assert np.array_equal(core, map_neurons(model, integers.network, Chip("chip", *SIZE), shape))
    expected = as_sets(model, run_integers(integers, model, samples))
    assert chip_spikes(model, integers, times, samples, core, SIZE) == expected


def layer(
    weights: csr_array, sides: tuple[int, ...], target: tuple[int, ...], biases: int = 1
) -> tuple[SpikingModel, SpikingNetwork]:
    """Return a model of inputs and one layer, with integer weights in all of its synapses.

    biases : number of different dynamics of consecutive neurons
    """
    count = int(np.prod(target))
    populations = (
        SpikingPopulation("in", "Input", sides, None),
        SpikingPopulation("layer", "IF", target, dynamics(np.random.default_rng(0), count)),
    )
    model = SpikingModel(populations, (), (), 1.0)
    entries = weights.tocoo()
    network = SpikingNetwork(
        count, entries.col.astype(np.int64) + count, entries.row.astype(np.int64),
        (64 * entries.data).astype(np.int64), np.full(count, 10),
        shift=np.arange(count) % biases, inputs=weights.shape[1],
    )  # fmt: skip
    return model, network


def used_cores(
    network: SpikingNetwork, core: np.ndarray, chip: Chip, shape: CoreShape
) -> list[CoreTables]:
    tables = make_tables(network, core, chip.width, chip.height, shape)
    return [each for each in tables.cores if each.used]


@pytest.mark.parametrize(
    ("side", "kernel", "stride", "padding", "lists"),
    [
        # targets per source along a side: 3 inside, 2 at either border
        (6, 3, 1, 1, 3 + 2 + 2),
        # 1 of even sources; 2 of odd sources, 1 of the last
        (8, 3, 2, 1, 1 + 2 + 1),
        # 2, 1 at the first and the last of even sources; 3, 2, 2 and 1 (the last) of odd sources
        (34, 5, 2, 1, 2 + 1 + 1 + 3 + 2 + 2 + 1),
    ],
)
@pytest.mark.parametrize("parts", [1, 2])
def test_words_of_a_convolution(
    side: int, kernel: int, stride: int, padding: int, lists: int, parts: int
) -> None:
    """One list per source channel, stride phase and border case, however channels are cut."""
    weights, target = convolution((2, side, side), 4, kernel, stride, padding)
    model, network = layer(weights, (2, side, side), target)
    neurons = 1 << int(np.ceil(np.log2(network.neurons / parts)))
    shape = CoreShape(neurons=neurons, axons=4096, routes=4096, weight_bits=10)
    chip = Chip("chip", 2, 2, neurons=-(-network.neurons // parts))
    cores = used_cores(network, map_neurons(model, network, chip, shape), chip, shape)
    assert len(cores) == parts
    assert sum(len(each.synapses) for each in cores) == lists**2 * 2 * 4


@pytest.mark.parametrize(
    ("sharing", "cores"),
    [
        # 7 x 7 lists of 2 x 4 words
        ("offset", 1),
        # 16 x 16 pairs of pixels, of 2 x 4 channels: more than three cores hold
        ("none", 4),
    ],
)
def test_chips_count_synapses_or_list_words(sharing: Literal["none", "offset"], cores: int) -> None:
    weights, target = convolution((2, 6, 6), 4, 3, 1, 1)
    model, network = layer(weights, (2, 6, 6), target)
    assert network.source.size == 16 * 16 * 2 * 4
    chip = Chip("chip", 2, 2, synapses=512, sharing=sharing)
    core = map_neurons(model, network, chip, CoreShape(weight_bits=10))
    assert np.unique(core).size == cores
    assert np.bincount(core[network.target]).max() <= 512 or sharing == "offset"


def test_neurons_leave_less_memory_for_synapses() -> None:
    """Neurons use 144 * 14 of 6,000 bits, and the layer's 392 list words 10 bits each."""
    weights, target = convolution((2, 6, 6), 4, 3, 1, 1)
    model, network = layer(weights, (2, 6, 6), target)
    chip = Chip(
        "chip", 2, 2, neurons=144, sharing="offset", memory_bits=6000, weight_bits=10,
        neuron_bits=10,
    )  # fmt: skip
    for bits, cores in ((10, 1), (14, 1), (15, 2)):
        own = replace(chip, neuron_bits=bits)
        core = map_neurons(model, network, own, CoreShape(weight_bits=10))
        assert np.unique(core).size == cores


def test_a_dense_layer_is_cut_into_slices() -> None:
    weights = csr_array(np.arange(1, 61).reshape(10, 6) / 64)
    model, network = layer(weights, (6,), (10,))
    shape = CoreShape(synapses=32)
    core = map_neurons(model, network, Chip("chip", 4, 1), shape)
    assert np.unique(core).size == 2
    assert np.count_nonzero(np.diff(core)) == 1


def test_small_populations_share_a_core() -> None:
    model = connected(inputs_and(5, 6, 7), [(0, 1, 0), (1, 2, 0)])
    integers = to_integers(model, schedule(model), CoreShape(sum_bits=20), IntegerOptions())
    core = map_neurons(model, integers.network, Chip("chip", 2, 2), integers.shape)
    assert np.unique(core).size == 1


def test_busy_paths_are_short() -> None:
    """Layers on a row of cores: neighbours in the model are neighbours on the chip."""
    sizes = (8, 16, 16, 16, 16)
    model = connected(inputs_and(*sizes), [(n, n + 1, 0) for n in range(4)])
    shape = CoreShape(neurons=16, sum_bits=20)
    network = to_integers(model, schedule(model), shape, IntegerOptions()).network
    rate = np.r_[np.ones(48), np.full(16, 0.1), np.ones(8)]  # outputs are quieter than inputs
    core = map_neurons(model, network, Chip("chip", 4, 1), shape, rate)
    assert np.array_equal(core, np.repeat(core[::16], 16))
    assert core[::16].tolist() == [0, 1, 2, 3]  # inputs come from core 0
    chip = Chip("chip", 4, 1, host=ChipHost(ports=(3,)))
    assert map_neurons(model, network, chip, shape, rate)[::16].tolist() == [3, 2, 1, 0]
    core = map_neurons(model, network, Chip("chip", 6, 5, unavailable=(0,)), shape, rate)
    assert core[0] in (1, 6)


def test_outputs_are_near_the_host() -> None:
    """The host receives below column 0, at no cost for packets of inputs to the only core."""
    model = connected(inputs_and(1, 16), [(0, 1, 0)])
    shape = CoreShape(neurons=16, sum_bits=20)
    network = to_integers(model, schedule(model), shape, IntegerOptions()).network
    for ports, expected in (((0,), 0), ((0, 3, 6), 6)):
        chip = Chip("chip", 3, 3, host=ChipHost(ports=ports))
        rate = np.r_[np.full(16, 0.01), 1.0]
        assert set(map_neurons(model, network, chip, shape, rate)) == {expected}


def test_unavailable_cores_stay_empty() -> None:
    model = connected(inputs_and(4, 16, 16), [(0, 1, 0), (1, 2, 0)])
    shape = CoreShape(neurons=16, sum_bits=20)
    network = to_integers(model, schedule(model), shape, IntegerOptions()).network
    core = map_neurons(model, network, Chip("chip", 3, 1, unavailable=(1,)), shape)
    assert np.unique(core).tolist() == [0, 2]


FULL = csr_array(np.arange(1, 31 * 6 + 1).reshape(6, 31) / 64)


@pytest.mark.parametrize(
    ("limits", "chip", "said"),
    [
        ({"axons": 16}, (2, 2), "layer: neuron 0 alone needs 31 axons, but a core holds 16"),
        ({"synapses": 16}, (2, 2), "layer: neuron 0 alone needs 31 list words, but a core holds"),
        ({"synapses": 64}, (2, 1), "layer: does not fit on the 2 usable cores of the chip, limite"
         "d by list words per core"),
        ({"neurons": 2}, (2, 1), "layer: does not fit on the 2 usable cores of the chip, limited "
         "by neurons per core"),
        ({"profiles": 2}, (1, 2), "layer: does not fit on the 2 usable cores of the chip, limited "
         "by profiles per core"),
    ],
)  # fmt: skip
def test_layers_that_no_core_holds(
    limits: dict[str, int], chip: tuple[int, int], said: str
) -> None:
    model, network = layer(FULL, (31,), (6,), biases=3)
    with pytest.raises(DoesNotFitError) as caught:
        map_neurons(model, network, Chip("chip", *chip), CoreShape(**limits))
    assert said in str(caught.value)


def test_models_with_too_few_cores_name_the_largest_population() -> None:
    model = connected(inputs_and(4, 16, 40, 5), [(0, 1, 0), (1, 2, 0), (2, 3, 0)])
    shape = CoreShape(neurons=16, sum_bits=20)
    network = to_integers(model, schedule(model), shape, IntegerOptions()).network
    said = "p2: needs 3 of 4 cores, limited by neurons per core, but the chip has 3 usable cores"
    with pytest.raises(DoesNotFitError, match=said):
        map_neurons(model, network, Chip("chip", 3, 1), shape)


def test_too_many_routes() -> None:
    """Each neuron of p1 reaches 3 cores; more cores of p1 help as long as the chip has some."""
    model = connected(inputs_and(4, 16, 48), [(0, 1, 0), (1, 2, 0)])
    shape = CoreShape(neurons=16, routes=32, sum_bits=20)
    network = to_integers(model, schedule(model), shape, IntegerOptions()).network
    core = map_neurons(model, network, Chip("chip", 3, 2), shape)
    assert np.unique(core[:16]).size >= 2
    make_tables(network, core, 3, 2, shape)
    with pytest.raises(DoesNotFitError, match="p1: core needs 48 routes for neurons with up to 3"):
        map_neurons(model, network, Chip("chip", 3, 2), replace(shape, routes=2))


def test_more_outputs_than_axons() -> None:
    model = connected(inputs_and(4, 20), [(0, 1, 0)])
    shape = CoreShape(axons=16, sum_bits=20)
    network = to_integers(model, schedule(model), shape, IntegerOptions()).network
    said = "p1: outputs of 20 neurons, but packets to the host have 16 axons; use cores with more"
    with pytest.raises(DoesNotFitError, match=said):
        map_neurons(model, network, Chip("chip", 2, 1), shape)


@pytest.mark.heavy
def test_nmnist_network_on_16_cores(data_dir: Path) -> None:
    shape = CoreShape(
        neurons=1024, axons=4096, synapses=8192, routes=1 << 14, sum_bits=32
    )  # fmt: skip
    path = data_dir / "nir" / "cnn_sinabs.nir"
    found = compile_spikes(path, shape, options=SpikingOptions(tick=1.0))
    chip = Chip("chip", 4, 4)
    begin = time.process_time()
    core = map_neurons(found.model, found.integers.network, chip, shape)
    assert time.process_time() - begin <= 15
    cores = used_cores(found.integers.network, core, chip, shape)
    assert len(cores) <= 12
    assert sum(len(each.synapses) for each in cores) <= 60_000


@pytest.mark.heavy
@pytest.mark.parametrize("name", ["digits_lif", "digits_cuba_rec", "digits_conv_if"])
def test_digits_networks_on_4_cores(data_dir: Path, name: str) -> None:
    shape = CoreShape(sum_bits=20)
    path = data_dir / "snn" / f"{name}.nir"
    found = compile_spikes(path, shape, options=SpikingOptions(tick=1e-3))
    chip = Chip("chip", 2, 2)
    core = map_neurons(found.model, found.integers.network, chip, shape)
    assert len(used_cores(found.integers.network, core, chip, shape)) <= 4
