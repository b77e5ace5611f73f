"""Chips as users give them: objects, NPUs of presets, and ranges of sizes in --chip.

FIRST..LAST is a range, of which the smallest chip that a model fits is used.

From size to size the shorter side doubles: 4x4..16x16 is 4x4, 8x4, 8x8, 16x8, 16x16.
"""

from __future__ import annotations

import os
import re
from dataclasses import replace
from numbers import Integral
from pathlib import Path
from typing import Any

from chipsim.chip.model import Chip
from chipsim.chip.npu_shape import NPU_SHAPES, NpuShape
from chipsim.chip.presets import PRESETS, parse_chip
from chipsim.errors import ChipError
from mapper.errors import MapperError, UsageError, shown
from storage.plugins import (
    CHIPS,
    Plugin,
    find_plugin,
    plugins_of,
    skipping,
    usable_plugins,
    wrong_type,
)

RANGE = re.compile(r"([1-9]\d{0,3})x([1-9]\d{0,3})\.\.([1-9]\d{0,3})x([1-9]\d{0,3})")


NAME = re.compile(r"[A-Za-z]\w*([-+]\w+)*", re.ASCII)
"""Names of chips, which no size or file has."""


def find_chip(text: str) -> Chip:
    """Return the chip of a text: see `parse_chip`, or the name of a chip of another package.

    Raises `ChipError` for an unknown name or a faulty file, `PluginError` for a faulty package.
    """
    name = text.strip()
    plugin = find_plugin(CHIPS, name) if name not in PRESETS and NAME.fullmatch(name) else None
    return parse_chip(text) if plugin is None else added_chip(plugin)


def named_chips() -> dict[str, Chip]:
    """Return all presets by name, also of other packages.

    Broken ones are reported as warnings.
    """
    found = dict(PRESETS)
    for plugin in usable_plugins(CHIPS):
        with skipping():
            found.setdefault(plugin.name, added_chip(plugin))
    return found


def packages_of_chips() -> dict[str, str]:
    """Return the packages that add chips, by the name of the chip."""
    return {
        plugin.name: plugin.package for plugin in plugins_of(CHIPS) if plugin.name not in PRESETS
    }


def added_chip(plugin: Plugin) -> Chip:
    """Return the chip of an entry point, a `Chip` or the path of a chip file.

    Raises `PluginError` if it is faulty.
    """
    found = plugin.load(object)
    if isinstance(found, Path):
        try:
            found = parse_chip(str(found))
        except ChipError as error:
            raise plugin.error(f"is faulty: {error}") from error
    if not isinstance(found, Chip):
        raise plugin.error(wrong_type(found, "Chip or Path"))
    if found.name != plugin.name or not NAME.fullmatch(found.name):
        raise plugin.error(f"has the name {found.name!r} instead of {plugin.name!r}")
    return found


def given_chip(chip: Any) -> Chip:
    """Return the chip of an argument in Python: a `Chip`, a size (width, height),
    a preset, or a file.

    Raises `UsageError` for other objects, `ChipError` for unknown names and faulty files.
    """
    if isinstance(chip, Chip):
        return chip
    if isinstance(chip, tuple) and len(chip) == 2 and isinstance(chip[0], Integral):
        return find_chip("x".join(map(str, chip)))
    if isinstance(chip, str | os.PathLike):
        return find_chip(os.fspath(chip))
    raise UsageError(
        f'chip is {shown(chip)}; give (16, 16), "16x16", a preset, the path of a .toml, or a Chip'
    )


def chips_in(text: str) -> list[str]:
    """Return the chips of --chip, smallest first; a text without a range is a single chip.

    Raises `UsageError` for a range whose last size is not larger.
    """
    found = RANGE.fullmatch(text)
    if found is None:
        if re.match(r"\d+x\d+\.\.", text):
            raise UsageError(f"--chip {text!r}: give a range such as 4x4..16x16")
        return [text]
    width, height, last_width, last_height = map(int, found.groups())
    if width > last_width or height > last_height or (width, height) == (last_width, last_height):
        raise UsageError(f"--chip {text}: the last size must be the larger one")
    sizes = [(width, height)]
    while (width, height) != (last_width, last_height):
        wider = width <= height if height < last_height else True
        if wider and width < last_width:
            width = min(2 * width, last_width)
        else:
            height = min(2 * height, last_height)
        sizes.append((width, height))
    return [f"{width}x{height}" for width, height in sizes]


def require_all_links(chip: Chip, who: str) -> None:
    """Raise `MapperError` if links are broken; who : routers that cannot avoid them"""
    if chip.detoured:
        raise MapperError(
            f"chip {chip.name}: {who} route x first, then y, and cannot avoid broken links; remove "
            "broken_links and broken_routers from its file"
        )


def with_npu(chip: Chip, npu: str | None) -> Chip:
    """Return a chip whose cores have an NPU.

    npu : name of a preset, None for the NPU of the chip
    Raises `UsageError` for an unknown name, `MapperError` for a chip without NPU, or with broken
    links.
    """
    presets = ", ".join(NPU_SHAPES)
    if npu is not None:
        if npu not in NPU_SHAPES:
            raise UsageError(f"--npu {npu!r} is not known; give one of {presets}")
        chip = replace(chip, npu=NPU_SHAPES[npu])
    if chip.npu is None:
        raise MapperError(
            f"chip {chip.name}: its cores have no NPU; give a size such as "
            f"{chip.width}x{chip.height}, whose cores have the NPU {next(iter(NPU_SHAPES))}, a "
            f"chip file with a table [npu], or --npu with one of {presets}"
        )
    require_all_links(chip, "compiled programs")
    return chip


def named_npu(text: str) -> NpuShape:
    """Return the NPU of a preset or chip file.

    Raises `UsageError` for an unknown name, `MapperError` for a chip without NPU, `ChipError` for
    a faulty file.
    """
    if text in NPU_SHAPES:
        return NPU_SHAPES[text]
    if not text.strip().lower().endswith(".toml"):
        presets = ", ".join(NPU_SHAPES)
        raise UsageError(f"--npu {text!r} is not known; give one of {presets}, or a chip FILE.toml")
    found = parse_chip(text).npu
    if found is None:
        raise MapperError(f"{text}: its cores have no NPU; add a table [npu]")
    return found
