"""`meta.json` of a network file: what the file holds, checked on reading."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass, field
from typing import Any

from storage.errors import CorruptError
from storage.graph import MAX_VERTICES

FORMAT = "mapper-network"
VERSION = 1
MEMBER = "meta.json"


@dataclass(frozen=True, slots=True)
class AttributeMeta:
    """How the values of a vertex attribute are stored: value = (stored + offset) * unit.

    labels : names that the values count through (population names), or None
    """

    unit: float = 1.0
    offset: int = 0
    labels: list[str] | None = None


@dataclass(frozen=True, slots=True)
class NetworkMeta:
    """Everything that describes a network but its records; field by field in docs/format.md."""

    neurons: int
    synapses: int
    synapses_read: int
    self_loops: int
    repeated: int
    connections: int
    undirected: bool
    weights_are_rates: bool
    weight_unit: float
    weights_clamped: int
    block_size: int
    attribute_block_size: int
    default_size: int
    default_weight: int
    total_size: int
    total_weight: int
    largest_block_bytes: int
    attributes: dict[str, AttributeMeta] = field(default_factory=dict)
    provenance: dict[str, Any] = field(default_factory=dict)
    format: str = FORMAT
    version: int = VERSION

    def to_json(self) -> bytes:
        return json.dumps(asdict(self), indent=1).encode()

    @classmethod
    def from_json(cls, raw: bytes, where: str) -> NetworkMeta:
        """Parse and check; raises `CorruptError` naming the field that is wrong."""
        try:
            data = json.loads(raw)
        except ValueError as error:
            raise CorruptError(f"{where}: {MEMBER} is not JSON ({error})") from error
        if not isinstance(data, dict) or data.get("format") != FORMAT:
            raise CorruptError(f"{where}: a zip archive, but not a {FORMAT}")
        if data.get("version") != VERSION:
            raise CorruptError(
                f"{where}: format version {data.get('version')}, this program reads {VERSION}; "
                "update it"
            )
        fields: dict[str, Any] = {}
        for name, kind in _KINDS.items():
            value: Any = data.get(name)
            if kind is float and isinstance(value, int) and not isinstance(value, bool):
                value = float(value)
            wrong = not isinstance(value, kind) or (kind is int and isinstance(value, bool))
            if wrong or (kind in _LIMITS and not 0 <= value < _LIMITS[kind]):
                raise CorruptError(f"{where}: {MEMBER}: {name} is {value!r}")
            fields[name] = value
        fields["attributes"] = {
            name: _attribute(name, value, where) for name, value in fields["attributes"].items()
        }
        meta = cls(**fields)
        if (
            not 0 < meta.neurons <= MAX_VERTICES
            or min(meta.block_size, meta.attribute_block_size) < 1
        ):
            raise CorruptError(f"{where}: {MEMBER}: impossible vertex count or block size")
        if not meta.weight_unit > 0:
            raise CorruptError(f"{where}: {MEMBER}: weight_unit is {meta.weight_unit}")
        return meta


_LIMITS: dict[type, float] = {int: 2**63, float: math.inf}
_KINDS: dict[str, type] = {
    **dict.fromkeys(
        (
            "neurons",
            "synapses",
            "synapses_read",
            "self_loops",
            "repeated",
            "connections",
            "weights_clamped",
            "block_size",
            "attribute_block_size",
            "default_size",
            "default_weight",
            "total_size",
            "total_weight",
            "largest_block_bytes",
        ),
        int,
    ),
    "undirected": bool,
    "weights_are_rates": bool,
    "weight_unit": float,
    "attributes": dict,
    "provenance": dict,
}


def _attribute(name: str, value: Any, where: str) -> AttributeMeta:
    try:
        parsed = AttributeMeta(**value)
        labels = [] if parsed.labels is None else parsed.labels
        good = 0 < parsed.unit < math.inf and isinstance(parsed.offset, int)
        good = good and -(2**63) <= parsed.offset <= 0 and isinstance(labels, list)
        good = good and all(isinstance(label, str) for label in labels)
    except TypeError:
        good = False
    if not good:
        raise CorruptError(f"{where}: {MEMBER}: attribute {name!r} is {value!r}")
    return parsed
