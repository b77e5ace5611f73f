# amaranth: UnusedElaboratable=no
"""The buffer follows its data sheet, cycle by cycle, for any pattern of valid and ready."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hw.errors import HwError
from hw.noc.buffer import Buffer
from hw.noc.packet import packet_layout
from tests.hw.bench import simulate


def scenario(depth: int, offers: str, takes: str, outputs: str, path: Path) -> None:
    """Run a scenario with one character per cycle.

    offers, outputs : packets offered and at the output (letters, or `.`); a rejected offer is
        repeated
    takes : whether the receiver accepts (1 or `.`)
    """
    buffer = Buffer(packet_layout(1, 1, 8), depth)

    async def bench(ctx: Any) -> None:
        queue = list(offers)
        for cycle, (take, expected) in enumerate(zip(takes, outputs, strict=True)):
            offer = queue[0] if queue else "."
            ctx.set(buffer.i.valid, offer != ".")
            ctx.set(buffer.i.payload, {"x": 0, "y": 1, "axon": ord(offer)})
            ctx.set(buffer.o.ready, take == "1")
            *_, ready, valid, payload, level = await ctx.tick().sample(
                buffer.i.ready, buffer.o.valid, buffer.o.payload, buffer.level
            )
            found = chr(payload.axon) if valid else "."
            assert found == expected, f"cycle {cycle}: {found} at the output, not {expected}"
            assert ready == (level < depth), f"cycle {cycle}"
            if queue and (ready or offer == "."):
                queue.pop(0)

    simulate(buffer, bench, path)


def test_a_word_falls_through_in_one_cycle(tmp_path: Path) -> None:
    scenario(4, "a.b", "11111", ".a.b.", tmp_path)


def test_one_word_per_cycle(tmp_path: Path) -> None:
    scenario(2, "abcd", "111111", ".abcd.", tmp_path)


def test_a_depth_of_one_passes_every_second_cycle(tmp_path: Path) -> None:
    scenario(1, "abc", "1111111", ".a.b.c.", tmp_path)


def test_a_full_buffer_does_not_accept_while_it_is_read(tmp_path: Path) -> None:
    scenario(2, "abcd", "...1111.", ".aaabcd.", tmp_path)


def test_rejected_words_stay(tmp_path: Path) -> None:
    scenario(3, "ab", "...1.1.", ".aaabb.", tmp_path)


@pytest.mark.parametrize("depth", [1, 2, 3, 5])
def test_any_pattern(depth: int, tmp_path: Path) -> None:
    """Compare with a list that is full at `depth`."""
    rng = np.random.default_rng(depth)
    offers = "".join(rng.choice(list("abcdefg..."), 80))
    takes = "".join(rng.choice(list("1."), 80))
    held, outputs, queue = [], "", list(offers)
    for take in takes:
        outputs += held[0] if held else "."
        offer, accepts = queue[0] if queue else ".", len(held) < depth
        if take == "1" and held:
            held.pop(0)
        if offer != "." and accepts:
            held.append(offer)
        if queue and (offer == "." or accepts):
            queue.pop(0)
    scenario(depth, offers, takes, outputs, tmp_path)


@pytest.mark.parametrize("depth", [0, -1, 1025, True, 2.0, "4"])
def test_a_bad_depth_is_named(depth: Any) -> None:
    with pytest.raises(HwError, match=r"buffer: depth is .*; give a whole number from 1 to 1024"):
        Buffer(packet_layout(1, 1, 1), depth)
