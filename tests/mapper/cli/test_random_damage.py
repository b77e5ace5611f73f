"""Random values in mapper's own files: every command ends with one clear line."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from chipsim.chip.file import chip_toml
from chipsim.chip.model import Chip
from tests.mapper.conftest import Run
from tests.mapper.helpers import members_of, random_network
from tests.mapper.reporting.made import random_folder

TRIES = 60  # per file; several thousand found no further faults
VALUES = [
    "null", "true", "false", "0", "1", "-1", "2", "1.5", "-0.0", "NaN", "Infinity", "-Infinity",
    "1e308", "1e-320", "1e999", "9" * 30, "9" * 5000, "9223372036854775807", "2147483648", '""',
    '"x"', '"\\u0000"', '"\\ud800"', '"[bold]\\u001b[31m"', "[]", "{}", "[[]]", "[1, 2]",
    "[" * 99 + "]" * 99, "[" * 9999, '{"a": 1, "a": 2}', '{"a": {}}', "[null]", '["x"]', "[-1]",
    '"' + "x" * 9999 + '"',
]  # fmt: skip
Damage = Callable[[Path, np.random.Generator], None]


def damaged(found: Any, rng: np.random.Generator) -> str:
    """Return JSON in which one or two values are changed, missing, or duplicated."""
    marks: dict[str, str] = {}

    def places(value: Any) -> Iterator[tuple[Any, Any]]:
        keys = value if isinstance(value, dict) else range(len(value))
        for key in keys:
            yield value, key
            if isinstance(value[key], dict | list):
                yield from places(value[key])

    for number in range(int(rng.integers(1, 3))):
        all_places = list(places(found))
        inside, key = all_places[int(rng.integers(len(all_places)))]
        way = int(rng.integers(8))
        if way == 0:
            del inside[key]
        elif way == 1 and isinstance(inside, dict):
            inside[f"{key}#"] = inside[key]
        else:
            mark = f"@{number}@"
            inside[key] = mark
            marks[mark] = VALUES[int(rng.integers(len(VALUES)))]
    text = json.dumps(found).replace('#"', '"')
    for mark, value in marks.items():
        text = text.replace(f'"{mark}"', value)
    return text


def meta(path: Path, rng: np.random.Generator) -> None:
    with members_of(path) as members:
        found = damaged(json.loads(members["meta.json"]), rng)
        members["meta.json"] = bent(found.encode(), rng)


def bent(raw: bytes, rng: np.random.Generator) -> bytes:
    """Return the text, sometimes truncated or with a byte that is not UTF-8."""
    at = int(rng.integers(len(raw)))
    way = int(rng.integers(20))
    return raw[:at] + b"\xff" + raw[at:] if way == 0 else raw[:at] if way == 1 else raw


def report(path: Path, rng: np.random.Generator) -> None:
    path.write_bytes(bent(damaged(json.loads(path.read_bytes()), rng).encode(), rng))


def arrays(path: Path, rng: np.random.Generator) -> None:
    with np.load(path) as file:
        found = {name: file[name] for name in file.files}
    name = list(found)[int(rng.integers(len(found)))]
    old = found[name]
    others = [
        old.astype(float) * np.nan, -old, old.astype("<U9"), old.reshape(-1)[:0], old[None],
        old.astype(complex), np.array("x"), old.astype(np.uint64) + np.uint64(2**63),
        np.array(2**62), old.astype("m8[s]"), old.astype(bool), np.float16(old),
    ]  # fmt: skip
    way = int(rng.integers(len(others) + 1))
    found |= {name: others[way]} if way < len(others) else {}
    if way == len(others):
        del found[name]
    buffer = io.BytesIO()
    np.savez(buffer, **found)
    raw = buffer.getvalue()
    if rng.integers(3) == 0:
        at = int(rng.integers(len(raw)))
        raw = raw[:at] + bytes([int(rng.integers(256))]) + raw[at + 1 :]
    path.write_bytes(raw)


def lines(path: Path, rng: np.random.Generator) -> None:
    """Change values of a TOML file; JSON values are invalid TOML or have the same meaning."""
    text = path.read_text().splitlines()
    values = [
        *VALUES,
        "0x" + "f" * 9999,
        *["1979-05-27", "nan", "inf", "-inf", "{}", "[[1,2]]", "'''"],
    ]
    at = int(rng.integers(len(text)))
    key, equals, _ = text[at].partition("=")
    way, value = int(rng.integers(6)), values[int(rng.integers(len(values)))]
    if way == 0:
        del text[at]
    elif way == 1:
        text.append(text[at])
    else:
        text[at] = f"{key}= {value}" if equals else value
    path.write_bytes(bent("\n".join(text).encode() + b"\n", rng))


PINS = """\
[[pin]]
neurons = [0, 5]
core = "1,0"
[[together]]
range = [1, 3]
[[pin]]
neurons = [9]
core = [2, 2]
"""
NETWORK = ("info net.bin", "verify net.bin", "export net.bin new.csv", "info net.bin --json")
FILES: list[tuple[str, Damage, tuple[str, ...]]] = [
    ("net.bin", meta, NETWORK),
    ("out/report.json", report, ("info out", "verify out", "report out", "info out --json")),
    ("out/mapping.npz", arrays, ("verify out", "export out new.csv")),
    ("out/traffic.npz", arrays, ("report out",)),
    ("chip.toml", lines, ("check net.bin --chip chip.toml",)),
    ("constraints.toml", lines, ("check net.bin --chip 4x4 --constraints constraints.toml",)),
]  # fmt: skip


@pytest.mark.heavy
@pytest.mark.sample(0.5)
@pytest.mark.parametrize(("name", "damage", "commands"), FILES, ids=[name for name, _, _ in FILES])
def test_a_line_for_every_value(
    name: str, damage: Damage, commands: tuple[str, ...], folder: Path, run: Run
) -> None:
    chip = Chip("small", 4, 4, neurons=64, unavailable=(3,))
    random_folder(folder / "out", chip, neurons=12)
    random_network(folder / "net.bin", 12, 40, sizes=[1, 2] * 6)
    (folder / "chip.toml").write_text(chip_toml(chip))
    (folder / "constraints.toml").write_text(PINS)
    path, rng = folder / name, np.random.default_rng(5)
    whole, bad = path.read_bytes(), []
    for number in range(TRIES):
        path.write_bytes(whole)
        damage(path, rng)
        for command in commands:
            try:
                found = run(*command.split())
            except Exception as error:
                bad.append(f"{number}, {command}: {type(error).__name__}: {error}"[:500])
                continue
            if found.code not in (0, 3) and found.err.count("\n") != 1:
                bad.append(f"{number}, {command}: {found.err}"[:500])
            if "Infinity" in found.out or "NaN" in found.out:
                bad.append(f"{number}, {command}: prints an invalid number")
    assert bad == []
