"""The plugins keep the contracts that the built-in objects keep."""

from __future__ import annotations

import struct

import mapper_example
from mapper_example.pairs import MAGIC
from mapper_example.snake import SNAKE

import mapper
from mapper.extend import (
    check_chip,
    check_exporter,
    check_importer,
    check_mapping_exporter,
    check_placer,
)

SAMPLE = (
    MAGIC + struct.pack("<Q", 5) + struct.pack("<IId", 0, 4, 2.5) + struct.pack("<IId", 4, 1, 1)
)


def test_the_format() -> None:
    reader, writer = mapper_example.PAIRS
    assert reader is not None
    assert writer is not None
    check_importer(reader, {"a.pairs": SAMPLE})
    check_exporter(writer)


def test_the_placer() -> None:
    check_placer(SNAKE)


def test_the_chip() -> None:
    check_chip(mapper.chips()["example16"])


def test_the_export() -> None:
    check_mapping_exporter(mapper_example.OCCUPANCY)
