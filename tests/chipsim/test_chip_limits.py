"""Use of the cores and violations of limits; sums per core pair."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chipsim.chip.limits import Usage, Violation, uses, violations
from chipsim.chip.model import Chip
from chipsim.chip.presets import from_fields
from chipsim.errors import ChipError
from chipsim.traffic import pairs
from chipsim.traffic.arrays import measure
from chipsim.traffic.pairs import PairSums
from tests.reference import link_traffic


def small_usage(chip: Chip) -> Usage:
    # Cores: 0 holds neurons 0 and 1, 1 holds 2, 2 holds 3. Neuron 0 sends to all others.
    edges = [(0, 1, 1), (0, 2, 1), (0, 3, 1), (1, 0, 1), (1, 3, 1), (2, 3, 0)]
    core = np.array([0, 0, 1, 2], dtype=np.int32)
    sizes = np.array([2, 1, 1, 1])
    return measure(chip, core, link_traffic.blocks_of(edges, 4), sizes=sizes).usage


def test_usage_by_hand() -> None:
    usage = small_usage(Chip("c", 4, 1))
    assert usage.count.tolist() == [2, 1, 1, 0]
    assert usage.neurons.tolist() == [3, 1, 1, 0]
    assert usage.synapses.tolist() == [2, 1, 3, 0]
    assert usage.axons_in.tolist() == [2, 1, 3, 0]  # core 0: neurons 0 and 1, its own
    assert usage.axons_out.tolist() == [3, 1, 0, 0]  # core 0: 0 -> {1, 2}, 1 -> {2}
    assert usage.of("axons_out") is usage.axons_out
    with pytest.raises(ChipError, match="limit 'axons' is unknown; known limits are neurons"):
        usage.of("axons")


def test_all_within_limits() -> None:
    chip = Chip("c", 4, 1, neurons=3, synapses=3, axons_in=3, axons_out=3, unavailable=(3,))
    assert violations(chip, small_usage(chip)) == []


def test_violations_name_core_and_limit() -> None:
    chip = Chip("c", 4, 1, neurons=2, synapses=1, axons_in=2, axons_out=2, unavailable=(0, 3))
    found = violations(chip, small_usage(chip))
    assert found == [
        Violation(0, "unavailable", 2, 0),
        Violation(0, "neurons", 3, 2),
        Violation(0, "synapses", 2, 1),
        Violation(2, "synapses", 3, 1),
        Violation(2, "axons_in", 3, 2),
        Violation(0, "axons_out", 3, 2),
    ]
    assert str(found[0]) == "core 0 is unavailable but holds 2 neurons"
    assert str(found[-1]) == "core 0 uses 3 axons_out (limit 2)"


def test_usage_of_another_chip() -> None:
    with pytest.raises(ChipError, match="usage of 4 cores does not belong to chip d with 6"):
        violations(Chip("d", 3, 2), small_usage(Chip("c", 4, 1)))


@pytest.mark.heavy
@settings(max_examples=60)
@given(
    st.lists(
        st.dictionaries(st.integers(0, 35), st.integers(1, 9) | st.integers(1, 2**55), max_size=12),
        max_size=8,
    ),
    st.sampled_from([1, 5, 1 << 18]),
    st.sampled_from([0, 1 << 26]),
)
def test_pair_sums_match_a_counter(
    runs: list[dict[int, int]], stripe_pairs: int, spill_bytes: int
) -> None:
    total: Counter[int] = Counter()
    with pytest.MonkeyPatch.context() as patch, TemporaryDirectory() as folder:
        patch.setattr(pairs, "STRIPE_PAIRS", stripe_pairs)
        patch.setattr(pairs, "SPILL_BYTES", spill_bytes)
        sums = PairSums(6, Path(folder))
        for run in runs:
            total.update(run)
            keys = sorted(run)
            values = np.array([run[k] for k in keys], dtype=np.int64)
            sums.add(np.array(keys, dtype=np.int64), values)
        table = sums.table()
        assert list(Path(folder).iterdir()) == []
        source, target, weight = table.arrays()
        parts = [table.stripe(i) for i in range(table.stripes)]
    assert len(table) == len(total)
    assert (source * 6 + target).tolist() == sorted(total)
    assert weight.tolist() == [total[k] for k in sorted(total)]
    for whole, pieces in zip(table.arrays(), zip(*parts, strict=True), strict=False):
        assert np.array_equal(whole, np.concatenate(pieces))
    edges = [int(part[0][-1]) for part in parts[:-1]]
    assert all(last < part[0][0] for last, part in zip(edges, parts[1:], strict=True))
    assert all(len(part[0]) >= stripe_pairs for part in parts[:-1])
    assert all(
        np.array_equal(a, b)
        for a, b in zip(sums.table().arrays(), (source, target, weight), strict=True)
    )


def test_large_keys_survive() -> None:
    cores = 2**31 - 1
    keys = np.array([0, 127, 128, cores - 1, cores, cores * cores - 1], dtype=np.int64)
    weight = np.array([1, 127, 128, 2**61, 2**31, 5], dtype=np.int64)
    sums = PairSums(cores)
    for i in (0, 3, 1, 5, 2, 4):
        sums.add(keys[i : i + 1], weight[i : i + 1])
    source, target, found = sums.table().arrays()
    assert (source.astype(np.int64) * cores + target).tolist() == keys.tolist()
    assert found.tolist() == weight.tolist()


def test_bits_of_the_memory_by_hand() -> None:
    """Three synapses of three sources in core 2 need 3 * (8 + 2) + 3 * 4 bits."""
    chip = Chip("c", 4, 1, axons_in=3, memory_bits=42, weight_bits=8, index_bits=2, axon_bits=4)
    usage = small_usage(chip)
    assert uses(chip, usage)["memory_bits"].tolist() == [28, 14, 42, 0]
    assert "memory_bits" not in uses(Chip("c", 4, 1), usage)
    assert violations(chip, usage) == []
    smaller = replace(chip, memory_bits=41)
    assert violations(smaller, usage) == [Violation(2, "memory_bits", 42, 41)]
    assert str(violations(smaller, usage)[0]) == "core 2 uses 42 bits of memory (limit 41)"
    shared = replace(chip, neurons=4, neuron_bits=100, memory_bits=1000)
    expected = uses(chip, usage)["memory_bits"] + 100 * usage.neurons
    assert uses(shared, usage)["memory_bits"].tolist() == expected.tolist()


@given(
    st.integers(1, 10**7), st.integers(1, 40), st.integers(0, 40), st.integers(0, 40),
    st.integers(1, 5000), st.none() | st.integers(1, 10**5), st.integers(0, 40),
)  # fmt: skip
def test_limits_of_mappings_keep_within_the_memory(
    memory: int, weight: int, index: int, axon: int, axons: int, synapses: int | None, neuron: int
) -> None:
    """The limits fit the memory with all axons; one synapse or bit more does not."""
    others = axon * axons
    try:
        chip = Chip(
            "c", 1, 1, 100, synapses, axons, memory_bits=memory, weight_bits=weight,
            index_bits=index, axon_bits=axon, neuron_bits=neuron,
        )  # fmt: skip
    except ChipError as error:
        assert weight + index + neuron + others > memory
        assert "less than one synapse" in str(error)
        return
    most = chip.synapse_limit
    assert most is not None
    assert most * (weight + index) + others <= memory
    assert most == synapses or (most + 1) * (weight + index) + others > memory
    assert synapses is None or most <= synapses
    bits = chip.shared_bits
    assert (bits is None) == (neuron == 0)
    assert bits is None or bits + others == memory


def test_a_synapse_limit_replaces_memory_bits() -> None:
    chip = Chip("c", 1, 1, memory_bits=100, weight_bits=9)
    assert chip.synapse_limit == 11
    assert chip.with_limits(synapses=50).synapse_limit == 50
    assert chip.with_limits(neurons=5).synapse_limit == 11
    shared = replace(chip, sharing="offset")
    assert shared.with_limits(synapses=50).sharing == "offset"
    assert Chip("c", 1, 1).synapse_limit is None
    assert Chip("c", 1, 1, synapses=7).synapse_limit == 7


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"memory_bits": 1000}, "memory_bits requires weight_bits, the precision of weigh"),
        ({"memory_bits": 1000, "index_bits": 4}, "memory_bits requires weight_bits"),
        ({"memory_bits": 1000, "weight_bits": 0}, "memory_bits requires weight_bits"),
        ({"weight_bits": 8}, "weight_bits is 8, but memory_bits is missing; add the bits"),
        ({"axon_bits": 8}, "axon_bits is 8, but memory_bits is missing"),
        ({"neuron_bits": 8}, "neuron_bits is 8, but memory_bits is missing"),
        (
            {"memory_bits": 11, "weight_bits": 4, "neuron_bits": 8},
            "memory_bits is 11, less than one synapse .4., one neuron .8. and the lists",
        ),
        ({"memory_bits": 1000, "weight_bits": 8, "axon_bits": 1}, "requires axons_in, the number"),
        ({"sharing": "offset"}, "sharing is offset, but cores hold any number of synapses; add"),
        ({"memory_bits": 7, "weight_bits": 8}, "memory_bits is 7, less than one synapse .8."),
        ({"memory_bits": 0, "weight_bits": 8}, "memory_bits is 0; give a whole number, 1 or more"),
        ({"memory_bits": 9, "weight_bits": 1.5}, "weight_bits is 1.5; give a whole number, at"),
        ({"memory_bits": 9, "weight_bits": -1}, "weight_bits is -1; give a whole number, at"),
    ],
)
def test_inconsistent_memory_bits(values: dict[str, float], message: str) -> None:
    with pytest.raises(ChipError, match=message) as caught:
        from_fields({"name": "c", "width": 2, "height": 2, **values})
    assert "\n" not in str(caught.value)
