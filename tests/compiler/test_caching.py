"""Costs of layers in the cache."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import numpy as np
import pytest

from mapper.cache.cache import OFF, Cache
from mapper.compiler.artifacts.kept_folder import keep_folder, kept_folder
from mapper.compiler.caching import CompileInputs, kept_ranges, kept_trials
from mapper.compiler.ir.node import Node
from mapper.compiler.ir.tensor import Tensor
from mapper.compiler.model import Model
from mapper.compiler.outcome import CompileOutcome
from mapper.compiler.quantisation.ranges import Range
from mapper.compiler.settings import CompileSettings
from mapper.compiler.transforms.base import Taken
from storage.samples import SampleArrays
from tests.compiler.networks import Builder
from tests.compiler.programs import SHAPE


def layers(prefix: str = "", seed: int = 3) -> tuple[list[Node], list[Tensor]]:
    """Return two layers and their result."""
    build = Builder(6, 6, 4, seed)
    result = build.relu(build.conv(build.relu(build.conv(build.input, 8)), 8))
    for tensor in build.graph.tensors():
        tensor.name = prefix + tensor.name
    return build.graph.nodes, [result]


@pytest.mark.parametrize("cost", [Taken(12, 34), None])
def test_equal_layers_are_measured_once(cost: Taken | None, tmp_path: Path) -> None:
    measured: list[Sequence[Node]] = []

    def trial(nodes: Sequence[Node], results: Sequence[Tensor]) -> Taken | None:
        measured.append(nodes)
        return cost

    def found(*inputs: object, where: Cache | None = None, **how: object) -> int:
        """Return the number of measurements of a trial."""
        before = len(measured)
        nodes, results = layers(**how)  # type: ignore[arg-type]
        some = Cache(tmp_path, 1 << 24) if where is None else where
        assert kept_trials(trial, some, *inputs)(nodes, results) == cost
        return len(measured) - before

    assert found(1) == 1
    assert found(1) == 0
    assert found(1, prefix="of another model ") == 0
    assert found(2) == 1
    assert found(1, seed=4) == 1  # other weights
    assert found(1, where=OFF) == 1


def test_parts_of_the_layers_have_their_own_costs(tmp_path: Path) -> None:
    nodes, results = layers()
    costs = iter(range(9))
    trial = kept_trials(lambda *_: Taken(next(costs), 0), Cache(tmp_path, 1 << 24))
    first, other = trial(nodes, results), trial(nodes[:1], nodes[0].outputs)
    third = trial(nodes, [*results, nodes[0].output])  # one more result is stored
    assert [one and one.cycles for one in (first, other, third)] == [0, 1, 2]
    assert trial(nodes, results) == first


def test_ranges_of_a_model_are_measured_once(tmp_path: Path) -> None:
    def ranges(seed: int, names: str = "", cache: Cache | None = None) -> dict[str, Range]:
        build = Builder(6, 6, 4, 3)
        result = build.relu(build.conv(build.input, 8))
        result.name += names
        samples = SampleArrays(Builder(6, 6, 4, seed).samples(5), None, [])
        model = cast(Model, SimpleNamespace(
            data=b"model", name="x", quantised=False, guessed=False, build_in_part=None
        ))  # fmt: skip
        kept = kept_ranges(
            cache or OFF, CompileInputs(model, samples, None), SHAPE, CompileSettings()
        )
        return {
            tensor.name: one
            for tensor, one in kept(build.graph, {build.input: samples.x}, [result]).items()
        }

    cache = Cache(tmp_path, 1 << 24)
    for seed, names in ((1, ""), (2, ""), (1, " of another pass"), (1, ""), (2, "")):
        found, right = ranges(seed, names, cache), ranges(seed, names)
        assert found.keys() == right.keys()
        for name, one in right.items():
            assert found[name][:2] == one[:2]
            assert (found[name].counts == one.counts).all()
            assert found[name].counts.dtype == np.int64
    assert cache.contents().kinds["ranges"][0] == 3


def test_a_lock_file_that_could_not_be_removed_is_not_kept(tmp_path: Path) -> None:
    """The names of locks are refused when the folder is written again."""
    made = tmp_path / "made"
    made.mkdir()
    for name in ("macros.bin", "macros.bin.lock"):
        (made / name).write_bytes(b"some")
    slot = Cache(tmp_path / "cache", 1 << 24).slot("compiled", 1)
    keep_folder(slot, made, {}, CompileOutcome({}, [], [], 1))
    kept = kept_folder(slot)
    assert kept is not None
    assert kept.files == {"macros.bin": b"some"}
