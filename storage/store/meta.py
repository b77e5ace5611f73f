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
WEIGHTED_VERSION = 2
"""Of files with synaptic weights, or with attributes that are float64."""
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
    real : the values are float64, as they are; offset and unit are 0 and 1 then
    """

    unit: Unit = 1.0
    offset: Annotated[int, Meta(ge=-(2**63), le=0)] = 0
    labels: list[str] | None = None
    real: bool = False


@dataclass(frozen=True, slots=True)
class SynapticMeta:
    """What a file says of the signed weights of its synapses.

    self_loops : pairs of a neuron with itself; their weights are kept, their traffic is not
    negative, zeros : synapses (distinct pairs) of such a weight
    least, largest : of all weights; 0 if there are none
    largest_bytes : length of the longest member of weights, not compressed
    """

    self_loops: Whole
    negative: Whole
    zeros: Whole
    least: float
    largest: float
    largest_bytes: Whole


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
    synaptic: SynapticMeta | None = None

    def to_json(self) -> bytes:
        """What the file holds: version 1 where nothing asks for version 2."""
        data = asdict(self)
        if self.synaptic is None:
            del data["synaptic"]
        for about in data["attributes"].values():
            if not about["real"]:
                del about["real"]
        data["version"] = self.needed_version
        text = BytesIO()  # of millions of labels a list of all pieces would be the largest thing
        for piece in json.JSONEncoder(indent=1).iterencode(data):
            text.write(piece.encode())
        return text.getvalue()

    @property
    def needed_version(self) -> int:
        """The first version of the format that has a place for all of it."""
        real = any(about.real for about in self.attributes.values())
        return WEIGHTED_VERSION if real or self.synaptic is not None else VERSION

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
        if type(version) is not int or not VERSION <= version <= WEIGHTED_VERSION:
            raise CorruptError(
                f"{where}: format version {shown(version)}, this program reads {VERSION} and "
                f"{WEIGHTED_VERSION}; update it"
            )
        if version == VERSION:  # a key that it does not know
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
        """Raise `CorruptError` for totals that no network has."""
        pairs = self.neurons * (self.neurons - 1)
        if self.connections != 2 * self.synapses or self.synapses > pairs:
            raise CorruptError(
                f"{where}: {MEMBER}: {self.connections} connections, {self.synapses} synapses and "
                f"{self.neurons} neurons do not go with each other"
            )
        synaptic = self.synaptic
        if synaptic is not None and (
            synaptic.self_loops > min(self.neurons, self.self_loops)
            or synaptic.negative + synaptic.zeros > self.connections + synaptic.self_loops
        ):
            raise CorruptError(
                f"{where}: {MEMBER}: synaptic weights of {synaptic.self_loops} self-loops, "
                f"{synaptic.negative} negative and {synaptic.zeros} of zero do not go with "
                f"{self.synapses} synapses"
            )
        if self.total_weight * self.weight_unit > LARGEST_WEIGHT:
            raise CorruptError(
                f"{where}: {MEMBER}: the weights add up beyond {LARGEST_WEIGHT:g}; scale them down"
            )

    def block_bytes(self, vertices: int) -> tuple[int, int]:
        """The fewest and the most bytes that the records of so many vertices can take."""
        most = _NUMBER * vertices + _RECORD * self.connections
        return vertices, min(most, self.largest_block_bytes)

    def attribute_bytes(self, name: str, vertices: int) -> tuple[int, int]:
        """The fewest and the most bytes of an attribute of so many vertices."""
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
        raise ValueError(f"{shown(value)} does not go with its name")
    return found


_COUNTED = ("size", "rate", "id")  # attributes with a meaning in mapping, never float64
_ATTRIBUTE = {one.name for one in fields(AttributeMeta)}
