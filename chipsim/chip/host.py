"""The host of a chip: the nodes where it sends and takes frames, and its memory of weights.

The table ``[host]`` of chip files. Each port takes a flit in a cycle, and gives one.
"""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cache
from typing import Annotated, Any, get_args, get_type_hints

import numpy as np
from msgspec import Meta

from chipsim.chip.places import core_ids
from chipsim.errors import ChipError

LATENCY, FLITS = 32, 1.0
"""Of the host's memory, if nobody says otherwise."""
MOST_LATENCY, LEAST_FLITS = 1 << 16, 0.001


@dataclass(frozen=True, slots=True)
class ChipHost:
    """Where the host is, and how fast; raises `ChipError` that names a value out of range.

    No ports are one at the first core that may be used.
    """

    ports: Annotated[
        tuple[int, ...],
        Meta(description="nodes with a port of the host: core ids, or [x, y] pairs"),
    ] = ()
    latency: Annotated[
        int,
        Meta(
            ge=1, le=MOST_LATENCY,
            description="cycles from a request for weights until the first flit",
        ),
    ] = LATENCY  # fmt: skip
    flits: Annotated[
        float,
        Meta(ge=LEAST_FLITS, le=1, description="flits of weights in a cycle, at each port"),
    ] = FLITS

    def __post_init__(self) -> None:
        ports = tuple(_plain(port) for port in self.ports)
        for port in ports:
            if type(port) is not int:
                raise ChipError(f"host: ports holds {port!r}; give a core id or an [x, y] pair")
        if len(set(ports)) < len(ports):
            (twice, _), *_ = Counter(ports).most_common(1)
            raise ChipError(f"host: port {twice} is listed twice; give each node once")
        latency, flits = (_plain(getattr(self, name)) for name in ("latency", "flits"))
        if type(latency) is not int or not 1 <= latency <= MOST_LATENCY:
            raise ChipError(
                f"host: latency is {latency!r}; give a whole number of cycles from 1 to "
                f"{MOST_LATENCY}"
            )
        if type(flits) not in (int, float) or not LEAST_FLITS <= flits <= 1:
            raise ChipError(
                f"host: flits is {flits!r}; give flits in a cycle from {LEAST_FLITS} to 1: a port "
                "passes one"
            )
        object.__setattr__(self, "ports", ports)
        object.__setattr__(self, "latency", latency)
        object.__setattr__(self, "flits", float(flits))

    def to_json(self) -> dict[str, Any]:
        """All fields but ports that are not listed; `host_from_table` undoes it."""
        found: dict[str, Any] = {"latency": self.latency, "flits": self.flits}
        return ({"ports": list(self.ports)} if self.ports else {}) | found


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value


@cache
def host_meanings() -> dict[str, str]:
    """What each key of the table is."""
    kinds = get_type_hints(ChipHost, include_extras=True)
    return {field: get_args(kind)[1].description for field, kind in kinds.items()}


def host_from_table(values: object, width: int, height: int) -> ChipHost:
    """The host that a table describes, of a chip so large: a parsed file's, or what
    `ChipHost.to_json` gave.

    Raises `ChipError` that names the key.
    """
    if not isinstance(values, Mapping):
        raise ChipError(f"host is {values!r}; give a table [host] with ports, latency or flits")
    known = [field.name for field in fields(ChipHost)]
    for key in sorted(set(values) - set(known)):
        alike = difflib.get_close_matches(key, known, 1)
        meant = f"did you mean {alike[0]!r}? " if alike else ""
        raise ChipError(f"host: unknown key {key!r}; {meant}known are {', '.join(known)}")
    given = dict(values)
    if "ports" in given:
        ports = core_ids(given["ports"], "host: ports", "host: port", width, height)
        if not ports:
            raise ChipError("host: ports is []; give one or more, or leave the key out")
        given["ports"] = ports
    return ChipHost(**given)


def host_lines(host: ChipHost | None, ports: tuple[int, ...], width: int) -> list[str]:
    """The table as TOML; what is not given stands there as a comment, to be changed.

    ports : that the chip has
    """
    pairs = ", ".join(f"[{core % width}, {core // width}]" for core in ports)
    values = {"ports": f"[{pairs}]"}
    shown = host or ChipHost()
    values |= {"latency": str(shown.latency), "flits": repr(shown.flits)}
    lines = ["", "[host]" if host else "# [host]  # for `compile`, as it is without the table:"]
    for key, meaning in host_meanings().items():
        given = host is not None and (key != "ports" or host.ports)
        lines.append(f"{'' if given else '# '}{f'{key} = {values[key]}':<26}  # {meaning}")
    return lines
