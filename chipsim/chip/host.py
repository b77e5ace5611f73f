"""The host processor of a chip: its ports, where frames enter and leave, its weight memory, speed.

This is the table ``[host]`` of chip files. Each port receives one flit and sends one per cycle.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, fields
from typing import Annotated, Any

import numpy as np
from msgspec import Meta

from chipsim.chip.places import core_ids
from chipsim.chip.tables import checked_table, entry_line, meanings
from chipsim.errors import ChipError

LATENCY, FLITS = 32, 1.0
"""Default latency (cycles) and bandwidth (flits per cycle and port) of the host's weight memory."""
MOST_LATENCY, LEAST_FLITS = 1 << 16, 0.001
OPERATIONS, LEAST_OPERATIONS, MOST_OPERATIONS = 1.0, 0.001, 1e6
"""Numbers that the host computes per cycle of the cores: default, and range."""


@dataclass(frozen=True, slots=True)
class ChipHost:
    """Ports and speed of the host; raises `ChipError` naming a value out of range.

    Without ports, the host has one at the first usable core.
    """

    ports: Annotated[
        tuple[int, ...],
        Meta(description="nodes with a port of the host: core ids, or [x, y] pairs"),
    ] = ()
    latency: Annotated[
        int,
        Meta(
            ge=1, le=MOST_LATENCY,
            description="cycles from a weight request to its first flit",
        ),
    ] = LATENCY  # fmt: skip
    flits: Annotated[
        float,
        Meta(ge=LEAST_FLITS, le=1, description="weight flits per cycle at each port"),
    ] = FLITS
    operations: Annotated[
        float,
        Meta(
            ge=LEAST_OPERATIONS, le=MOST_OPERATIONS,
            description="numbers that the host computes per cycle of the cores",
        ),
    ] = OPERATIONS  # fmt: skip

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
                f"host: flits is {flits!r}; give flits per cycle from {LEAST_FLITS} to 1: a port "
                "passes at most one"
            )
        operations = _plain(self.operations)
        if type(operations) not in (int, float) or not (
            LEAST_OPERATIONS <= operations <= MOST_OPERATIONS
        ):
            raise ChipError(
                f"host: operations is {operations!r}; give numbers per cycle from "
                f"{LEAST_OPERATIONS} to {MOST_OPERATIONS:,.0f}"
            )
        object.__setattr__(self, "operations", float(operations))
        object.__setattr__(self, "ports", ports)
        object.__setattr__(self, "latency", latency)
        object.__setattr__(self, "flits", float(flits))

    def to_json(self) -> dict[str, Any]:
        """Return all fields (`ports` only if listed); `host_from_table` is the inverse."""
        names = ("latency", "flits", "operations")
        found: dict[str, Any] = {name: getattr(self, name) for name in names}
        return ({"ports": list(self.ports)} if self.ports else {}) | found


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value


def host_from_table(values: object, width: int, height: int) -> ChipHost:
    """Return the host described by a table: parsed from a file or from `ChipHost.to_json`.

    width, height : size of the chip, in cores

    Raises `ChipError` naming the faulty key.
    """
    known = [field.name for field in fields(ChipHost)]
    given = dict(checked_table("host", values, known, " with ports, latency, flits or operations"))
    if "ports" in given:
        ports = core_ids(given["ports"], "host: ports", "host: port", width, height)
        if not ports:
            raise ChipError("host: ports is []; give one or more, or leave the key out")
        given["ports"] = ports
    return ChipHost(**given)


def host_lines(host: ChipHost | None, ports: tuple[int, ...], width: int) -> list[str]:
    """Return the table as lines of TOML; defaults are commented out for the user to change.

    ports : ports of the chip, core ids
    """
    pairs = ", ".join(f"[{core % width}, {core // width}]" for core in ports)
    values = {"ports": f"[{pairs}]"}
    shown = host or ChipHost()
    values |= {name: repr(getattr(shown, name)) for name in ("latency", "flits", "operations")}
    lines = ["", "[host]" if host else "# [host]  # for `compile`; defaults:"]
    for key, meaning in meanings(ChipHost).items():
        given = host is not None and (key != "ports" or bool(host.ports))
        lines.append(entry_line(f"{key} = {values[key]}", meaning, given))
    return lines
