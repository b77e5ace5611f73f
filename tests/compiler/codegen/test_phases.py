"""Programs of decoders: phases that are stored in place, with larger strides."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from chipsim.chip.npu_shape import NpuShape
from mapper.compiler.artifacts.simulate import simulate
from mapper.compiler.ir.node import Activation, Window
from tests.compiler.codegen.test_cdriver import needs_cc, require_same_results
from tests.compiler.decoders import enlarged, random_decoder
from tests.compiler.frontend.test_transposed import quantised_layer
from tests.compiler.networks import SAME, Builder
from tests.compiler.programs import (
    DUAL,
    FOUR,
    SHAPE,
    SMALL,
    WIDE,
    compiled,
    compiled_model,
    exact,
    same,
)


@pytest.mark.heavy
@pytest.mark.sample(2)
@pytest.mark.parametrize("shape", [SHAPE, SMALL, FOUR, WIDE], ids=lambda shape: shape.name)
@pytest.mark.parametrize("seed", range(20))
def test_random_decoders_equal_the_reference(seed: int, shape: NpuShape) -> None:
    same(random_decoder(seed), shape)


@pytest.mark.heavy
@pytest.mark.sample(1)
@pytest.mark.parametrize("seed", range(8))
def test_random_decoders_of_16_bits(seed: int) -> None:
    same(random_decoder(seed), DUAL, bits=16)


@pytest.mark.heavy
@pytest.mark.sample(2)
@pytest.mark.parametrize("per_channel", [False, True], ids=["tensor", "channel"])
@pytest.mark.parametrize("seed", range(8))
def test_quantised_layers_equal_the_definition(
    seed: int, per_channel: bool, tmp_path: Path
) -> None:
    """The program of a model with scales gives the integers of loops over the definition."""
    net, x, expected = quantised_layer(seed, "uint8", per_channel, "Relu")
    made = compiled_model(net.save(tmp_path), None)
    assert not [step for step in made.folder.host if step["do"] == "node"]
    outcome = simulate(made.folder, x, threads=1, check=True)
    assert {one.differences for one in outcome.compared} == {0}
    np.testing.assert_array_equal(outcome.values["y"], expected)


def small_unet() -> Builder:
    """Build a layer at half of the size, enlarged, joined to a layer of the whole size."""
    build = Builder(6, 8, 5, 2)
    first = build.relu(build.conv(build.input, 16))
    half = build.relu(build.conv(first, 24, Window((2, 2), (2, 2))))
    up = enlarged(build, build.conv(half, 4 * 16, Window((1, 1))), (2, 2), 1)
    build.end(build.conv(build.concat(up, first), 5))
    return build


def test_an_enlarged_map_is_stored_once() -> None:
    """The phases are inside the map that is joined to another one: nothing is copied, and the
    activation runs with the layer."""
    exact(small_unet(), compiled(small_unet(), padding="stored"))
    made = exact(small_unet(), compiled(small_unet()))
    kinds = [[node.kind for node in macro.nodes] for macro in made.compiled.macros]
    assert kinds == [["conv", "requantise"]] * 7
    regions = {tensor.name: one for tensor, one in made.compiled.code.regions.items()}
    (whole,) = (one for one in regions.values() if one.tensor.channels == 32)
    phases = [one for name, one in regions.items() if "phase" in name]
    assert {one.owner for one in phases} == {whole.tensor}
    assert {(one.pixel, one.row) for one in phases} == {(2 * whole.pixel, 2 * whole.row)}
    offsets = {one.first - whole.first for one in phases}
    assert offsets == {0, whole.pixel, whole.row, whole.row + whole.pixel}


def test_activations_run_with_the_layer() -> None:
    build = Builder(4, 4, 8, 1)
    made = enlarged(build, build.conv(build.input, 4 * 8, SAME), (2, 2), 8)
    made = build.like(Activation(slope=0.1), made)
    build.end(build.conv(build.like(Activation(slope=1.0, low=-1.0, high=1.0), made), 4))
    found = compiled(build).compiled.macros
    assert [macro.nodes[0].kind for macro in found] == ["conv"] * 5
    assert max(len(macro.nodes) for macro in found) <= 3


@pytest.mark.heavy
@pytest.mark.sample(0.5)
@needs_cc
@pytest.mark.jit
def test_the_driver_stores_phases(tmp_path: Path) -> None:
    require_same_results(small_unet(), compiled(small_unet()), "i1", tmp_path)
    build = random_decoder(4)
    require_same_results(build, compiled(build, DUAL, bits=16), "<i2", tmp_path)
