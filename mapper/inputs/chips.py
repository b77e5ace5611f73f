"""Chips as users give them: objects, NPUs of presets, and ranges of sizes in --chip.

FIRST..LAST is a range, of which the smallest chip that a model fits is used.

From size to size the shorter side doubles: 4x4..16x16 is 4x4, 8x4, 8x8, 16x8, 16x16.
"""

from __future__ import annotations

import os
import re
from dataclasses import replace
from numbers import Integral
from typing import Any

from chipsim.chip.model import Chip
from chipsim.chip.npu_shape import NPU_SHAPES, NpuShape
from chipsim.chip.presets import parse_chip
from mapper.errors import MapperError, UsageError, shown

RANGE = re.compile(r"([1-9]\d{0,3})x([1-9]\d{0,3})\.\.([1-9]\d{0,3})x([1-9]\d{0,3})")


def given_chip(chip: Any) -> Chip:
    """Return the chip of an argument in Python: a `Chip`, a size (width, height),
    a preset, or a file.

    Raises `UsageError` for other objects, `ChipError` for unknown names and faulty files.
    """
    if isinstance(chip, Chip):
        return chip
    if isinstance(chip, tuple) and len(chip) == 2 and isinstance(chip[0], Integral):
        return parse_chip("x".join(map(str, chip)))
    if isinstance(chip, str | os.PathLike):
        return parse_chip(os.fspath(chip))
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
