"""Precision of single layers: `--bits 8,conv1=16`, and layers that the verification raises."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from chipsim.chip.model import Chip
from mapper.compiler.artifacts.cycles import run_frames
from mapper.compiler.artifacts.manifest import Target
from mapper.compiler.artifacts.simulate import simulate
from mapper.compiler.artifacts.verify import verify_compiled
from mapper.compiler.ir.node import Add, Function, Pool, Product, Window
from mapper.compiler.ir.term import Term, X
from mapper.compiler.layer_bits import LayerBits, rule_of
from mapper.compiler.pipeline import compile_model
from mapper.compiler.settings import CompileSettings
from mapper.errors import MapperError, UsageError
from tests.compiler.binary_networks import BinaryBuilder
from tests.compiler.codegen.test_cdriver import needs_cc, require_same_results
from tests.compiler.networks import SAME, Builder, residual
from tests.compiler.programs import DUAL, Made, compiled, exact, folder_of, same, source_of

POINT = Window((1, 1))
SIGMOID = Term("sigmoid", (X,))
LAYERS = 18
MESH = Chip("mesh", 4, 4, npu=DUAL)


def mixture(seed: int) -> Builder:
    """Build all kinds of layers: n0 to n17, with maps that several of them read."""
    build = Builder(8, 8, 3, seed)
    first = build.relu(build.conv(build.input, 20))
    depthwise = build.relu(build.conv(first, 20, SAME, 20))
    table = build.like(Function(Term("mul", (X, SIGMOID))), build.conv(depthwise, 20, POINT))
    pooled = build.pool(build.like(Add(), table, first), Pool("max", Window((2, 2), (2, 2))))
    both = build.concat(build.conv(pooled, 16), build.relu(build.conv(pooled, 32, POINT)))
    mean = build.pool(both, Pool("average", Window((4, 4))))
    gate = build.like(Function(SIGMOID), build.conv(mean, 48, POINT))
    dense = build.conv(build.like(Product(), both, gate), 24, Window((4, 4)))
    build.end(build.conv(dense, 10, POINT))
    assert len(build.graph.nodes) == LAYERS
    return build


def random_bits(seed: int) -> str:
    """Return one precision by default and the other one for a random part of the layers."""
    random = np.random.default_rng(seed)
    default, other = ((8, 16), (16, 8))[seed % 2]
    layers = np.flatnonzero(random.random(LAYERS) < random.choice([0.2, 0.5, 0.8]))
    return ",".join([str(default), *(f"n{at}={other}" for at in layers)])


def types(made: Made) -> dict[str, str]:
    """Return the types of the stored maps by name."""
    return {one.name: one.type for one in made.compiled.graph.tensors() if one.stored}


@pytest.mark.heavy
@pytest.mark.jit
@pytest.mark.sample(1)
@pytest.mark.parametrize("seed", range(12))
def test_all_kinds_of_layers_on_one_core(seed: int) -> None:
    made = same(mixture(seed), DUAL, bits=random_bits(seed))
    assert set(types(made).values()) >= {"int8", "int16"}


@pytest.mark.heavy
@pytest.mark.jit
@pytest.mark.sample(1)
@pytest.mark.parametrize("seed", range(4))
def test_all_kinds_of_layers_on_several_cores(seed: int) -> None:
    """Equal to the reference, and frames that overlap give the same bytes."""
    build = mixture(seed)
    source, samples = source_of(build)
    how = CompileSettings(
        method="minmax", min_signal=-100, max_loss=100, bits=random_bits(seed)
    )  # fmt: skip
    made = compile_model(source, DUAL, samples, how, chip=MESH)
    folder = folder_of(made, Target(MESH, DUAL, how))
    x = np.ascontiguousarray(build.graph.inputs["x"].array(build.samples(3)))
    assert {one.differences for one in simulate(folder, x, threads=1, check=True).compared} == {0}
    assert verify_compiled(folder)["cores"] > 4
    assert run_frames(folder, x, 4).bytes > 0


@needs_cc
@pytest.mark.heavy
@pytest.mark.jit
@pytest.mark.sample(1)
@pytest.mark.parametrize("seed", [2, 4])
def test_the_c_driver_runs_both(seed: int, tmp_path: Path) -> None:
    build = mixture(seed)
    made = compiled(build, replace(DUAL, map_vectors=1024), bits=f"{random_bits(seed)},n17=16")
    require_same_results(build, made, "<i2", tmp_path)


@pytest.mark.jit
def test_only_named_layers_have_16_bits() -> None:
    """The layer before stores 16 bits; the layer itself stores the 8 bits of its readers."""
    build = Builder(6, 6, 4, seed=3)
    data = build.input
    for _ in range(4):
        data = build.relu(build.conv(data, 16))
    build.end(data)
    made = exact(build, compiled(build, DUAL, bits="8,n4=16"))
    assert [types(made)[f"n{at}.out"] for at in (1, 3, 5, 7)] == ["int8", "int16", "int8", "int8"]
    assert [layer["bits"] for layer in made.folder.manifest["layers"]] == [8, 8, 16, 8]
    products = [step.macro for step in made.compiled.code.steps if step.instruction.kind == "INT16"]
    assert set(products) == {2}


@pytest.mark.jit
def test_a_map_with_readers_of_both_widths_has_one_copy() -> None:
    build = Builder(6, 6, 4, seed=3)
    first = build.relu(build.conv(build.input, 16))
    heads = [build.conv(first, 16) for _ in range(3)]
    build.end(build.concat(*heads))
    made = exact(
        build, compiled(build, DUAL, bits="8,n2=16", few_channels="off", off=("siblings",))
    )
    narrowed = [name for name in types(made) if name.endswith(".narrowed")]
    assert narrowed == ["n1.out.narrowed"]
    kinds = {one.kind for one in made.compiled.code.program if one.op == "GEMM"}
    assert "INT16" in kinds
    assert len(kinds) > 1


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("8", LayerBits(8)), (16, LayerBits(16)), ("auto", LayerBits(8, raises=True)),
        ("8,a=16", LayerBits(8, rules=(("a", 16),))),
        ("auto,a=b=16,c*=8", LayerBits(8, True, (("a=b", 16), ("c*", 8)))),
    ],
)  # fmt: skip
def test_parsed(text: int | str, found: LayerBits) -> None:
    assert LayerBits.parse(text) == found


@pytest.mark.parametrize(
    ("text", "word"),
    [("", "''"), ("4", "'4'"), ("a=16", "'a=16'"), ("8,", "''"), ("8,a", "'a'"), ("8,=16", "'=16'"),
     ("16,a=12", "'a=12'"), ("8,a=auto", "'a=auto'"), ("8,a=16,16", "'16'")],
)  # fmt: skip
def test_wrong_texts(text: str, word: str) -> None:
    with pytest.raises(UsageError, match=rf"^--bits {text}: {word} is not a .*8,conv1=16$"):
        CompileSettings(bits=text)


def test_the_last_rule_that_matches_applies() -> None:
    rules = LayerBits.parse("8,features.*=16,features.3*=8,[a]=16").rules
    wanted = {"features.1": 16, "features.31": 8, "Features.1": None, "[a]": 16}
    assert {name: rule_of(rules, (name,)) for name in wanted} == wanted
    assert rule_of(rules, ("relu", "features.1")) == 16


@pytest.mark.parametrize(
    ("bits", "text"),
    [
        ("8,n99=16", r"--bits n99=16: no layer has this name; similar: 'n9'"),
        ("8,conv1=16", r"--bits conv1=16: no layer has this name; --explain-only lists"),
        ("16,x.*=8", r"--bits x\.\*=8: no layer has this name"),
    ],
)
def test_unknown_layers(bits: str, text: str) -> None:
    build = mixture(0)
    with pytest.raises(MapperError, match=text):
        compiled(build, DUAL, bits=bits)


def test_layers_of_signs_are_refused() -> None:
    build = BinaryBuilder(6, 5, 3, 3)
    signs = build.sign(build.normalised(build.conv(build.input, 20), 1.0))
    build.end(build.conv(build.relu(build.binary(signs, 20)), 5))
    name = build.graph.nodes[3].sources[0]
    with pytest.raises(MapperError, match=rf"'{name}' reads signs or levels of the model"):
        compiled(build, DUAL, bits=f"8,{name}=16")


@pytest.mark.jit
def test_c01_layers_that_lose_most_are_raised_until_the_limit() -> None:
    """One layer more per attempt; layers with a rule keep it, and 8 raises none."""
    plain = compiled(residual(channels=20), DUAL, bits=8, min_signal=200).compiled.verified
    assert plain is not None
    assert {row.wide for row in plain.attempts} == {()}
    signal = plain.attempts[0].score.signal
    assert signal is not None
    made = compiled(residual(channels=20), DUAL, bits="auto,n2=8", min_signal=signal + 3)
    found = made.compiled.verified
    assert found is not None
    assert found.reached
    rows = [row.wide for row in found.attempts]
    assert rows == [rows[-1][:count] for count in range(len(rows))]
    assert "n2" not in rows[-1]
    (note,) = [line for line in made.compiled.notes if line.startswith("raised to 16 bits: ")]
    after = found.attempts[-1].score.signal
    assert note == (
        f"raised to 16 bits: {', '.join(rows[-1])} (SQNR {signal:.1f} dB before, {after:.1f} dB "
        "after)"
    )
    again = compiled(residual(channels=20), DUAL, bits="auto,n2=8", min_signal=signal + 3)
    assert again.compiled.verified is not None
    assert [row.wide for row in again.compiled.verified.attempts] == rows
