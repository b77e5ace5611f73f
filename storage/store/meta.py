"""`meta.json` of a network file: what the file holds, checked on reading."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, fields
from io import BytesIO
from typing import Annotated, Any

from msgspec import Meta

from storage.errors import CorruptError
from storage.graph import MAX_VERTICES
from storage.jsontext import parse_json, shown
from storage.typed import Whole, convert

FORMAT = "mapper-network"
VERSION = 1
MEMBER = "meta.json"
LARGEST_WEIGHT = 1e304
"""Of all synapses together, in real units: sums over hops, too, are then numbers of a float64."""
_RECORD = 31  # bytes of a connection at most: a flag and three numbers; two at least
_NUMBER = 10  # bytes of a number at most

Count = Annotated[int, Meta(ge=1, le=2**63 - 1)]
Unit = Annotated[float, Meta(gt=0)]


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

    unit: Unit = 1.0
    offset: Annotated[int, Meta(ge=-(2**63), le=0)] = 0
    labels: list[str] | None = None


@dataclass(frozen=True, slots=True)
class NetworkMeta:
    """Everything that describes a network but its records; field by field in docs/format.md."""

    neurons: Annotated[int, Meta(ge=1, le=MAX_VERTICES)]
    synapses: Whole
    synapses_read: Whole
    self_loops: Whole
    repeated: Whole
    connections: Whole
    undirected: bool
    weights_are_rates: bool
    weight_unit: Unit
    weights_clamped: Whole
    block_size: Count
    attribute_block_size: Count
    default_size: Whole
    default_weight: Whole
    total_size: Whole
    total_weight: Whole
    largest_block_bytes: Whole
    attributes: dict[str, AttributeMeta]
    provenance: dict[str, Any]
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
        attributes = data.get("attributes")
        place = MEMBER
        try:
            meta = convert(data | {"attributes": {}} if isinstance(attributes, dict) else data, cls)
            for name, value in data["attributes"].items():
                place = f"{MEMBER}: attribute {shown(name)}"
                meta.attributes[name] = _attribute(name, value)
        except ValueError as error:
            raise CorruptError(f"{where}: {place}: {error}") from error
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


def _attribute(name: str, value: Any) -> AttributeMeta:
    if isinstance(value, dict) and (unknown := value.keys() - _ATTRIBUTE):
        raise ValueError(f"has an unknown key {shown(min(unknown))}")
    found = convert(value, AttributeMeta)
    plain = found.unit == 1 and found.offset == 0
    good = plain or (found.labels is None and name != "size")
    if not good or (found.offset and name == "rate") or "/" in name:
        raise ValueError(f"{shown(value)} does not go with its name")
    return found


_ATTRIBUTE = {one.name for one in fields(AttributeMeta)}
