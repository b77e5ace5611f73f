"""Energies of core operations: the table ``[energy]`` of chip files.

Energies of routers and links are top-level keys of the chip. Unknown energies are left out, and the
total energy of a mapping is then reported as incomplete.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, fields
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from chipsim.chip.tables import annotations_of, checked_table, entry_line, meanings
from chipsim.errors import ChipError

_Amount = Annotated[float, Meta(ge=0, le=sys.float_info.max)]


@dataclass(frozen=True, slots=True)
class ChipEnergy:
    """Energies of core operations; raises `ChipError` naming a value out of range."""

    event: Annotated[
        _Amount | None,
        Meta(description="energy per synaptic event (a spike that reaches a synapse)"),
    ] = None
    neuron: Annotated[
        _Amount | None, Meta(description="energy per neuron update, one per tick")
    ] = None
    packet_out: Annotated[_Amount | None, Meta(description="energy per packet sent by a core")] = (
        None
    )
    packet_in: Annotated[
        _Amount | None, Meta(description="energy per packet received by a core, without its events")
    ] = None
    unit: Annotated[Literal["relative", "pJ"], Meta(description="unit of these energies")] = "pJ"

    def __post_init__(self) -> None:
        for name, kind in annotations_of(ChipEnergy).items():
            value = getattr(self, name)
            asked = '"pJ" or "relative"' if name == "unit" else "a finite number, 0 or more"
            try:
                object.__setattr__(self, name, msgspec.convert(value, kind))
            except msgspec.ValidationError as error:
                raise ChipError(f"energy: {name} is {value!r}; give {asked}") from error
        if not any(getattr(self, name) is not None for name in PARTS):
            raise ChipError(f"energy: the table is empty; give one or more of {', '.join(PARTS)}")

    def to_json(self) -> dict[str, Any]:
        """Return the known values; `energy_from_table` is the inverse."""
        found = {field.name: getattr(self, field.name) for field in fields(self)}
        return {name: value for name, value in found.items() if value is not None}


PARTS = ("event", "neuron", "packet_out", "packet_in")


def energy_from_table(values: object) -> ChipEnergy:
    """Return the energies described by a table: parsed from a file or from `ChipEnergy.to_json`.

    Raises `ChipError` naming the faulty key.
    """
    known = [field.name for field in fields(ChipEnergy)]
    return ChipEnergy(**checked_table("energy", values, known, ", such as event = 23.6"))


def energy_lines(energy: ChipEnergy | None) -> list[str]:
    """Return the table as lines of TOML, with unknown values commented out."""
    shown = {} if energy is None else energy.to_json()
    lines = ["", "[energy]" if energy else "# [energy]  # core energy: unknown"]
    for key, meaning in meanings(ChipEnergy).items():
        value = shown.get(key, "...")
        entry = f'{key} = "{value}"' if key == "unit" else f"{key} = {value}"
        lines.append(entry_line(entry, meaning, key in shown))
    return lines
