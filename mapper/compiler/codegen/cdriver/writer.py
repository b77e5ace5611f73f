"""Programs and the host's steps as C sources: program.h, and the driver that goes with it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from chipsim.chip.npu_shape import NpuShape
from chipsim.npu.timing import vectors_of_entry
from mapper.compiler.codegen.cdriver.layout import layout_header
from mapper.compiler.codegen.image import Image
from mapper.errors import MapperError
from storage.files import write_file

SOURCES = ("driver.c", "driver.h", "main.c")
KINDS = ("QUANTISE", "WINDOWS", "WRITE", "RUN", "READ")
LINE = 24  # numbers in a line

CoreStep = Mapping[str, Any]
"""A step of `main.c`: its kind, one of `KINDS`, and fields of `struct step` in program.h."""


class Sources(NamedTuple):
    """What is made into C.

    images : programs by core, (x, y)
    begins : first instruction of each function, by core
    host_weights : words that WSTREAM asks for, int8, shape (words, rows, columns)
    steps : what main.c does for a frame; none leaves only the interpreter
    values : numbers of the model's input, of a frame
    """

    shape: NpuShape
    images: Mapping[tuple[int, int], Image]
    begins: Mapping[tuple[int, int], Sequence[int]]
    host_weights: NDArray[np.int8]
    steps: Sequence[CoreStep] = ()
    values: int = 1


def write_driver(folder: Path, sources: Sources) -> None:
    """Write program.h, isa.h and the sources of the driver into a folder.

    Raises `MapperError` if cores are not as wide as they are high.
    """
    shape = sources.shape
    if shape.rows != shape.columns:
        raise MapperError(
            f"npu {shape.name}: {shape.rows} rows and {shape.columns} columns; the driver in C "
            "runs programs of cores that have as many of both"
        )
    folder.mkdir(parents=True, exist_ok=True)
    write_file(folder / "isa.h", layout_header().encode())
    write_file(folder / "program.h", program_header(sources).encode())
    for name in SOURCES:
        write_file(folder / name, (files(__package__) / name).read_bytes())


def program_header(sources: Sources) -> str:
    """program.h: sizes, programs and memories of all cores, and the host's steps.

    main.c alone defines PROGRAM_STEPS, driver.c PROGRAM_CORES, so that each array is compiled once.
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
        "/* Programs of NPU cores, what their memories hold, and the host's work around them. */",
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
/* A core: its program, and what its memories hold before a frame; the rest of them is 0.
 * preset: first address and number of vectors of each run of maps. */
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

/* What the host does: quantise the input into a buffer, make windows of one buffer in another,
 * write a buffer to a map, run a function, read a map. strides: of rows, columns and channels of
 * the input in values, of rows and columns of a map in vectors. high: vectors from low to high
 * bytes of 16 bits. planes: a map lies channel by channel, four of them in as many banks. */
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
    """Programs and memories; an empty one has one number, since C knows no empty arrays."""
    entries = []
    for number, (place, image) in enumerate(sources.images.items()):
        begins = ", ".join(map(str, sources.begins[place]))
        words = np.frombuffer(image.instructions, "<u4")
        yield f"static const uint32_t instructions_{number}[][4] = {{"
        yield from (
            f"{{{', '.join(f'{word:#x}u' for word in row)}}}," for row in words.reshape(-1, 4)
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
        counts = (
            len(image.runs), len(image.weights), len(image.parameters),
            len(image.micro_ops) // 8, len(image.headers) // 8,
        )  # fmt: skip
        entries.append(
            f"    {{{place[0]}, {place[1]}, instructions_{number}, begin_{number}, "
            f"preset_{number}, {names}, {', '.join(map(str, counts))}}},"
        )
    yield "static const struct core cores[CORES] = {"
    yield from entries
    yield "};"
    shape = sources.shape
    words = sources.host_weights.reshape(-1, shape.rows * shape.columns)
    if not len(words):
        words = np.zeros((1, shape.rows * shape.columns), np.int8)
    yield "static const int8_t host_weights[HOST_WORDS][ROWS * COLUMNS] = {"
    yield from (f"{{{', '.join(map(str, word))}}}," for word in words.tolist())
    yield "};"


def _numbers(declared: str, data: NDArray[Any]) -> Iterable[str]:
    """An array of C; the least int32 has no constant of its own there."""
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
                text = f"{value.hex()}f"  # exactly
            elif isinstance(value, Sequence):
                text = f"{{{', '.join(map(str, value))}}}"
            else:
                text = str(value)
            fields.append(f".{name} = {text}")
        yield f"    {{{', '.join(fields)}}},"
    yield "};"


def _sent(sources: Sources) -> int:
    """Vectors that cores send to the host in a frame, at most."""
    from hw.npu.isa import decode

    total = 0
    dual = sources.shape.multiplier == "dual"
    for place, image in sources.images.items():
        for at in range(0, len(image.instructions), 16):
            one = decode(image.instructions[at : at + 16], f"core {place}: offset {at}")
            if one.op == "STORE" and one.kind in ("HOST", "PARTIAL_HOST"):
                f = one.fields
                each = 1 + dual if one.kind == "HOST" else vectors_of_entry(sources.shape)
                total += f["c_size"] * f["x_size"] * f["y_size"] * (1 + 3 * f["up"]) * each
    return total
