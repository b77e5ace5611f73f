"""R9.7: macro records: a literal record, round trips, programs from the file alone, damage."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from chipsim.chip.npu_shape import NpuShape
from mapper.compiler.codegen.code import images_of_records
from mapper.compiler.codegen.kernels import kernel_words
from mapper.compiler.codegen.macros.decode import records_of, weights_of
from mapper.compiler.codegen.macros.encode import Encoded
from mapper.compiler.codegen.macros.file import (
    MACROS,
    listing_text,
    pack_layers,
    read_encoded,
    unpack_layers,
)
from mapper.compiler.codegen.macros.layout import (
    EXACT,
    FLAGS,
    LAYOUT,
    NOWHERE,
    OPS,
    RECORD_BYTES,
    decode_record,
    encode_record,
    flags_of,
)
from mapper.compiler.codegen.macros.pool import (
    Item,
    Sort,
    decode_items,
    encode_items,
    halves,
    wholes,
)
from mapper.compiler.ir.node import Add, Conv, Function, Node, Pool, Product, Upsample, Window
from mapper.compiler.ir.tensor import Pad, Tensor, Type
from mapper.compiler.ir.term import Term, X
from mapper.compiler.program.image import pack_image
from mapper.compiler.program.sections import pack_sections, unpack_sections
from mapper.errors import MapperError
from tests.compiler.binary_networks import BinaryBuilder
from tests.compiler.networks import SAME, Builder, residual
from tests.compiler.programs import DUAL, FOUR, SHAPE, SMALL, Made, compiled

# ---- one record ---------------------------------------------------------------------------------

LITERAL = {
    "op": OPS.index("CONV"), "flags": flags_of({"relu": True, "wide": True}), "x": 3, "y": 2,
    "input": 0x00010203, "second_input": NOWHERE, "output": 0x0A0B0C0D, "second_output": 7,
    "height": 224, "width": 226, "input_channels": 64, "output_channels": 512,
    "kernel_height": 3, "kernel_width": 5, "stride_height": 1, "stride_width": 2,
    "pad_top": 1, "pad_bottom": 2, "pad_left": 3, "pad_right": 4,
    "pool": 2, "pool_stride": 2, "dilation_height": 1, "dilation_width": 6,
    "input_stride": 4, "output_stride": 32, "input_zero": -128, "output_zero": 127,
    "weights": 0x00012345, "weight_words": 4608, "record": 17, "bias": 19,
    "first_header": 5, "headers": 6, "layer": 300,
}  # fmt: skip
BYTES = bytes.fromhex(
    "01810302"  # op, flags, core x, core y
    "03020100ffffffff0d0c0b0a07000000"  # input, second input, output, second output
    "e000e20040000002"  # height, width, input and output channels
    "030501020102030402020106"  # kernel, strides, padding, pool and its stride, dilation
    "04002000"  # strides of input and output
    "80ff7f00"  # zero points
    "45230100"  # weights
    "0012110013000500060 02c01".replace(" ", "")  # words, record, bias, headers, layer
)


def test_c03_a_literal_record() -> None:
    """C03: 64 bytes in the order of the table, little-endian."""
    assert RECORD_BYTES == len(BYTES) == 64
    assert encode_record(LITERAL, "") == (BYTES, [])
    assert decode_record(BYTES, "") == LITERAL


def test_c03_ops_and_flags_have_their_numbers() -> None:
    assert OPS == ("REMAP", "CONV", "MAXP", "AVGP", "ADD", "FC", "UP", "COPY", "MUL")
    assert FLAGS == (
        "relu", "leaky", "binary_in", "sign_out", "dynamic_weights", "pooled", "added", "wide",
    )  # fmt: skip


def test_c03_random_records_round_trip() -> None:
    random = np.random.default_rng(3)
    for _ in range(2000):
        values = {
            field.name: int(random.integers(field.has_room.start, field.has_room.stop))
            for field in LAYOUT
        } | {"op": int(random.integers(len(OPS)))}
        data, longer = encode_record(values, "")
        assert not longer
        assert decode_record(data, "") == values


@pytest.mark.parametrize("field", [one for one in LAYOUT if one.name not in EXACT])
def test_numbers_beyond_a_field_are_marked(field: object) -> None:
    """Values that exceed a field are stored in the pool, and marked in the record."""
    number = LAYOUT.index(field)  # type: ignore[arg-type]
    one = LAYOUT[number]
    beyond = [one.has_room.stop + 1, 1 << 40]
    if one.form != "I":
        beyond.append(one.without_room)
    for value in beyond:
        data, longer = encode_record({one.name: value}, "")
        assert longer == [(number, value)]
        assert decode_record(data, "")[one.name] == one.without_room
    for value in (one.has_room.start, one.has_room.stop - 1):
        assert encode_record({one.name: value}, "")[1] == []


def test_layers_beyond_the_record_are_refused() -> None:
    with pytest.raises(MapperError, match=r"conv 'a': layer of its macro record is 65,536"):
        encode_record({"layer": 1 << 16}, "conv 'a'")


def test_unknown_opcodes_are_rejected() -> None:
    with pytest.raises(MapperError, match=r"record 4: unknown opcode 9 \(0 to 8\)"):
        decode_record(bytes([9]) + BYTES[1:], "record 4")


# ---- its words ----------------------------------------------------------------------------------


def test_random_items_round_trip() -> None:
    random = np.random.default_rng(4)
    sorts = list(Sort)
    for _ in range(200):
        items = [
            Item(
                sorts[random.integers(len(sorts))],
                tuple(random.integers(-(1 << 31), 1 << 31, random.integers(40)).tolist()),
            )
            for _ in range(random.integers(12))
        ]
        words = encode_items(items, "")
        assert len(words) % 16 == 0
        pool = np.array([7] * 32 + words + [9] * 16, np.int64).astype(np.int32)
        assert decode_items(pool, 32, "") == (items, 32 + len(words))


def test_numbers_of_64_bits_are_two_words() -> None:
    assert halves([1, -1, 1 << 33]) == (1, 0, -1, -1, 0, 2)
    values = np.random.default_rng(5).integers(-(1 << 63), (1 << 63) - 1, 50).tolist()
    assert wholes(halves(values)) == values


def test_invalid_items_are_rejected() -> None:
    for words in ([3], [1, 99], [1, Sort.NAME | 5 << 8, 1], [1, Sort.NAME | 1 << 8]):
        with pytest.raises(MapperError, match=r"^record 1: invalid words in the pool"):
            decode_items(np.array(words, np.int32), 0, "record 1")
    with pytest.raises(MapperError, match=r"2,147,483,648 does not fit in 32 bits"):
        encode_items([Item(Sort.WORDS, (1 << 31,))], "conv 'a'")


KERNELS: list[tuple[int, int, int, tuple[int, int], Type]] = [
    (40, 20, 1, (3, 2), "int8"),
    (16, 16, 1, (1, 1), "int8"),
    (48, 32, 4, (3, 3), "int8"),
    (96, 48, 24, (1, 2), "int8"),  # groups of less than a block
    (35, 35, 35, (5, 5), "int8"),  # depthwise
    (20, 40, 1, (2, 3), "int16"),
    (24, 24, 24, (3, 3), "int16"),
    (40, 130, 1, (3, 3), "bits"),
]


@pytest.mark.parametrize("shape", [SHAPE, FOUR], ids=lambda one: one.name)
@pytest.mark.parametrize(("outputs", "inputs", "groups", "size", "kind"), KERNELS)
def test_weights_round_trip_through_words(
    outputs: int, inputs: int, groups: int, size: tuple[int, int], kind: Type, shape: NpuShape
) -> None:
    random = np.random.default_rng(6)
    most = 1 << 15 if kind == "int16" else 1 << 7
    weights = random.integers(-most, most, (outputs, *size, inputs // groups))
    if kind == "bits":
        weights = np.where(weights < 0, -1, 1)
    data = Tensor("x", (1, 9, 9, inputs), kind)
    made = Tensor("y", (1, 9 - size[0] + 1, 9 - size[1] + 1, outputs), "int32")
    constants = [Tensor("", value.shape, value=value) for value in (weights, weights[:, 0, 0, 0])]
    conv = Node(Conv(Window(size), groups), [data, *constants], [made], ())
    words = np.concatenate(kernel_words(conv, shape)[1]).astype(np.int8)
    conv.inputs = [data]
    assert np.array_equal(weights_of(words, conv, shape), weights)
    with pytest.raises(ValueError):
        weights_of(words[:-1], conv, shape)


# ---- the file -----------------------------------------------------------------------------------


def layers() -> Builder:
    """Build one layer of each kind: convolutions, pooling, additions, upsampling, leaky
    activation."""
    build = Builder(12, 10, 5, 2)
    a = build.relu(build.conv(build.input, 20))
    b = build.conv(a, 20, Window((3, 3), (1, 1), Pad(1, 1, 1, 1)))
    c = build.like(Add(), a, b)
    d = build.pool(c, Pool("max", Window((2, 2), (2, 2))))
    e = build.conv(d, 20, SAME, 20)
    f = build.node(Upsample(), [e], (e.height * 2, e.width * 2, e.channels))
    g = build.pool(f, Pool("average", Window((3, 3), (3, 3))))
    build.end(build.conv(g, 10, Window((g.height, g.width))))
    return build


def bits() -> Builder:
    build = BinaryBuilder(7, 6, 3, 1)
    tensor = build.conv(build.input, 20, Window((1, 1)))
    for outputs in (150, 12):
        tensor = build.sign(build.normalised(tensor, 1.0))
        tensor = build.binary(tensor, outputs, SAME, alpha=outputs != 12)
    build.end(tensor)
    return build


def windows() -> Builder:
    build = Builder(15, 21, 3, 1)
    build.end(build.conv(build.relu(build.conv(build.input, 20)), 8))
    return build


def products() -> Builder:
    """A table, and products with a map and with one pixel."""
    build = Builder(6, 5, 4, 1)
    a = build.like(Function(Term("sigmoid", (X,))), build.conv(build.input, 20))
    b = build.like(Product(), build.conv(a, 20), a)
    gate = build.pool(b, Pool("average", Window((6, 5))))
    build.end(build.conv(build.like(Product(), b, gate), 3, Window((1, 1))))
    return build


def little() -> NpuShape:
    return NpuShape("little", weight_words=30, instructions=1 << 16)


CASES: dict[str, Callable[[], Made]] = {
    "layers": lambda: compiled(layers()),
    "tiles": lambda: compiled(residual(), SMALL),
    "stored padding": lambda: compiled(layers(), padding="stored"),
    "bits": lambda: compiled(bits()),
    "windows": lambda: compiled(windows(), few_channels="core"),
    "pairs": lambda: compiled(layers(), DUAL),
    "16 bit": lambda: compiled(layers(), DUAL, bits=16),
    "streams": lambda: compiled(layers(), little()),
    "products": lambda: compiled(products()),
    "added bias": lambda: compiled(layers(), bias="alu", schedule="rows"),
}


@pytest.fixture(scope="module")
def made() -> dict[str, Made]:
    return {name: make() for name, make in CASES.items()}


ALONE = """
import sys
from pathlib import Path
from mapper.compiler.program.image import pack_image
from mapper.compiler.codegen.code import images_of_records
for path in sorted(Path(sys.argv[1]).glob("*/macros.bin")):
    _, (image,), words = images_of_records(path.read_bytes(), str(path))
    path.with_name("core.npc").write_bytes(pack_image(image))
    path.with_name("weights.bin").write_bytes(words)
"""


@pytest.mark.heavy
@pytest.mark.sample(0.25)
@pytest.mark.jit
def test_c03_programs_are_generated_from_records_alone(
    made: dict[str, Made], tmp_path: Path
) -> None:
    """C03: another process with only macros.bin generates identical programs and host words."""
    for name, one in made.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "macros.bin").write_bytes(one.folder.records)
    subprocess.run([sys.executable, "-c", ALONE, str(tmp_path)], check=True)
    for name, one in made.items():
        (image,) = one.folder.images.values()
        assert (tmp_path / name / "core.npc").read_bytes() == pack_image(image), name
        words = one.compiled.host_weights.tobytes()
        assert (tmp_path / name / "weights.bin").read_bytes() == words, name
    assert made["streams"].compiled.host_weights.size


@pytest.mark.heavy
@pytest.mark.jit
def test_c03_files_round_trip(made: dict[str, Made]) -> None:
    """C03: a file round-trips; operators, flags and options equal those compiled."""
    ops, flags = set(), set()
    for one in made.values():
        data = one.folder.records
        found = unpack_layers(data, "it")
        assert pack_layers(found) == data
        records = records_of(read_encoded(data, "it")[0], "it")
        ops |= {record.op for record in records}
        flags |= {name for record in records for name in FLAGS if record.flag(name)}
        assert [record.values["layer"] for record in records] == [
            number
            for number, macro in enumerate(one.compiled.macros)
            for _ in range(len(macro.nodes) + (macro.sign is not None))
        ]
        assert found.core == (1, 0)
        assert {(record.values["x"], record.values["y"]) for record in records} == {(1, 0)}
    assert ops >= set(OPS) - {"COPY"}
    assert flags >= set(FLAGS) - {"leaky"}


@pytest.mark.jit
def test_records_contain_map_addresses(made: dict[str, Made]) -> None:
    one = made["windows"]
    first = records_of(read_encoded(one.folder.records, "it")[0], "it")[0]
    assert first.op == "CONV"
    assert first.values["kernel_height"] == first.values["kernel_width"] == 3
    assert first.values["headers"] == len(one.compiled.code.tables.headers)
    image = one.compiled.code.regions[one.compiled.graph.inputs["x"].tensor]
    assert first.values["input"] == image.first
    text = listing_text(one.folder.records, "it")
    assert text.startswith("# function 0\n# layer 0 n0\nCONV ")
    assert "headers=" in text.splitlines()[2]


# ---- damage -------------------------------------------------------------------------------------


@pytest.mark.jit
def test_damaged_files_are_refused(made: dict[str, Made]) -> None:
    data = made["layers"].folder.records

    def refused(other: bytes, text: str) -> None:
        with pytest.raises(MapperError) as error:
            images_of_records(other, "it")
        assert str(error.value).startswith("it: ")
        assert text in str(error.value)
        assert "\n" not in str(error.value)

    for at in np.random.default_rng(1).integers(12, len(data), 60):
        flipped = bytearray(data)
        flipped[at] ^= 1
        refused(bytes(flipped), "")
    for size in (0, 11, 20, len(data) // 2, len(data) - 1):
        refused(data[:size], "cut short")
    refused(data + b"\0", "1 excess bytes")
    refused(b"NPUCORE" + data[7:], "not a file of macro records (macros.bin)")
    refused(data[:7] + b"\2" + data[8:], "a file of version 2, this mapper reads 1")


def changed(data: bytes, tag: str, change: Callable[[bytearray], object]) -> bytes:
    """Return a file with a changed section, and a valid checksum."""
    parts = unpack_sections(MACROS, data, "it")
    part = bytearray(parts[tag])
    change(part)
    return pack_sections(MACROS, parts | {tag: bytes(part)})


TELLS = (
    "dilation_height", "dilation_width", "input_channels", "output_zero", "pad_bottom", "pad_right",
)  # fmt: skip
"""Fields that have no meaning in some records: the dilation of a 1x1 kernel, padding after the map
that no window reaches.
"""


@pytest.mark.sample(10)
@pytest.mark.jit
@pytest.mark.parametrize("field", LAYOUT, ids=lambda one: one.name)
def test_records_that_contradict_themselves_are_refused(
    field: object, made: dict[str, Made]
) -> None:
    """A changed field of any record changes the program or is detected: no field is unused."""
    one = made["layers"]
    number = LAYOUT.index(field)  # type: ignore[arg-type]
    at = sum(field.bits // 8 for field in LAYOUT[:number])
    (image,) = one.folder.images.values()
    program = pack_image(image)
    for record in range(8):

        def flip(part: bytearray, place: int = record * RECORD_BYTES + at) -> None:
            part[place] ^= 1

        other = changed(one.folder.records, "REC", flip)
        try:
            _, (found,), _ = images_of_records(other, "it")
        except MapperError as error:
            assert "\n" not in str(error)
        else:
            assert pack_image(found) != program or LAYOUT[number].name in TELLS


@pytest.mark.jit
def test_invalid_sections_are_rejected(made: dict[str, Made]) -> None:
    data = made["layers"].folder.records
    for tag, change, text in (
        ("REC", lambda part: part.extend(b"\0"), "its last macro record is cut short"),
        ("REC", lambda part: part.clear(), "functions do not match the layers"),
        ("NAME", lambda part: part.__setitem__(slice(None), b"[]"), "is inconsistent"),
        ("INFO", lambda part: part.__setitem__(slice(None), b"{}"), "do not match the shape"),
        ("POOL", lambda part: part.clear(), "invalid words in the pool"),
        ("WM", lambda part: part.clear(), "is inconsistent"),
    ):
        with pytest.raises(MapperError, match=text) as error:
            images_of_records(changed(data, tag, change), "it")  # type: ignore[arg-type]
        assert str(error.value).startswith("it: ")


def test_numbers_beyond_a_field_are_read_from_the_pool() -> None:
    """A map of 70,000 columns."""
    values = {"width": 70_000, "record": 0}
    data, longer = encode_record(values, "")
    words = encode_items([Item(Sort.LONG, (number, *halves([v]))) for number, v in longer], "")
    empty = np.zeros((0, 16, 16), np.int8)
    (record,) = records_of(Encoded(data, np.array(words, np.int32), empty, []), "it")
    assert record.values["width"] == 70_000
