"""Chip presets, and the chip argument of users.

Presets are chip files in the folder ``named``, each with the sources of its numbers.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from chipsim.chip.energy import energy_from_table
from chipsim.chip.host import host_from_table
from chipsim.chip.machine import KEYS, machine_from_fields
from chipsim.chip.model import Chip
from chipsim.chip.npu_shape import NpuShape
from chipsim.chip.npu_table import npu_from_table
from chipsim.chip.places import core_ids, core_pairs
from chipsim.chip.provenance import KEYS as ORIGIN_KEYS
from chipsim.chip.provenance import provenance_from_fields
from chipsim.chip.sanafe import chip_of_architecture
from chipsim.chip.time import ChipTime, time_from_table
from chipsim.chip.toml_text import parse_toml, read_toml_bytes
from chipsim.chip.unlike import FIELD, core_limits_from_tables
from chipsim.errors import ChipError

NAMES = (
    "loihi", "loihi64", "kapoho_bay", "nahuku32", "pohoiki_springs", "loihi2", "kapoho_point",
    "truenorth", "ns16e", "spinnaker1", "spinnaker24", "spinnaker2", "darwin3", "tianjic",
    "mesh84", "mesh1024",
)  # fmt: skip
"""Files of the folder ``named``, in listing order."""
_MESH = re.compile(r"(\d+)\s*[xX]\s*(\d+)", re.ASCII)
_FIELDS = (
    *(field.name for field in fields(Chip) if field.name not in ("machine", "origin")),
    *KEYS,
    *ORIGIN_KEYS,
)


def parse_chip(text: str) -> Chip:
    """Return the chip of ``text``: WIDTHxHEIGHT, a preset, or a ``.toml`` or ``.yaml`` file.

    A ``.yaml`` file is an architecture of SANA-FE (`chip_of_architecture`). A ``.toml`` file holds
    Chip's fields as top-level keys: ``width`` and ``height``, and any of ``name`` (default: the
    file's stem), ``neurons``, ``synapses``, ``axons_in``, ``axons_out``, ``delivery``,
    ``energy_router``, ``energy_link``, ``latency_router``, ``latency_link``, ``unavailable`` and
    ``broken_routers`` (lists of core ids, of [x, y] pairs, or of both), ``broken_links`` (a list of
    pairs of these), the tables ``npu`` (`npu_from_table`), ``time`` (`time_from_table`), ``energy``
    (`energy_from_table`), ``host`` (`host_from_table`) and ``core_limits``
    (`core_limits_from_tables`), the keys of a machine
    (`machine_from_fields`) and the sources of the numbers (`provenance_from_fields`).
    A bare WIDTHxHEIGHT has the default NPU and the cycles of the hardware in ``hw``; presets and
    files without these tables have none.

    Raises
    ------
    ChipError
        If the text is not a chip, or the file is missing, malformed or holds a bad value.
    """
    text = text.strip()
    mesh = _MESH.fullmatch(text)
    if mesh:
        if len(text) > 24:  # int() rejects thousands of digits with its own error
            raise ChipError(f"chip {text[:24]}...: the mesh is too large")
        name = text.replace(" ", "").lower()
        return Chip(name, int(mesh[1]), int(mesh[2]), npu=NpuShape(), time=ChipTime())
    if text in PRESETS:
        return PRESETS[text]
    if text.lower().endswith(".toml"):
        return _read_toml(Path(text))
    if text.lower().endswith((".yaml", ".yml")):
        return _read_architecture(Path(text))
    raise ChipError(
        f"chip {text!r} is unknown; give WIDTHxHEIGHT such as 64x64, a preset such as "
        f"{next(iter(PRESETS))} (`mapper chips` lists them), or the path of a .toml or .yaml file"
    )


def _bytes(path: Path) -> bytes:
    try:
        return read_toml_bytes(path)
    except FileNotFoundError:
        raise ChipError(f"chip file {path} does not exist; check the path") from None
    except OSError as error:
        raise ChipError(f"chip file {path} cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise ChipError(f"chip file {path} {error}") from error


def _read_architecture(path: Path) -> Chip:
    name = path.name.lower().removesuffix(path.suffix.lower()).removesuffix(".arch")
    try:
        return chip_of_architecture(_bytes(path), path.name[: len(name)] or path.name)
    except ChipError as error:
        if str(error).startswith("chip file"):
            raise
        raise ChipError(f"chip file {path}: {error}") from error


def _read_toml(path: Path) -> Chip:
    raw = _bytes(path)
    try:
        found = parse_toml(raw)
    except ValueError as error:
        raise ChipError(f"chip file {path} is not valid TOML: {error}") from error
    return from_fields({"name": path.stem, **found}, f"chip file {path}")


def from_fields(values: Mapping[str, Any], where: str = "chip") -> Chip:
    """Return a chip from its fields by name: a parsed file, or the result of `Chip.to_json`.

    ``where`` starts the error messages.

    Raises
    ------
    ChipError
        If a key is unknown or missing, or a value is bad.
    """
    unknown = sorted(set(values) - set(_FIELDS))
    if unknown:
        alike = difflib.get_close_matches(unknown[0], _FIELDS, 1)
        hint = f"did you mean {alike[0]!r}?" if alike else "`mapper docs chips` lists all keys"
        raise ChipError(f"{where}: unknown key {unknown[0]!r}; {hint}")
    for key in ("name", "width", "height"):
        if key not in values:
            raise ChipError(f"{where}: key {key!r} is missing; add it")
    given = {key: value for key, value in values.items() if key not in (*KEYS, *ORIGIN_KEYS)}
    host, links = given.pop("host", None), given.pop("broken_links", [])
    unlike = given.pop(FIELD, [])
    empty, routers = given.pop("unavailable", []), given.pop("broken_routers", [])
    try:
        if given.get("npu") is not None:
            given["npu"] = npu_from_table(given["npu"], str(given["name"]))
        if given.get("time") is not None:
            given["time"] = time_from_table(given["time"])
        if given.get("energy") is not None:
            given["energy"] = energy_from_table(given["energy"])
        # First without the values that may hold [x, y] pairs: these need a valid width.
        chip = Chip(**given)
        size = chip.width, chip.height
        found = Chip(
            **given,
            unavailable=core_ids(empty, "unavailable", "unavailable core", *size),
            broken_routers=core_ids(routers, "broken_routers", "core of a broken router", *size),
            broken_links=core_pairs(links, "broken_links", "core of a broken link", *size),
            host=None if host is None else host_from_table(host, *size),
            machine=machine_from_fields(values, *size),
            core_limits=core_limits_from_tables(unlike, *size),
        )
        return replace(found, origin=provenance_from_fields(values, found.to_json()))
    except ChipError as error:
        raise ChipError(f"{where}: {error}") from error


class _Named(Mapping[str, Chip]):
    """Chips in files of this package, read when they are asked for."""

    def __getitem__(self, name: str) -> Chip:
        if name not in NAMES:
            raise KeyError(name)
        if name not in self._read:
            self._read[name] = _read_toml(Path(__file__).parent / "named" / f"{name}.toml")
        return self._read[name]

    def __init__(self) -> None:
        self._read: dict[str, Chip] = {}

    def __iter__(self) -> Iterator[str]:
        return iter(NAMES)

    def __len__(self) -> int:
        return len(NAMES)


PRESETS: Mapping[str, Chip] = _Named()
"""Preset chips by name."""
