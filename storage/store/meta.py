"""`meta.json` of a network file: metadata, validated on reading."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, fields
from io import BytesIO
from typing import Annotated, Any

from msgspec import Meta

from storage.errors import BadInputError, CorruptError
from storage.graph import MAX_VERTICES
from storage.jsontext import parse_json, shown
from storage.typed import Whole, convert

FORMAT = "mapper-network"
VERSION = 1
WEIGHTED_VERSION = 2
"""Version of files with synaptic weights or float64 attributes."""
MEMBER = "meta.json"
LARGEST_WEIGHT = 1e304
"""Limit of the total weight in real units: keeps sums over hops finite in float64."""
_RECORD = 31  # most bytes per connection: a flag and three numbers; the minimum is 2
_NUMBER = 10  # most bytes per number

Count = Annotated[int, Meta(ge=1, le=2**63 - 1)]
Unit = Annotated[float, Meta(gt=0)]


def most_meta_bytes(packed: int) -> int:
    """Return the size limit of `meta.json` for its compressed size `packed` in bytes.

    It holds a few names and numbers, or names of all neurons, which deflate 5 to 20 times.
    """
    return (4 << 20) + 64 * packed


@dataclass(frozen=True, slots=True)
class AttributeMeta:
    """Storage of a vertex attribute: value = (stored + offset) * unit.

    labels : names that the values index (for example populations), or None
    real : the values are unchanged float64; offset and unit are 0 and 1 then
    """

    unit: Unit = 1.0
    offset: Annotated[int, Meta(ge=-(2**63), le=0)] = 0
    labels: list[str] | None = None
    real: bool = False


@dataclass(frozen=True, slots=True)
class SynapticMeta:
    """Statistics of the signed weights of synapses.

    self_loops : number of self-loops; their weights are stored, their traffic is not
    negative, zeros : number of synapses (distinct pairs) with such a weight
    least, largest : of all weights; 0 if there are none
    largest_bytes : uncompressed length of the longest member of weights
    """

    self_loops: Whole
    negative: Whole
    zeros: Whole
    least: float
    largest: float
    largest_bytes: Whole


@dataclass(frozen=True, slots=True)
class NetworkMeta:
    """Metadata of a network, described field by field in docs/format.md."""

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
    synaptic: SynapticMeta | None = None

    def to_json(self) -> bytes:
        """Return the JSON text: version 1 unless version 2 is needed."""
        data = asdict(self)
        if self.synaptic is None:
            del data["synaptic"]
        for about in data["attributes"].values():
            if not about["real"]:
                del about["real"]
        data["version"] = self.needed_version
        text = BytesIO()  # a list of all pieces would be very large with millions of labels
        for piece in json.JSONEncoder(indent=1).iterencode(data):
            text.write(piece.encode())
        return text.getvalue()

    @property
    def needed_version(self) -> int:
        """First version of the format that supports this network."""
        real = any(about.real for about in self.attributes.values())
        return WEIGHTED_VERSION if real or self.synaptic is not None else VERSION

    @classmethod
    def from_json(cls, raw: bytes, where: str) -> NetworkMeta:
        """Parse and validate; raise `CorruptError` naming the wrong field."""
        try:
            data = parse_json(raw)
        except ValueError as error:
            raise CorruptError(f"{where}: {MEMBER} is not valid JSON ({error})") from error
        if not isinstance(data, dict) or data.get("format") != FORMAT:
            raise CorruptError(f"{where}: is a zip archive, but not a {FORMAT}")
        version = data.get("version")
        if type(version) is not int or not VERSION <= version <= WEIGHTED_VERSION:
            raise CorruptError(
                f"{where}: format version {shown(version)}, but this program reads {VERSION} and "
                f"{WEIGHTED_VERSION}; update it"
            )
        if version == VERSION:  # version 1 does not define this key
            data.pop("synaptic", None)
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
        """Raise `CorruptError` for impossible totals."""
        pairs = self.neurons * (self.neurons - 1)
        if self.connections != 2 * self.synapses or self.synapses > pairs:
            raise CorruptError(
                f"{where}: {MEMBER}: {self.connections} connections, {self.synapses} synapses and "
                f"{self.neurons} neurons are inconsistent"
            )
        synaptic = self.synaptic
        if synaptic is not None and (
            synaptic.self_loops > min(self.neurons, self.self_loops)
            or synaptic.negative + synaptic.zeros > self.connections + synaptic.self_loops
        ):
            raise CorruptError(
                f"{where}: {MEMBER}: synaptic weights of {synaptic.self_loops} self-loops, "
                f"{synaptic.negative} negative and {synaptic.zeros} zero are inconsistent with "
                f"{self.synapses} synapses"
            )
        try:
            self.checked()
        except BadInputError as error:
            raise CorruptError(f"{where}: {MEMBER}: {error}") from error

    def checked(self) -> NetworkMeta:
        """Return this; raise `BadInputError` if metrics, products of its weights, may overflow."""
        if self.total_weight * self.weight_unit > LARGEST_WEIGHT:
            raise BadInputError(f"the sum of weights exceeds {LARGEST_WEIGHT:g}; scale them down")
        return self

    def block_bytes(self, vertices: int) -> tuple[int, int]:
        """Return the fewest and the most bytes of the records of `vertices` vertices."""
        most = _NUMBER * vertices + _RECORD * self.connections
        return vertices, min(most, self.largest_block_bytes)

    def attribute_bytes(self, name: str, vertices: int) -> tuple[int, int]:
        """Return the fewest and the most bytes of an attribute of `vertices` vertices."""
        if self.attributes[name].real:
            return 8 * vertices, 8 * vertices
        return vertices, _NUMBER * vertices


def _attribute(name: str, value: Any) -> AttributeMeta:
    if isinstance(value, dict) and (unknown := value.keys() - _ATTRIBUTE):
        raise ValueError(f"has an unknown key {shown(min(unknown))}")
    found = convert(value, AttributeMeta)
    plain = found.unit == 1 and found.offset == 0
    good = plain or (found.labels is None and name != "size" and not found.real)
    good = good and not (found.real and (found.labels is not None or name in _COUNTED))
    if not good or (found.offset and name == "rate") or "/" in name:
        raise ValueError(f"{shown(value)} is invalid for this name")
    return found


_COUNTED = ("size", "rate", "id")  # attributes with a meaning in mapping, never float64
_ATTRIBUTE = {one.name for one in fields(AttributeMeta)}
