"""Programs with tables and products equal the reference, on every core."""

from __future__ import annotations

import numpy as np
import pytest

from chipsim.chip.npu_shape import NpuShape
from mapper.compiler.ir.node import Activation, Add, Function, Pool, Product, Window
from mapper.compiler.ir.tensor import Tensor
from mapper.compiler.ir.term import Term, X
from tests.compiler.codegen.test_operators import SHAPES, kinds
from tests.compiler.networks import Builder
from tests.compiler.programs import DUAL, SHAPE, Made, exact, fitting

pytestmark = pytest.mark.jit

SIGMOID = Term("sigmoid", (X,))
SILU = Term("mul", (X, SIGMOID))
TERMS = (SILU, SIGMOID, Term("tanh", (X,)), Term("exponential", (X,), (1.0, 1.0, 1.0)))


def function(build: Builder, data: Tensor, term: Term = SILU) -> Tensor:
    return build.like(Function(term), data)


def mean(build: Builder, data: Tensor) -> Tensor:
    return build.pool(data, Pool("average", Window((data.height, data.width))))


def convolution(build: Builder) -> Tensor:
    return function(build, build.conv(build.input, 20))


def alone(build: Builder) -> Tensor:
    """A table of a map from the host, and another after pooling."""
    data = build.pool(function(build, build.input), Pool("max", Window((2, 2))))
    return function(build, data, SIGMOID)


def summed(build: Builder) -> Tensor:
    first = function(build, build.conv(build.input, 18))
    return function(build, build.like(Add(), build.conv(first, 18), first))


def product(build: Builder) -> Tensor:
    first = build.relu(build.conv(build.input, 18))
    return build.like(Product(), build.conv(first, 18), first)


def activated(build: Builder) -> Tensor:
    """A product with bounds, then a table."""
    first = build.conv(build.input, 9)
    made = build.like(Product(), first, build.conv(build.input, 9))
    return function(build, build.like(Activation(1.0, -0.5, 1.5), made))


def gated(build: Builder) -> Tensor:
    """Squeeze and excitation of several blocks: one pixel scales a map."""
    data = function(build, build.conv(build.input, 35))
    small = build.relu(build.conv(mean(build, data), 6, Window((1, 1))))
    gate = function(build, build.conv(small, 35, Window((1, 1))), SIGMOID)
    return build.like(Product(), data, gate)


def pooled(build: Builder) -> Tensor:
    data = function(build, build.conv(build.input, 8))
    return build.pool(data, Pool("max", Window((2, 2), (2, 2))))


NETWORKS = [convolution, alone, summed, product, activated, gated, pooled]


def made(network: object, shape: NpuShape, seed: int, **settings: object) -> Made:
    rng = np.random.default_rng(seed)
    build = Builder(*(int(n) for n in rng.integers((4, 4, 2), (9, 9, 20))), seed)
    build.end(build.conv(network(build), 3, Window((1, 1))))  # type: ignore[operator]
    return exact(build, fitting(build, shape, **settings))


@pytest.mark.sample(9)
@SHAPES
@pytest.mark.parametrize("network", NETWORKS, ids=lambda one: one.__name__)
def test_programs_equal_the_reference(network: object, shape: NpuShape) -> None:
    found = made(network, shape, 1)
    assert "LOOKUP" in kinds(found, "RQ") or network is product
    assert ("MUL" in kinds(found, "ALU")) == (network in (product, activated, gated))


@pytest.mark.parametrize("network", NETWORKS, ids=lambda one: one.__name__)
def test_programs_of_16_bits(network: object) -> None:
    """Two tables and a product per element."""
    found = made(network, DUAL, 2, bits=16)
    assert ("LOOKUP" in kinds(found, "RQ")) == (network is not product)
    assert "MUL" in kinds(found, "ALU")


@pytest.mark.parametrize("term", TERMS, ids=str)
def test_a_layer_and_its_function_are_one_instruction(term: Term) -> None:
    """The requantisation of a layer also looks up its results, tile by tile."""
    build = Builder(6, 5, 4)
    data = function(build, build.conv(build.input, 20), term)
    build.end(build.conv(data, 3, Window((1, 1))))
    found = exact(build, fitting(build, SHAPE))
    rq = [one.kind for one in found.compiled.code.program if one.op == "RQ"]
    assert set(rq) == {"RQ", "LOOKUP"}
    assert len(found.compiled.macros) == 2
