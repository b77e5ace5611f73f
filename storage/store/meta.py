"""`meta.json` of a network file: what the file holds, checked on reading."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass, field, replace
from io import BytesIO
from typing import Any

from storage.errors import CorruptError
from storage.graph import MAX_VERTICES
from storage.jsontext import parse_json, shown

FORMAT = "mapper-network"
VERSION = 1
MEMBER = "meta.json"
LARGEST_WEIGHT = 1e304
"""Of all synapses together, in real units: sums over hops, too, are then numbers of a float64."""
_RECORD = 31  # bytes of a connection at most: a flag and three numbers; two at least
_NUMBER = 10  # bytes of a number at most


def most_meta_bytes(packed: int) -> int:
    """How long `meta.json` may be that takes `packed` bytes when it is deflated.

    A few names and numbers, or names of all neurons, which deflate packs 5 to 20 times smaller.
    """
    return (4 << 20) + 64 * packed


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
        text = BytesIO()  # of millions of labels a list of all pieces would be the largest thing
        for piece in json.JSONEncoder(indent=1).iterencode(asdict(self)):
            text.write(piece.encode())
        return text.getvalue()

    @classmethod
    def from_json(cls, raw: bytes, where: str) -> NetworkMeta:
        """Parse and check; raises `CorruptError` naming the field that is wrong."""
        try:
            data = parse_json(raw)
        except ValueError as error:
            raise CorruptError(f"{where}: {MEMBER} is not sound JSON ({error})") from error
        if not isinstance(data, dict) or data.get("format") != FORMAT:
            raise CorruptError(f"{where}: a zip archive, but not a {FORMAT}")
        version = data.get("version")
        if type(version) is not int or version != VERSION:
            raise CorruptError(
                f"{where}: format version {shown(version)}, this program reads {VERSION}; update it"
            )
        fields: dict[str, Any] = {}
        for name, kind in _KINDS.items():
            value: Any = data.get(name)
            if kind is float and isinstance(value, int) and not isinstance(value, bool):
                value = float(value)
            wrong = not isinstance(value, kind) or (kind is int and isinstance(value, bool))
            if wrong or (kind in _LIMITS and not 0 <= value < _LIMITS[kind]):
                raise CorruptError(f"{where}: {MEMBER}: {name} is {shown(value)}")
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
        meta._check_sums(where)
        return meta

    def _check_sums(self, where: str) -> None:
        """Raise `CorruptError` for totals that no network has."""
        pairs = self.neurons * (self.neurons - 1)
        if self.connections != 2 * self.synapses or self.synapses > pairs:
            raise CorruptError(
                f"{where}: {MEMBER}: {self.connections} connections, {self.synapses} synapses and "
                f"{self.neurons} neurons do not go with each other"
            )
        if self.total_weight * self.weight_unit > LARGEST_WEIGHT:
            raise CorruptError(
                f"{where}: {MEMBER}: the weights add up beyond {LARGEST_WEIGHT:g}; scale them down"
            )

    def block_bytes(self, vertices: int) -> tuple[int, int]:
        """The fewest and the most bytes that the records of so many vertices can take."""
        most = _NUMBER * vertices + _RECORD * self.connections
        return vertices, min(most, self.largest_block_bytes)

    @staticmethod
    def attribute_bytes(vertices: int) -> tuple[int, int]:
        """The fewest and the most bytes of an attribute of so many vertices."""
        return vertices, _NUMBER * vertices


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
        good = type(parsed.unit) in (int, float) and 0 < parsed.unit < math.inf
        good = good and type(parsed.offset) is int and -(2**63) <= parsed.offset <= 0
        good = good and isinstance(labels, list) and all(type(label) is str for label in labels)
        plain = parsed.unit == 1 and parsed.offset == 0
        good = good and (plain or (parsed.labels is None and name != "size"))
        good = good and (parsed.offset == 0 or name != "rate") and "/" not in name
    except TypeError:
        good = False
    if not good:
        raise CorruptError(f"{where}: {MEMBER}: attribute {shown(name)} is {shown(value)}")
    return replace(parsed, unit=float(parsed.unit))
