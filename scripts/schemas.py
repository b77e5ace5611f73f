"""Write docs/schemas/: JSON Schemas of mapper's files, generated from the types.

python scripts/schemas.py
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec

from chipsim.chip.machine import KEYS
from chipsim.chip.model import Chip
from chipsim.chip.npu_shape import NPU_SHAPES
from mapper.exports.tables_file import Tables
from mapper.limits.constraints import TABLES
from mapper.portfolio.portfolio_file import Portfolio
from mapper.reporting.compiled.report_file import CompiledReport
from mapper.results.mapping_ranges import RangedMapping
from mapper.results.report_file import Report
from mapper.spiking.artifacts.manifest_file import Manifest
from mapper.spiking.artifacts.report_file import SpikingReport
from storage.store.meta import NetworkMeta
from storage.typed import Open

FOLDER = Path(__file__).resolve().parents[1] / "docs" / "schemas"
PLACE = {"type": "array", "items": {"type": "integer", "minimum": 0}, "minItems": 2, "maxItems": 2}
CORE = {"anyOf": [{"type": "integer", "minimum": 0}, PLACE]}


def schemas() -> dict[str, str]:
    """Return the text of every schema by file name."""
    chip = _schema(Chip)
    about = chip["$defs"]["Chip"]
    about["required"].remove("name")  # the file name
    about["additionalProperties"] = False
    for name in ("unavailable", "broken_routers"):
        about["properties"][name]["items"] = CORE
    pair = {"type": "array", "items": CORE, "minItems": 2, "maxItems": 2}
    about["properties"]["broken_links"]["items"] = pair
    _flatten_machine(chip["$defs"])
    del about["properties"]["origin"]
    about["properties"] |= _origin(chip["$defs"])
    host = chip["$defs"]["ChipHost"]
    host["additionalProperties"] = False
    host["properties"]["ports"] |= {"items": CORE, "minItems": 1}
    chip["$defs"]["ChipTime"]["additionalProperties"] = False
    npu = chip["$defs"]["NpuShape"]
    npu["additionalProperties"] = False
    parameters = [{"required": [key for key in npu["properties"] if key != "name"]}]
    npu["anyOf"] = [{"required": ["preset"]}, *parameters]
    preset = {"description": "preset of the parameters that are left out", "enum": list(NPU_SHAPES)}
    npu["properties"] = {"preset": preset} | npu["properties"]
    tables = msgspec.defstruct(
        "Constraints", [(key, list[kind], []) for key, kind in TABLES.items()],
        forbid_unknown_fields=True,
    )  # fmt: skip
    return {
        f"{name}.schema.json": json.dumps(schema, indent=2) + "\n"
        for name, schema in {
            "report": _schema(Report),
            "compiled-report": _schema(CompiledReport),
            "spiking-manifest": _schema(Manifest),
            "spiking-report": _schema(SpikingReport),
            "mapping": _schema(RangedMapping),
            "portfolio": _schema(Portfolio),
            "meta": _schema(NetworkMeta),
            "chip": chip,
            "constraints": _schema(tables),
            "tables": _schema(Tables),
        }.items()
    }


def _origin(kinds: dict[str, Any]) -> dict[str, Any]:
    """Return the keys about a chip's origin; sources are texts by key, for tables in sub-tables."""
    found: dict[str, Any] = kinds.pop("Provenance")["properties"]
    del kinds["Source"]
    text = {"type": "string"}
    inner = {"type": "object", "additionalProperties": text}
    return found | {"sources": {"type": "object", "additionalProperties": {"anyOf": [text, inner]}}}


def _flatten_machine(kinds: dict[str, Any]) -> None:
    """Merge the keys of a machine into the chip, followed by its tables."""
    del kinds["Chip"]["properties"]["machine"]
    keys = kinds.pop("Machine")["properties"]
    cost = keys["link_cost"].pop("prefixItems")[0]
    about = keys["link_cost"].pop("description")
    keys["link_cost"] = {
        "description": about,
        "anyOf": [cost, keys["link_cost"] | {"items": cost}],
        "default": 1.0,
    }
    for name in ("columns", "rows"):
        keys[name] |= {"minItems": 1}
        del keys[name]["default"]
    kinds["Chip"]["properties"] |= {name: keys[name] for name in KEYS}
    kinds["Block"]["additionalProperties"] = False


def _schema(kind: Any) -> dict[str, Any]:
    """Return the schema of a type, including the other keys that its open objects allow."""
    schema = {"$schema": "https://json-schema.org/draft/2020-12/schema"}
    schema |= msgspec.json.schema(kind)
    _move_null(schema)
    for about in schema["$defs"].values():
        if "description" in about:  # keep only the first paragraph of the docstring
            first = about["description"].partition("\n\n")[0]
            about["description"] = " ".join(first.replace("``", "").split())
    for one in _open(Open):
        if one.__name__ in schema["$defs"]:
            schema["$defs"][one.__name__]["additionalProperties"] = msgspec.json.schema(one.REST)
    return schema


def _move_null(value: Any) -> None:
    """Move null to the end of all alternatives; msgspec below 0.22 begins some of them with it."""
    if isinstance(value, dict):
        if "anyOf" in value:
            value["anyOf"].sort(key=lambda one: one.get("type") == "null")
        for each in value.values():
            _move_null(each)
    elif isinstance(value, list):
        for each in value:
            _move_null(each)


def _open(kind: type[Open]) -> list[type[Open]]:
    return [kind, *(each for one in kind.__subclasses__() for each in _open(one))]


def main() -> None:
    FOLDER.mkdir(exist_ok=True)
    for name, text in schemas().items():
        (FOLDER / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
