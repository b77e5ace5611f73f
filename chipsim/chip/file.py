"""Write a chip as a TOML file that `parse_chip` reads, with a comment on every key."""

from __future__ import annotations

import textwrap

from chipsim.chip.energy import energy_lines
from chipsim.chip.host import host_lines
from chipsim.chip.machine import machine_lines
from chipsim.chip.model import TABLES, Chip
from chipsim.chip.npu_table import npu_lines
from chipsim.chip.provenance import key_lines, source_lines
from chipsim.chip.tables import meanings
from chipsim.chip.time import time_lines
from chipsim.chip.toml_text import toml_string
from chipsim.chip.unlike import FIELD, core_limit_lines

_WIDTH = 96
_LISTED = {"unavailable": 12, "broken_routers": 12, "broken_links": 4}  # cores, pairs per line


def chip_toml(chip: Chip) -> str:
    """Return the text of the file of a chip; reading it gives an equal chip.

    Limits that the chip does not have are written as comments for the user to fill in.
    """
    lines = _comment(
        f"The chip {toml_string(chip.name)}, for --chip FILE.toml; see `mapper docs chips`. "
        "Core id = y * width + x, from 0."
    )
    lines += key_lines(chip.origin)
    for field, meaning in meanings(Chip).items():
        if field in (*TABLES, FIELD, "origin"):
            continue
        unit = unit_of(chip, field)
        text = meaning + (f", {unit}" if unit and unit not in (field, "cores") else "")
        lines += ["", *_comment(text)]
        lines += _entry(field, getattr(chip, field), chip.width)
    keys, tables = machine_lines(chip.machine)
    lines += keys
    if chip.npu is None:
        lines += ["", "# [npu]  # the matrix processor of each core; this chip has none"]
    else:
        lines += npu_lines(chip.npu)
    lines += time_lines(chip.time)
    lines += energy_lines(chip.energy)
    lines += host_lines(chip.host, chip.host_ports, chip.width)
    lines += tables
    lines += core_limit_lines(chip.core_limits)
    lines += source_lines(chip.origin, chip.to_json())
    return "\n".join(lines) + "\n"


def unit_of(chip: Chip, field: str) -> str:
    """Return the unit of a field, or "" if it has none."""
    if field in ("width", "height"):
        return "cores"
    for kind in ("energy", "latency"):
        if field in (f"{kind}_router", f"{kind}_link"):
            unit: str = getattr(chip, f"{kind}_unit")
            return "relative units" if unit == "relative" else unit
    return field if field in ("neurons", "synapses") else ""


def _comment(text: str) -> list[str]:
    clean = " ".join(text.split())
    return textwrap.wrap(
        clean, _WIDTH, initial_indent="# ", subsequent_indent="# ", break_on_hyphens=False
    )


def _entry(field: str, value: object, width: int) -> list[str]:
    """Return the lines of TOML for one field; width : of the chip, in cores"""
    if value is None:
        return [f"# {field} = ...{'' if field == 'weight_bits' else '  # no limit'}"]
    if isinstance(value, tuple) and field in _LISTED:
        if not value:
            return [f"{field} = []"]
        shown = [_place(one, width) if isinstance(one, tuple) else str(one) for one in value]
        step = _LISTED[field]
        rows = [shown[at : at + step] for at in range(0, len(shown), step)]
        return [f"{field} = [", *(f"  {', '.join(row)}," for row in rows), "]"]
    if isinstance(value, bool):
        return [f"{field} = {str(value).lower()}"]
    if isinstance(value, str):
        return [f"{field} = {toml_string(value)}"]
    return [f"{field} = {list(value) if isinstance(value, tuple) else value!r}"]


def _place(pair: tuple[int, ...], width: int) -> str:
    """Return two cores as [x, y] pairs."""
    return f"[{', '.join(f'[{core % width}, {core // width}]' for core in pair)}]"
