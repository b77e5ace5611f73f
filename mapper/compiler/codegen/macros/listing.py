"""Macro records as text: one line per record, and a heading per layer."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from hw.npu.shape import PARAMETER_LANES
from mapper.compiler.codegen.macros.decode import Record, records_of
from mapper.compiler.codegen.macros.file import read_encoded
from mapper.compiler.codegen.macros.layout import FLAGS, LAYOUT, NOWHERE, OPS
from mapper.compiler.codegen.macros.pool import Sort
from mapper.compiler.program.sections import split_files


def listing_text(data: bytes, where: str) -> str:
    """Return the records of a file as text, by core; fields that are 0 or NOWHERE are omitted.

    where : file name for errors; raises `MapperError` if it is damaged
    """
    parts = split_files(data, where)
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
