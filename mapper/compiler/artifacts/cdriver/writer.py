"""Programs and host steps as C sources: program.h, isa.h and the driver sources.

isa.h has the bit positions of instruction fields, generated from the instruction table.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from chipsim.chip.npu_shape import NpuShape
from hw.npu.isa.table import FORMS, HEAD, MICRO_OP, OPS, RECORD, ROUNDINGS, UNITS, Field
from mapper.compiler.program.image import Image
from mapper.compiler.tiling.units import vectors_of
from mapper.errors import MapperError
from storage.files import write_file, write_text

SOURCES = ("driver.c", "driver.h", "main.c")
KINDS = ("QUANTISE", "WINDOWS", "WRITE", "RUN", "READ")
LINE = 24  # numbers per line

CoreStep = Mapping[str, Any]
"""A step of `main.c`: its kind, one of `KINDS`, and fields of `struct step` in program.h."""


class Sources(NamedTuple):
    """Input of the C driver.

    images : program images by core, (x, y)
    begins : first instruction of each function, by core
    host_weights : words read by WSTREAM, int8, shape (words, rows, columns)
    steps : steps of main.c for a frame; empty to write the interpreter only
    values : number of input values per frame
    """

    shape: NpuShape
    images: Mapping[tuple[int, int], Image]
    begins: Mapping[tuple[int, int], Sequence[int]]
    host_weights: NDArray[np.int8]
    steps: Sequence[CoreStep] = ()
    values: int = 1


def write_driver(folder: Path, sources: Sources) -> None:
    """Write program.h, isa.h and the driver sources into a folder.

    Raises `MapperError` if a core's array is not square.
    """
    shape = sources.shape
    if shape.rows != shape.columns:
        raise MapperError(
            f"npu {shape.name}: {shape.rows} rows and {shape.columns} columns; the C driver "
            "requires cores with as many rows as columns"
        )
    folder.mkdir(parents=True, exist_ok=True)
    write_text(folder / "isa.h", layout_header())
    write_text(folder / "program.h", program_header(sources))
    for name in SOURCES:
        write_file(folder / name, (files(__package__) / name).read_bytes())


def program_header(sources: Sources) -> str:
    """Return program.h: sizes, programs and memories of all cores, and the host steps.

    Only main.c defines PROGRAM_STEPS and only driver.c PROGRAM_CORES: each array is compiled once.
    """
    shape, images = sources.shape, sources.images
    vectors = shape.map_vectors or max(image.map_vectors for image in images.values())
    buffers = 1 + max((max(step.get("from", 0), step.get("to", 0)) for step in sources.steps),
                      default=0)  # fmt: skip
    elements = max((int(step.get("elements", 1)) for step in sources.steps), default=1)
    sizes = {
        "ROWS": shape.rows,
        "COLUMNS": shape.columns,
        "DUAL": int(shape.multiplier == "dual"),
        "FILTERS": shape.filters,
        "ACC_BITS": shape.accumulator_bits,
        "MAP_VECTORS": vectors,
        "INPUT_VECTORS": shape.input_vectors,
        "ENTRIES": shape.entries,
        "WEIGHT_WORDS": shape.weight_words,
        "PARAMETER_WORDS": shape.parameter_words,
        "MICRO_OPS": shape.micro_ops,
        "HEADERS": max(1, shape.headers),
        "HOST_WORDS": max(1, len(sources.host_weights)),
        "HOST_VECTORS": max(1, _sent(sources)),
        "CORES": len(images),
        "FUNCTIONS": max(len(each) for each in sources.begins.values()),
        "STEPS": max(1, len(sources.steps)),
        "INPUT_VALUES": sources.values,
        "BUFFERS": buffers,
        "BUFFER_ELEMENTS": elements,
    }
    lines = [
        "/* Programs and memory contents of NPU cores, and the steps of the host. */",
        "",
        "#ifndef PROGRAM_H",
        "#define PROGRAM_H",
        "",
        "#include <stdint.h>",
        "",
        '#include "isa.h"',
        "",
        *(f"#define {name} {size}" for name, size in sizes.items()),
        "",
        _STRUCTS,
        *(f"#define STEP_{name} {number}" for number, name in enumerate(KINDS)),
        "",
        "#ifdef PROGRAM_CORES",
        *_arrays(sources),
        "#endif",
        "",
        "#ifdef PROGRAM_STEPS",
        *_steps(sources.steps),
        "#endif",
        "",
        "#endif",
        "",
    ]
    return "\n".join(lines)


_STRUCTS = """\
/* A core: its program and initial memory contents; all other memory is 0.
 * preset: first address and number of vectors of each run in the feature memory. */
struct core {
    int x, y;
    const uint32_t (*instructions)[4];
    const int *begin; /* first instruction of each function */
    const int32_t (*preset)[2];
    const int8_t *maps, *weights;
    const int32_t *parameters;
    const uint32_t *micro_ops, *headers;
    int runs, weight_words, parameter_words, micro_op_words, header_words;
};

/* Host step: quantise the input into a buffer, apply im2col from one buffer to another, write a
 * buffer to a feature map, run a function, or read a feature map. strides: of rows, columns and
 * channels of the input in values, of rows and columns of a map in vectors. high: vectors from low
 * to high bytes of 16-bit data. planes: map stored channel by channel, in four banks. */
struct step {
    int kind, from, to, core, function;
    int32_t address, high;
    int rows, columns, channels, bits, planes;
    long strides[3];
    float scale;
    long zero_point;
    int size[2], stride[2], dilation[2], pad[2], results[2];
};
"""


def _arrays(sources: Sources) -> Iterable[str]:
    """Yield programs and memories; an empty array has one number, since C has no empty arrays."""
    entries = []
    for number, (place, image) in enumerate(sources.images.items()):
        begins = ", ".join(map(str, sources.begins[place]))
        program = np.frombuffer(image.instructions, "<u4")
        yield f"static const uint32_t instructions_{number}[][4] = {{"
        yield from (
            f"{{{', '.join(f'{word:#x}u' for word in row)}}}," for row in program.reshape(-1, 4)
        )
        yield "};"
        yield f"static const int begin_{number}[] = {{{begins}}};"
        runs = image.runs or [(0, 0)]
        yield f"static const int32_t preset_{number}[][2] = {{"
        yield from (f"{{{first}, {count}}}," for first, count in runs)
        yield "};"
        memories: dict[str, tuple[str, NDArray[Any]]] = {
            "maps": ("int8_t", image.maps.view(np.int8)),
            "weights": ("int8_t", image.weights),
            "parameters": ("int32_t", image.parameters),
            "micro_ops": ("uint32_t", np.frombuffer(image.micro_ops, "<u4")),
            "headers": ("uint32_t", np.frombuffer(image.headers, "<u4")),
        }
        for name, (kind, data) in memories.items():
            yield from _numbers(f"static const {kind} {name}_{number}[]", data)
        names = ", ".join(f"{name}_{number}" for name in memories)
        of = image.counts
        words = of["weight_words"], of["parameter_words"], of["micro_ops"], of["headers"]
        entries.append(
            f"    {{{place[0]}, {place[1]}, instructions_{number}, begin_{number}, "
            f"preset_{number}, {names}, {', '.join(map(str, (len(image.runs), *words)))}}},"
        )
    yield "static const struct core cores[CORES] = {"
    yield from entries
    yield "};"
    shape = sources.shape
    streamed = sources.host_weights.reshape(-1, shape.rows * shape.columns)
    if not len(streamed):
        streamed = np.zeros((1, shape.rows * shape.columns), np.int8)
    yield "static const int8_t host_weights[HOST_WORDS][ROWS * COLUMNS] = {"
    yield from (f"{{{', '.join(map(str, word))}}}," for word in streamed.tolist())
    yield "};"


def _numbers(declared: str, data: NDArray[Any]) -> Iterable[str]:
    """Yield a C array; the smallest int32 cannot be written as a constant in C."""
    flat = data.reshape(-1).tolist() or [0]
    text = ["-2147483647 - 1" if one == -(1 << 31) else str(one) for one in flat]
    suffix = "u" if data.dtype.kind == "u" else ""
    yield f"{declared} = {{"
    for at in range(0, len(text), LINE):
        yield ", ".join(f"{one}{suffix}" for one in text[at : at + LINE]) + ","
    yield "};"


def _steps(steps: Sequence[CoreStep]) -> Iterable[str]:
    yield "static const struct step steps[STEPS] = {"
    for step in steps or [{"kind": "RUN"}]:
        fields = [f".kind = STEP_{step['kind']}"]
        for name, value in step.items():
            if name in ("kind", "elements"):
                continue
            if isinstance(value, float):
                text = f"{value.hex()}f"  # exact
            elif isinstance(value, Sequence):
                text = f"{{{', '.join(map(str, value))}}}"
            else:
                text = str(value)
            fields.append(f".{name} = {text}")
        yield f"    {{{', '.join(fields)}}},"
    yield "};"


def _sent(sources: Sources) -> int:
    """Return an upper bound of the vectors that cores send to the host per frame."""
    total = 0
    dual = sources.shape.multiplier == "dual"
    for place, image in sources.images.items():
        for one in image.decoded(f"core {place}: "):
            if one.op == "STORE" and one.kind in ("HOST", "PARTIAL_HOST"):
                total += vectors_of(one, sources.shape) * (1 + dual * (one.kind == "HOST"))
    return total


def layout_header() -> str:
    """Return isa.h: codes of instructions, and ``high, low, signed`` of every field.

    Forms with several kinds use the name of the first kind: GEMM_INT8_UOP applies to all of GEMM.
    """
    lines = [
        "/* Generated from the instruction table: codes; bits of fields: high, low, signed. */",
        "",
        "#ifndef ISA_H",
        "#define ISA_H",
        "",
        *_codes("OP", OPS),
        *_codes("ROUND", _numbered(ROUNDINGS)),
        *_codes("QUEUE", _numbered(UNITS)),
        *_codes("RECORD", _numbered(RECORD)),
        *_fields("HEAD", HEAD),
        *_fields("UOP", MICRO_OP),
    ]
    for form in FORMS:
        lines += _codes(form.op, {kind: code for kind, (code, _) in form.kinds.items()})
        lines += _fields(f"{form.op}_{next(iter(form.kinds))}", form.fields)
    values = {
        field.name: ("TABLE" if field.name == "memory" else field.name.upper(), field.values)
        for form in FORMS
        for field in form.fields
        if field.name in ("init", "source", "memory")
    }
    for prefix, names in values.values():
        lines += _codes(prefix, _numbered(names))
    return "\n".join([*lines, "", "#endif", ""])


def _numbered(names: Iterable[str]) -> dict[str, int]:
    return {name: number for number, name in enumerate(names)}


def _codes(prefix: str, codes: dict[str, int]) -> Iterator[str]:
    for name, code in codes.items():
        yield f"#define {prefix}_{name.upper()} {code}"


def _fields(prefix: str, fields: Iterable[Field]) -> Iterator[str]:
    for field in fields:
        bits = f"{field.high}, {field.low}, {int(field.signed)}"
        yield f"#define {prefix}_{field.name.upper()} {bits}"
