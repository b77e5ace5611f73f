"""Loop listings visit the addresses of the program, and round-trip as words and as text."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mapper.compiler.artifacts.loops.check import check_listing, visits_of
from mapper.compiler.artifacts.loops.listing import (
    Loop,
    listing_of,
    listing_text,
    nests_of,
    offsets_of,
)
from mapper.compiler.artifacts.loops.words import (
    Code,
    Word,
    decode_word,
    encode_word,
    text_of,
    words_of_text,
)
from mapper.compiler.artifacts.manifest import LOOPS
from mapper.compiler.artifacts.verify import verify_compiled
from mapper.compiler.ir.node import Activation, Add, Pool, Upsample, Window
from mapper.compiler.program.steps import Step
from mapper.errors import CheckFailedError, MapperError
from tests.compiler.networks import Builder
from tests.compiler.programs import SHAPE, SMALL, Made, compiled


def walked(steps: list[Step], tables: Any) -> Iterator[tuple[str, list[int]]]:
    """Yield the addresses of a program by its instructions, loop by loop."""
    for step in steps:
        one, get = step.instruction, step.instruction.fields.get
        if one.op == "LOAD":
            rows = range(get("y_size") - get("pad_t", 0) - get("pad_b", 0))
            columns = range(get("x_size") - get("pad_l", 0) - get("pad_r", 0))
            yield (
                "input",
                [
                    get("src") + y * get("y_stride") + x * get("x_stride") + c
                    for y, x, c in product(rows, columns, range(get("c_size")))
                ],
            )
        elif one.op == "GEMM":
            ops = tables.micro_ops[get("uop") : get("uop") + get("uops")]
            pixels = range(get("n_out") * get("n_in"))
            yield "weights", [op.wgt for op in ops for _ in pixels]
            begun = [get("bm") + op.bm for op in ops if op.init for _ in pixels]
            if begun:
                yield "bias", begun
        elif one.op == "STORE":
            copies = range(1 + get("up", 0))
            sizes = (range(get(name)) for name in ("c_size", "y_size", "x_size"))
            yield (
                "output",
                [
                    get("dst")
                    + c
                    + (y * len(copies) + dy) * get("y_stride")
                    + (x * len(copies) + dx) * get("x_stride")
                    for c, y, x, dy, dx in product(*sizes, copies, copies)
                ],
            )


def require_same_visits(made: Made) -> list[Word]:
    steps, tables = made.compiled.code.steps, made.compiled.code.tables
    words = listing_of(steps, tables)
    found = [(buffer, at.tolist()) for buffer, at in visits_of(words, "here")]
    assert found == list(walked(steps, tables))
    return words


def network(seed: int) -> Builder:
    rng = np.random.default_rng(seed)
    build = Builder(*(int(n) for n in rng.integers((9, 9, 5), (15, 15, 33))), seed)
    first = build.like(Activation(slope=0.1), build.conv(build.input, int(rng.integers(8, 33))))
    second = build.relu(build.conv(first, first.channels))
    tensor = build.like(Add(), second, first)
    if rng.random() < 0.5:
        tensor = build.pool(build.conv(tensor, 17), Pool("max", Window((2, 2), (2, 2))))
    else:
        shape = (2 * tensor.height, 2 * tensor.width, tensor.channels)
        tensor = build.node(Upsample(), [tensor], shape)
    build.end(tensor)
    return build


@pytest.mark.heavy
@pytest.mark.sample(1)
@pytest.mark.jit
@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("shape", [SHAPE, SMALL], ids=lambda shape: shape.name)
def test_a41_a_listing_visits_the_addresses_of_the_program(seed: int, shape: Any) -> None:
    words = require_same_visits(compiled(network(seed), shape))
    assert [decode_word(encode_word(word), "here") for word in words] == words
    assert words_of_text(text_of(words), "here") == words


@pytest.mark.jit
def test_a41_equal_tiles_are_loops() -> None:
    """A layer of one-row tiles without padding: one block, with one outer loop."""
    build = Builder(16, 16, 32)
    build.end(build.relu(build.conv(build.input, 16, Window((1, 1)))))
    made = compiled(build, first_tile=(16, 1))
    words = require_same_visits(made)
    lines = [line.split("  ")[1] for line in text_of(words)]
    tiles = 1 + made.compiled.code.steps[-1].tile
    assert tiles > 1
    assert lines.count("START 4") == 1
    assert f"LOOP outer {tiles}" in lines
    bases = [word.b for word in words if word.code is Code.BASE]
    assert [bases.count(buffer) for buffer in range(8)] == [1] * 8  # input, weights, bias, output
    relu = lines.index("COMPUTE mul 0x0000")
    assert lines[relu + 1] == "COMPUTE max 0x0000"
    assert words[-1] == Word(Code.END)


def test_strides_beyond_16_bits_have_two_words() -> None:
    lines = [*text_of([Word(Code.HIGH, 3, 1, 2), Word(Code.LOW, 3, 1, 5)])]
    assert lines == [
        "50c10002  STRIDE weights of 3 high 0x0002",
        "60c10005  STRIDE weights of 3 low 0x0005",
    ]


@pytest.mark.parametrize("seed", range(20))
def test_nests_repeat_their_rows(seed: int) -> None:
    rng = np.random.default_rng(seed)
    loops = [
        Loop(int(rng.integers(1, 5)), tuple(int(s) for s in rng.integers(-9, 99, 2)))
        for _ in range(4)
    ]
    rows = offsets_of(loops, 2)
    if seed % 2:
        rows = np.concatenate([rows, rng.integers(0, 9, (7, 2))])
    again = [
        offsets_of(found, 2) + rows[at] for at, found in nests_of(rows)
    ]  # fmt: skip
    assert np.array_equal(np.concatenate(again), rows)
    assert seed % 2 or len(again) == 1


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([Word(Code.START, immediate=1)], "1 words has no END"),
        ([Word(Code.START), Word(Code.LOOP, 2), Word(Code.END)], "is not inside a part"),
        ([Word(Code.START, immediate=2), Word(Code.ALU), Word(Code.END)], "has 1 parts"),
        ([Word(Code.ALU), Word(Code.END)], "is not a START"),
    ],
)
def test_invalid_listings(words: list[Word], said: str) -> None:
    with pytest.raises(MapperError, match=said):
        list(visits_of(words, "here"))


def test_words_that_do_not_fit_and_damaged_text() -> None:
    with pytest.raises(MapperError, match="listing: LOOP: immediate is 65,536"):
        encode_word(Word(Code.LOOP, immediate=1 << 16))
    with pytest.raises(MapperError, match="here: unknown listing code 1000"):
        decode_word(0x80000000, "here")
    with pytest.raises(MapperError, match="line 2: text 'LOOP inner 3' contradicts its number"):
        words_of_text(["# layer", "70800001  LOOP inner 3"], "here")
    with pytest.raises(MapperError, match="line 1: 'x' is not a hex word"):
        words_of_text(["x  END"], "here")


@pytest.mark.heavy
@pytest.mark.sample(0.5)
@pytest.mark.jit
def test_verify_compares_a_listing_with_its_program(tmp_path: Path) -> None:
    made = compiled(network(3), SHAPE)
    steps, tables = made.compiled.code.steps, made.compiled.code.tables
    layers = [macro.label for macro in made.compiled.macros]
    text = listing_text(steps, tables, layers)
    ((place, image),) = made.folder.images.items()
    assert check_listing(text, image, "here") == len(listing_of(steps, tables))
    (tmp_path / LOOPS).mkdir()
    path = tmp_path / LOOPS / f"core_{place[0]}_{place[1]}.txt"
    folder = made.folder._replace(path=tmp_path)
    path.write_text(text)
    verify_compiled(folder)
    lines = text.splitlines()
    at = next(k for k, line in enumerate(lines) if "BASE output low" in line)
    wrong = int(lines[at].split()[0], 16) + 1
    (lines[at],) = text_of([decode_word(wrong, "here")])
    path.write_text("\n".join(lines))
    with pytest.raises(CheckFailedError, match=r"address .* visited \(output\)"):
        verify_compiled(folder)
    path.write_text("\n".join(text.splitlines()[-1:]))
    with pytest.raises(CheckFailedError, match="0 addresses visited"):
        verify_compiled(folder)
