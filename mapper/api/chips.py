"""`chips` lists the chips that are known by name."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from chipsim.chip.model import Chip


def chips() -> dict[str, Chip]:
    """Return the presets by name, with all limits, costs and sources, as `mapper chips` shows them.

    A chip with other numbers: ``dataclasses.replace(mapper.chips()["loihi"], neurons=512)``.
    """
    from chipsim.chip.presets import PRESETS

    return dict(PRESETS)
