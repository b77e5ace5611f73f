"""The file of macro records of a core, `macros.bin`, and its contents as text.

Sections: INFO (JSON: shape and coordinates of the core; layer ranges of functions; pairing of
products and handling of the bias; memories that are reloaded while the program runs; static weight
words, vectors of feature maps, runs of the borders, first word in the host's memory, links with
other cores), NAME (JSON: names for messages), REC records of 64 bytes, POOL words of 4 bytes, WM
weight words of rows x columns bytes, FM border vectors.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from itertools import groupby
from typing import Any

import numpy as np

from chipsim.chip.npu_shape import NpuShape
from hw.npu.shape import PARAMETER_LANES
from mapper.compiler.codegen.builder import Choices, MemoryPlan, WeightPlan
from mapper.compiler.codegen.macros.decode import Record, decode_layers, records_of
from mapper.compiler.codegen.macros.encode import Encoded, Layers, encode_layers
from mapper.compiler.codegen.macros.layout import (
    FLAGS,
    LAYOUT,
    NOWHERE,
    NUMBERS,
    OPS,
    RECORD_BYTES,
    decode_record,
)
from mapper.compiler.codegen.macros.pool import Sort
from mapper.compiler.program.links import links_from_json, links_to_json
from mapper.compiler.program.presets import Preset
from mapper.compiler.program.sections import FileType, pack_sections, split_files, unpack_sections
from mapper.errors import MapperError
from storage.jsontext import parse_json

MAGIC = b"NPUMACR"
MACROS = FileType(
    MAGIC, 1, "file of macro records", "macros.bin", ("INFO", "NAME", "REC", "POOL", "WM", "FM")
)


def pack_layers(layers: Layers) -> bytes:
    """Return the file of layers; raises `MapperError` that names a layer."""
    return _pack(encode_layers(layers), _info(layers), layers.borders.data)


def _info(layers: Layers) -> dict[str, Any]:
    return {
        "shape": asdict(layers.shape),
        "core": list(layers.core),
        "functions": [list(one) for one in layers.functions],
        "bias": layers.options.bias,
        "dual": layers.options.dual,
        "reloaded": sorted(layers.memory.reloaded),
        "static_words": layers.memory.weights.static,
        "map_vectors": layers.memory.stop,
        "preset": layers.borders.runs,
        "host_first": layers.memory.host_first,
        "links": links_to_json(layers.links),
        **({"order": _runs(layers.order)} if layers.order else {}),
    }


def _runs(order: Sequence[int]) -> list[list[int]]:
    """Return the layers of tiles as pairs of layer and number of tiles."""
    return [[layer, len(list(tiles))] for layer, tiles in groupby(order)]


def _pack(encoded: Encoded, info: dict[str, Any], borders: bytes) -> bytes:
    return pack_sections(
        MACROS,
        {
            "INFO": json.dumps(info, sort_keys=True).encode(),
            "NAME": json.dumps(encoded.names).encode(),
            "REC": encoded.records,
            "POOL": encoded.pool.astype("<i4").tobytes(),
            "WM": encoded.words.tobytes(),
            "FM": borders,
        },
    )


def read_encoded(data: bytes, where: str) -> tuple[Encoded, dict[str, Any], bytes]:
    """Read records, pool, weight words and names of a file; return these, INFO and the borders.

    Raises `MapperError` if the file is of another type, cut short or damaged.
    """
    parts = unpack_sections(MACROS, data, where)
    try:
        info = parse_json(parts["INFO"])
        names = parse_json(parts["NAME"])
        rows, columns = int(info["shape"]["rows"]), int(info["shape"]["columns"])
        encoded = Encoded(
            parts["REC"],
            np.frombuffer(parts["POOL"], "<i4").astype(np.int32),
            np.frombuffer(parts["WM"], np.int8).reshape(-1, rows, columns),
            [str(name) for name in names],
        )
    except (ArithmeticError, KeyError, TypeError, ValueError, RecursionError) as error:
        raise MapperError(f"{where}: sections do not match the shape; compile again") from error
    return encoded, info, parts["FM"]


@contextmanager
def _as_invalid(where: str) -> Iterator[None]:
    """Report values of INFO that are missing or of another type in one line."""
    try:
        yield
    except (LookupError, TypeError, ValueError, ArithmeticError) as error:
        raise MapperError(f"{where}: INFO is not valid for macro records; compile again") from error


def unpack_layers(data: bytes, where: str) -> Layers:
    """Read layers from a file's bytes; where : file name for errors.

    Raises `MapperError` if the file is of another type, cut short, damaged or inconsistent.
    """
    encoded, info, borders = read_encoded(data, where)
    with _as_invalid(where):
        shape = NpuShape(**info["shape"])
        functions = [(int(first), int(stop)) for first, stop in info["functions"]]
        preset = Preset([(int(first), int(count)) for first, count in info["preset"]], borders)
        options = Choices(bias=info["bias"], dual=info["dual"])
        static, stop = int(info["static_words"]), int(info["map_vectors"])
        reloaded = frozenset(str(name) for name in info["reloaded"])
        x, y = map(int, info["core"])
        host_first, links = int(info["host_first"]), links_from_json(info["links"])
        order = tuple(
            int(layer) for layer, count in info.get("order", []) for _ in range(int(count))
        )
    found = decode_layers(encoded, shape, where)
    if [0, *(end for _, end in functions)] != [*(one for one, _ in functions), len(found.macros)]:
        raise MapperError(f"{where}: functions do not match the layers; compile the model again")
    memory = MemoryPlan(
        WeightPlan(found.dynamic, static), reloaded, stop, host_first, found.targets
    )
    return Layers(
        shape, found.macros, found.cuts, functions, found.regions, options, memory, preset, (x, y),
        links, order,
    )  # fmt: skip


def record_count(data: bytes, where: str) -> int:
    """Return the number of records in a file or in several concatenated files."""
    return sum(
        len(read_encoded(part, where)[0].records) // RECORD_BYTES
        for part in split_files(data, where)
    )


def require_canonical(data: bytes, layers: Layers, where: str) -> None:
    """Raise `MapperError` that names record and field if a file contains unused or contradictory
    data: encoding its layers again must reproduce it."""
    again = pack_layers(layers)
    if again == data:
        return
    mine, made = read_encoded(data, where)[0].records, read_encoded(again, where)[0].records
    for at in range(0, min(len(mine), len(made)), RECORD_BYTES):
        here = f"{where}: macro record {at // RECORD_BYTES}"
        said, wanted = (decode_record(one[at : at + RECORD_BYTES], here) for one in (mine, made))
        for name in NUMBERS:
            if said[name] != wanted[name]:
                raise MapperError(
                    f"{here}: {name} is {said[name]:,}, its other fields imply {wanted[name]:,}; "
                    "compile the model again"
                )
    raise MapperError(f"{where}: does not match its records; compile the model again")


def listing_text(data: bytes, where: str) -> str:
    """Return the records of a file as text, by core; fields that are 0 or NOWHERE are omitted.

    where : file name for errors; raises `MapperError` if it is damaged
    """
    parts = split_files(data, where)
    with _as_invalid(where):
        texts = [_listing(part, where) for part in parts]
        if len(parts) == 1:
            return texts[0]
        cores = [read_encoded(part, where)[1]["core"] for part in parts]
        return "\n".join(
            f"# core ({x}, {y})\n{text}" for (x, y), text in zip(cores, texts, strict=True)
        )


def _listing(data: bytes, where: str) -> str:
    encoded, info, _ = read_encoded(data, where)
    begins = {first: number for number, (first, _) in enumerate(info["functions"])}
    lines, layer = [], -1
    for record in records_of(encoded, where):
        if record.values["layer"] != layer:
            layer = record.values["layer"]
            if layer in begins:
                lines.append(f"# function {begins[layer]}")
            name = record.items.get(Sort.NAME)
            said = "" if name is None else f" {encoded.names[name[0]]}"
            lines.append(f"# layer {layer}{said}")
        lines.append(" ".join([f"{record.op:5}", *_fields(record)]))
    return "\n".join([*lines, ""])


def _fields(record: Record) -> Iterator[str]:
    """Yield the flags by name, then the fields."""
    flags = [name for name in FLAGS if record.flag(name)]
    if flags:
        yield "flags=" + "+".join(flags)
    for field in LAYOUT[2:]:
        value = record.values[field.name]
        if value and not (field.form == "I" and value == NOWHERE):
            yield f"{field.name}={value}"


def contents(data: bytes, where: str) -> dict[str, Any]:
    """Return counts of the contents of a file of records."""
    parts = [read_encoded(part, where) for part in split_files(data, where)]
    ops = [record.op for encoded, _, _ in parts for record in records_of(encoded, where)]
    infos = [info for _, info, _ in parts]
    with _as_invalid(where):
        return {
            "cores": [info["core"] for info in infos],
            "npu": infos[0]["shape"].get("name"),
            "records": len(ops),
            "layers": sum(info["functions"][-1][-1] for info in infos if info["functions"]),
            "functions": len(infos[0]["functions"]),
            "pool_words": sum(len(encoded.pool) for encoded, _, _ in parts) // PARAMETER_LANES,
            "weight_words": sum(len(encoded.words) for encoded, _, _ in parts),
            "ops": {op: ops.count(op) for op in OPS if op in ops},
        }
