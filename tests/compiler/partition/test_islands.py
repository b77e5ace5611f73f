"""R6.1, B12: nodes between host nodes whose packing costs more than a core saves."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from chipsim.chip.npu_shape import NPU_SHAPES
from mapper.compiler.explain import NodeRow, explain
from mapper.compiler.model import open_model
from mapper.compiler.optimise import optimised
from mapper.compiler.partition.islands import islands, lonely
from mapper.compiler.settings import CompileSettings
from mapper.compiler.tiling.streams import HOST_LATENCY
from tests.compiler.partition.test_hostplan import checked
from tests.compiler.programs import compiled_model
from tests.storage.formats.onnx_models import model, node, onnx

BIG = [node("Conv", "x w", "a", pads=[1, 1, 1, 1]), node("Relu", "a", "b")]
"""Nine products for each of 16 channels of an element."""


def saved(folder: Path, nodes: list[Any], channels: int = 16, size: int = 8) -> Path:
    random = np.random.default_rng(0)
    weights = {
        "w": random.normal(0, 0.1, (channels, channels, 3, 3)),
        "v": random.normal(0, 0.3, (channels, channels, 1, 1)),
    }
    used = {name: one.astype(np.float32) for name, one in weights.items()
            if any(name in each.input for each in nodes)}  # fmt: skip
    path = folder / "model.onnx"
    onnx.save(model(nodes, used, {"x": (1, channels, size, size)}), str(path))
    return path


def rows_of(path: Path, **settings: Any) -> dict[str, NodeRow]:
    return {one.node: one for one in explain(open_model(path), CompileSettings(**settings))}


def between(*nodes: Any) -> list[Any]:
    """Return a large layer, and nodes from "c" to "d" between two host nodes."""
    return [*BIG, node("Asinh", "b", "c"), *nodes, node("Softmax", "d", axis=1)]


ALONE = {
    "activation": [node("LeakyRelu", "c", "d")],
    "sum": [node("Asinh", "c", "e"), node("Add", "c e", "d")],
    "two": [node("Clip", "c", "e"), node("LeakyRelu", "e", "d")],
    "pooled": [node("MaxPool", "c", "d", kernel_shape=[2, 2], strides=[2, 2])],
}
WORTH = {
    "layer": [node("Conv", "c v", "e"), node("Relu", "e", "d")],
    "large windows": [node("MaxPool", "c", "d", kernel_shape=[3, 3])],
}


@pytest.mark.parametrize("name", ALONE)
def test_islands_with_costly_packing_stay_on_the_host(name: str, tmp_path: Path) -> None:
    nodes = between(*ALONE[name])
    rows = rows_of(saved(tmp_path, nodes))
    assert rows["n_a"].where == "core"
    row = rows["n_d"]
    assert (row.where, row.function) == ("host", None)
    assert "isolated between host nodes: packing takes" in row.why
    assert row.remedy == "run its neighbours on cores as well, or give its layers more channels"


@pytest.mark.parametrize("name", WORTH)
def test_islands_with_savings_run_on_a_core(name: str, tmp_path: Path) -> None:
    rows = rows_of(saved(tmp_path, between(*WORTH[name])))
    assert {rows[one].where for one in ("n_d", "n_e") if one in rows} <= {"core", "folded"}


def test_cost_of_packing(tmp_path: Path) -> None:
    """Literal: 4x4 pixels of 20 channels are 32 vectors of two flits, in both directions."""
    found = saved(tmp_path, between(*ALONE["activation"]), channels=20, size=4)
    graph = open_model(found).build(())
    island = islands(graph)[1]
    assert island.names == ["n_d"]
    assert island.packing == 2 * HOST_LATENCY + 2 * 4 * 4 * (2 * 2 + 20)
    assert island.saved == 4 * 4 * (20 - 2)
    assert list(lonely(graph, {"n_d"})) == ["n_d"]
    assert lonely(graph, ()) == {}


def test_the_best_of_costly_islands_stays(tmp_path: Path) -> None:
    """At least one island stays on cores."""
    nodes = [node("Relu", "x", "c"), node("Asinh", "c", "d"), node("Clip", "d", "e"),
             node("LeakyRelu", "e")]  # fmt: skip
    rows = rows_of(saved(tmp_path, nodes))
    assert {name for name, one in rows.items() if one.where == "host"} == {"n_c", "n_d"}
    single = rows_of(saved(tmp_path, [*nodes[:1], node("Asinh", "c")]))
    assert single["n_c"].where == "core"


def test_signs_stay_on_cores(tmp_path: Path) -> None:
    """The host would map 0 to 0, cores map it to +1."""
    rows = rows_of(saved(tmp_path, between(node("Sign", "c", "d"))))
    assert rows["n_d"].why != rows["n_y"].why
    assert "packing takes" not in rows["n_d"].why


def test_nodes_that_are_kept_keep_their_reason(tmp_path: Path) -> None:
    found = saved(tmp_path, between(*WORTH["layer"]))
    assert rows_of(found, keep=("n_e",))["n_e"].remedy == "remove it from --keep"
    rows = rows_of(found, keep=("n_e",))
    assert "packing takes" in rows["n_d"].why  # its layer was removed


def test_disabled_passes_do_not_change_islands(tmp_path: Path) -> None:
    """The same nodes are selected with any passes off."""
    found = open_model(saved(tmp_path, between(*ALONE["activation"])))
    hosts = {
        tuple(node.sources[0] for node in optimised(found, (), off).nodes if node.kind == "host")
        for off in ((), ("dense",), ("pad", "batchnorm"))
    }
    assert hosts == {("n_c", "n_d", "n_y")}


@pytest.mark.heavy
@pytest.mark.sample(0.5)
@pytest.mark.jit
def test_programs_are_the_same_on_all_cores(tmp_path: Path) -> None:
    """The shape of a core changes no result; every layer equals the reference."""
    path = saved(tmp_path, between(*ALONE["activation"]))
    samples = np.random.default_rng(2).normal(0, 1, (6, 16, 8, 8)).astype(np.float32)
    results = []
    for shape in ("npu", "ref32"):
        made = compiled_model(path, samples, NPU_SHAPES[shape])
        assert len(made.folder.manifest["functions"]) == 1
        assert any("n_d (LeakyRelu) stays on the host: " in line for line in made.compiled.log)
        results.append(checked(made, samples[:2]).values["y"].tobytes())
    assert results[0] == results[1]
