"""Sweep files: lists of values by key; each combination of values is a run.

::

    network = "net.bin"          # or a list of paths, relative to the folder of this file
    chip = ["16x16", "loihi"]
    seed = "1..4"
    preset = ["fast", "default"]
    starts = [2, 8]              # any setting
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from difflib import get_close_matches
from itertools import product
from math import prod
from pathlib import Path
from typing import Any, NamedTuple

from chipsim.chip.toml_text import parse_toml, read_toml_bytes
from mapper.errors import MapperError, UsageError, shown
from mapper.monitoring.resources import parse_bytes
from mapper.portfolio.seeds import MOST_RUNS, parse_seeds
from mapper.settings import SETTINGS
from storage.address import RemotePath, path_of

LIMITS = {
    "neurons_per_core": "neurons",
    "synapses_per_core": "synapses",
    "axons_per_core": "axons_in",
    "axons_out_per_core": "axons_out",
}
"""Core limits that a sweep may vary, and their names in `Chip.with_limits`."""


class SweepFile(NamedTuple):
    """A sweep.

    path : path of the file
    lists : values of each key, in the order of the file
    """

    path: Path
    lists: dict[str, list[Any]]

    def combinations(self) -> list[dict[str, Any]]:
        """Return the values of each run by key; the last key varies fastest."""
        return [
            dict(zip(self.lists, values, strict=True)) for values in product(*self.lists.values())
        ]

    def require_few(self) -> None:
        """Raise `UsageError` if there are more runs than a folder can have."""
        if (count := prod(map(len, self.lists.values()))) > MOST_RUNS:
            raise UsageError(f"has {count:,} runs; give at most {MOST_RUNS:,}")

    def place_of(self, name: str) -> Path:
        """Return the path of a file that the sweep names, relative to the sweep file, or a URL."""
        path = path_of(name)
        return path if isinstance(path, RemotePath) else self.path.parent / path


def read_sweep(path: Path) -> SweepFile:
    """Read a sweep; raises `MapperError` that names the key and its allowed values."""
    try:
        content = parse_toml(read_toml_bytes(path))
    except OSError as error:
        raise MapperError(f"{path}: cannot read: {error.strerror or error}") from error
    except ValueError as error:
        raise MapperError(f"{path}: {error}") from error
    return sweep_of(path, content)


def sweep_of(path: Path, content: Mapping[str, Any]) -> SweepFile:
    """Return the sweep of the keys and values of a file; raises `MapperError` as `read_sweep`.

    path : of the file, for messages; relative paths in it start in its folder
    """
    lists: dict[str, list[Any]] = {}
    for key, value in content.items():
        name = key.replace("-", "_").lower()
        if name not in KEYS:
            near = get_close_matches(name, KEYS, n=1)
            hint = f"did you mean {near[0]}?" if near else "`mapper docs portfolio` lists the keys"
            raise MapperError(f"{path}: unknown key {shown(key)}; {hint}")
        if name in lists:
            raise MapperError(f"{path}: key {name} is repeated; give it once")
        try:
            lists[name] = values_of(name, value)
        except (UsageError, ValueError) as error:
            raise MapperError(f"{path}: {key}: {error}") from error
    for name in ("network", "chip"):
        if name not in lists:
            raise MapperError(f'{path}: {name} is missing; give one as {name} = "{EXAMPLES[name]}"')
    sweep = SweepFile(path, lists)
    try:
        sweep.require_few()
    except UsageError as error:
        raise MapperError(f"{path}: {error}") from error
    return sweep


def values_of(name: str, given: Any) -> list[Any]:
    """Return the checked values of a key; raises `UsageError` or `ValueError`."""
    if name == "seed" and isinstance(given, str):
        return list(parse_seeds(given))
    every = given if isinstance(given, list) else [given]
    if not every:
        raise UsageError("the list is empty; give a value, or leave the key out")
    found: list[Any] = []
    for one in every:
        value = KEYS[name](one)
        if value in found:
            raise UsageError(f"{shown(value)} is repeated; give it once")
        found.append(value)
    return found


def _text(words: str) -> Callable[[Any], str]:
    def read(value: Any) -> str:
        if not isinstance(value, str) or not value or "\0" in value:
            raise UsageError(f"{shown(value)} is not {words}")
        return value

    return read


def _flag(value: Any) -> bool:
    if not isinstance(value, bool):
        raise UsageError(f"{shown(value)} is not true or false")
    return value


def _limit(value: Any) -> int:
    if type(value) is not int or not 1 <= value < 1 << 63:
        raise UsageError(f"{shown(value)} is not a whole number greater than 0")
    return value


def _kind(value: Any) -> str:
    if value not in ("rate", "synapse"):
        raise UsageError(f"{shown(value)} is not known; choose from rate, synapse")
    return str(value)


def _memory(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise UsageError(f'{shown(value)} is not a size; write "1GiB" or "512M"')
    return parse_bytes(str(value))


EXAMPLES = {"network": "net.bin", "chip": "16x16"}
KEYS: dict[str, Callable[[Any], Any]] = {
    "network": _text("the path of a network"),
    "chip": _text("WIDTHxHEIGHT, a preset, or the path of a chip file"),
    **dict.fromkeys(LIMITS, _limit),
    "rates": _text('the path of a file, "uniform" or "weights"'),
    "weights_are": _kind,
    "constraints": _text("the path of a TOML file"),
    "split_neurons": _flag,
    "memory": _memory,
    **{name: setting.check for name, setting in SETTINGS.items() if name != "memory_bytes"},
}
"""Keys of a file and the functions that read a value; raise `UsageError` or `ValueError`."""
