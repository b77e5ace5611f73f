"""Random chips with broken links and routers, by seed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from chipsim.chip.machine import Block, Machine, Torus
from chipsim.chip.model import Chip
from chipsim.errors import ChipError
from tests.reference.detours import Faults, faults_of
from tests.reference.noc import EAST, NORTH, SOUTH, WEST

PORTS = {"east": EAST, "west": WEST, "south": SOUTH, "north": NORTH}
CHIPS = 200
"""Random chips that the tests use, by seed."""
TORI: tuple[Torus, ...] = ("", "", "", "", "x", "y", "xy")


def faulty_chip(seed: int, **options: Any) -> Chip:
    """Return a chip of 2x2 to 7x6 routers with at least one broken link.

    A third of the chips have tiles, chips or a torus. options : further fields of the chip
    """
    rng = np.random.default_rng([seed, 42])
    columns, rows = int(rng.integers(2, 8)), int(rng.integers(2, 7))
    torus = str(TORI[int(rng.integers(len(TORI)))])
    wide, tall = (int(n) for n in rng.choice([1, 1, 1, 2], 2))
    width, height = columns * wide, rows * tall
    parts = {"tile": Block(wide, tall, 0.0)} if (wide, tall) != (1, 1) else {}
    if rng.random() < 0.3:
        parts["chip"] = Block(width // 2 if columns % 2 == 0 else width, height, 3.0, 0.5, 4)
    machine = Machine(width, height, torus, **parts) if torus or parts else None  # type: ignore[arg-type]
    chip = Chip(f"faulty {seed}", width, height, machine=machine, **options)
    share = rng.choice([0.0, 0.05, 0.15, 0.3])
    links = [
        ((y * tall * width + x * wide), (y + dy) % rows * tall * width + (x + dx) % columns * wide)
        for y in range(rows)
        for x in range(columns)
        for dx, dy in ((1, 0), (0, 1))
        if (x + dx < columns or "x" in torus) and (y + dy < rows or "y" in torus)
        if (columns if dx else rows) > 1
    ]
    order = rng.permutation(len(links))
    dead = rng.permutation(width * height)[: int(rng.integers(0, 3))]
    wanted: list[tuple[str, Any]] = [
        ("broken_links", links[k]) for k in order[: int(share * len(links))]
    ]
    wanted += [("broken_routers", int(core)) for core in dead]
    wanted += [("broken_links", links[k]) for k in order[int(share * len(links)) :]]
    for at, (name, one) in enumerate(wanted):
        if chip.detoured and at >= int(share * len(links)) + len(dead):
            break
        try:
            chip = replace(chip, **{name: (*getattr(chip, name), one)})
        except ChipError:  # it would separate cores
            continue
    return chip


def known(chip: Chip) -> Faults:
    found = faults_of(chip)
    assert found is not None
    return found


def ports_of_routes(chip: Chip) -> Callable[[int, int], list[int]]:
    """Return a function for the outputs on the way between two cores, or to the host after them."""
    faults = known(chip)

    def ports(source: int, target: int) -> list[int]:
        end, last = (0, faults.rows - 1), []
        if target < chip.cores:
            end = faults.place(chip, target)
        elif not faults.torus:
            last = [SOUTH]
        links = faults.routes(faults.place(chip, source))[end]
        return [*(PORTS[name] for _, name in links), *last]

    return ports


def reaches_host(chip: Chip) -> bool:
    """Return whether a route leads from the usable cores to the router next to the host."""
    faults = known(chip)
    source = faults.place(chip, int(chip.usable.argmax()))
    return (0, faults.rows - 1) in faults.routes(source)
