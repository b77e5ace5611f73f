"""Integers of folders against their models: all conversions are right, and any change is found."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mapper
from hw.core.network import SpikingNetwork
from mapper.errors import CheckFailedError
from mapper.spiking.artifacts.folder import SpikingFolder, read_folder
from mapper.spiking.artifacts.verify_integers import verify_integers

nir = pytest.importorskip("nir", reason="needs nir")
pytestmark = pytest.mark.jit
INPUTS, HIDDEN, CLASSES = 7, 9, 3


def neurons(rng: np.random.Generator, kind: str, size: int) -> Any:
    ones = np.ones(size)
    given: dict[str, Any] = {"r": rng.uniform(0.5, 2, size)}
    if kind != "IF":
        given["v_leak"] = rng.uniform(-0.3, 0.3, size)
    if kind in ("LIF", "LI"):
        given["tau"] = rng.choice([1.0, 3.0, 20.0, 1e5], size)
    if kind.startswith("Cuba"):
        given |= {"tau_mem": rng.uniform(1, 30, size), "tau_syn": rng.uniform(1, 5, size)}
    if kind.endswith("F"):
        given |= {"v_threshold": rng.uniform(0.5, 2, size), "v_reset": rng.choice([0, 0.2], size)}
    return getattr(nir, kind)(**given | {"r": given["r"] * ones})


def compiled(tmp_path: Path, seed: int, **changes: Any) -> SpikingFolder:
    """Return the folder of a random network of two layers with a delay between them."""
    rng = np.random.default_rng(seed)
    kind = ("IF", "LIF", "CubaLIF")[seed % 3]
    last = (kind, "LI", "CubaLI")[seed // 3 % 3]
    nodes = {
        "input": nir.Input({"input": np.array([INPUTS])}),
        "fc1": nir.Affine(rng.normal(1, 3, (HIDDEN, INPUTS)), rng.normal(0, 0.3, HIDDEN)),
        "hidden": neurons(rng, kind, HIDDEN),
        "recurrent": nir.Linear(rng.normal(0, 1, (HIDDEN, HIDDEN)) * (rng.random(HIDDEN) < 0.7)),
        "late": nir.Delay(rng.integers(0, 4, HIDDEN).astype(float)),
        "fc2": nir.Linear(rng.normal(1, 3, (CLASSES, HIDDEN))),
        "classes": neurons(rng, last, CLASSES),
        "output": nir.Output({"output": np.array([CLASSES])}),
    }
    chain = ["input", "fc1", "hidden", "late", "fc2", "classes", "output"]
    edges = [*pairwise(chain), ("hidden", "recurrent"), ("recurrent", "hidden")]
    encoded = "encode" in changes
    samples: Any = rng.random((3, INPUTS)) if encoded else rng.random((3, 20, INPUTS)) < 0.3
    mapper.compile_model(
        nir.NIRGraph(nodes, edges, metadata={"dt": 1.0}), "2x1", calibrate=samples,
        keep_going=True, output=tmp_path / "out", **changes,
    )  # fmt: skip
    return read_folder(tmp_path / "out")


@pytest.mark.parametrize("seed", range(9))
@pytest.mark.parametrize(
    "changes",
    [
        {"weight_bits": 8},
        {"weight_bits": 3, "reset": "subtract"},
        {"weight_bits": 12, "per": "population", "encode": "current", "ticks": 9},
    ],
    ids=["8", "3", "12"],
)
def test_conversions_are_right(tmp_path: Path, seed: int, changes: dict[str, Any]) -> None:
    out = compiled(tmp_path, seed, **changes)
    weights = 0
    for each in out.model.connections:
        weights += int((each.weights.data != 0).sum())
    assert verify_integers(out) == weights + 9 * (HIDDEN + CLASSES)


FIELDS = [
    ("threshold", "the threshold of hidden\\[4\\] is"),
    ("reset", "the reset of hidden\\[4\\] is"),
    ("current_decay", "the decay of the current of hidden\\[4\\]"),
    ("potential_decay", "the decay of the potential of hidden\\[4\\]"),
    ("current_bias", "the bias of the current of hidden\\[4\\]"),
    ("potential_bias", "the bias of the potential of hidden\\[4\\]"),
    ("refractory", "the refractory ticks of hidden\\[4\\] is 1"),
    ("subtract", "the subtract of hidden\\[4\\] is 1"),
    ("silent", "the silent of hidden\\[4\\] is 1"),
    ("weight", "the weight from .* is"),
    ("delay", "the model has no synapse from"),
]


@pytest.mark.parametrize(("name", "said"), FIELDS, ids=[name for name, _ in FIELDS])
def test_a_changed_number_is_found(tmp_path: Path, name: str, said: str) -> None:
    out = compiled(tmp_path, 2, weight_bits=8)
    for step in (1, -1):
        values = getattr(out.integers.network, name).copy()
        values[4] += step
        if step < 0 and values[4] < 0 and name not in ("weight", "reset"):
            continue
        network = replace(out.integers.network, **{name: values})
        with pytest.raises(CheckFailedError, match=said):
            verify_integers(out._replace(integers=out.integers._replace(network=network)))


def all_four(network: SpikingNetwork) -> dict[str, Any]:
    return {name: getattr(network, name) for name in ("source", "target", "weight", "delay")}


def test_missing_synapses_and_wrong_starts_and_counts_are_found(tmp_path: Path) -> None:
    out = compiled(tmp_path, 2, weight_bits=8)
    network = out.integers.network

    def refused(said: str, **changes: Any) -> None:
        changed = out.integers._replace(network=replace(network, **changes))
        with pytest.raises(CheckFailedError, match=said):
            verify_integers(out._replace(integers=changed))

    kept = np.arange(network.weight.size) != np.abs(network.weight).argmax()
    four = {name: values[kept] for name, values in all_four(network).items()}
    refused("the weight from .* is 0, and", **four)
    twice = {name: np.r_[values, values[:1]] for name, values in all_four(network).items()}
    refused("has a synapse twice", **twice)
    potential = network.potential + 9 * (np.arange(network.neurons) >= HIDDEN)
    waits = np.zeros_like(network.waits)
    refused("counts 0 as unsettled, and there are 3", waits=waits, potential=potential)
    for name in ("synapses", "zeroed", "leakless", "unsettled", "clipped"):
        counts = out.manifest.counts
        wrong = type(counts)(**{each: getattr(counts, each) for each in counts.__struct_fields__})
        setattr(wrong, name, getattr(counts, name) + 1)
        manifest = type(out.manifest)(
            **{each: getattr(out.manifest, each) for each in out.manifest.__struct_fields__}
            | {"counts": wrong}
        )
        with pytest.raises(CheckFailedError, match=f"as {name}, and there are"):
            verify_integers(out._replace(manifest=manifest))


def test_a_changed_model_is_found(tmp_path: Path) -> None:
    """The integers of another model with the same populations."""
    out = compiled(tmp_path, 2, weight_bits=8)
    (tmp_path / "other").mkdir()
    other = compiled(tmp_path / "other", 5, weight_bits=8)
    with pytest.raises(CheckFailedError, match="and the model's is"):
        verify_integers(out._replace(model=other.model))
