"""Check of the constraints of a mapping, by code that runs do not use.

Every table is compared with the cores of its neurons, one neuron after the other or by sets.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mapper.errors import CheckFailedError
from mapper.evaluation.neurons.populations import NamedNeurons
from mapper.evaluation.verify import SlowReader
from storage.errors import reason_of
from storage.files import read_input
from storage.jsontext import shown

Int64 = NDArray[np.int64]
MOST_BYTES = 1 << 28  # of a file of constraints


def check_constraints(path: Path, chip: dict[str, Any], reader: SlowReader, core: Int64) -> None:
    """Check that neurons are where the constraints of the run require, if it had any.

    core : of every neuron, and of relay neurons after them; raises `CheckFailedError`
    """
    if not path.exists():
        return
    names = NamedNeurons(reader)
    try:
        tables = tomllib.loads(read_input(path, MOST_BYTES).decode())
        for kind, entries in tables.items():
            for number, entry in enumerate(entries, 1):
                fault = _Table(entry, chip, names, core).fault(kind)
                if fault:
                    raise CheckFailedError(f"{path}: {kind} {number}: {fault}")
    except CheckFailedError:
        raise
    except Exception as error:  # a damaged copy fails in many ways
        raise CheckFailedError(f"{path}: cannot be checked: {reason_of(error)}") from error


class _Table:
    """One table of the file, and the mapping."""

    def __init__(
        self, entry: dict[str, Any], chip: dict[str, Any], names: NamedNeurons, core: Int64
    ) -> None:
        self._entry, self._chip, self._names, self._core = entry, chip, names, core

    def fault(self, kind: str) -> str:
        """Return how the mapping breaks the table; empty if it does not."""
        if kind == "apart":
            return self._apart()
        neurons = self._neurons(self._entry)
        if kind == "together":
            wanted = {int(self._core[neurons[0]])}
        elif kind == "pin":
            wanted = {self._id(self._entry["core"])}
        elif kind == "region":
            wanted = set(self._region())
        else:
            return f"{shown(kind)} is not a known table"
        for v in neurons.tolist():
            if int(self._core[v]) not in wanted:
                where = f"on {min(wanted)}" if len(wanted) == 1 else "in its region"
                return f"{self._names.called(v)} is on core {self._core[v]}, not {where}"
        if self._entry.get("exclusive", False):
            own = set(neurons.tolist())
            for v in np.flatnonzero(np.isin(self._core, sorted(wanted))).tolist():
                if v not in own:
                    name = self._names.called(v)
                    return f"{name} is on core {self._core[v]}, which is exclusive"
        return ""

    def _apart(self) -> str:
        (key,) = self._entry
        seen: dict[int, tuple[int, int]] = {}
        for number, one in enumerate(self._entry[key]):
            name = {"populations": "population", "ranges": "range", "groups": "neurons"}[key]
            for v in self._neurons({name: one}).tolist():
                group, u = seen.setdefault(int(self._core[v]), (number, v))
                if group != number:
                    both = f"{self._names.called(u)} and {self._names.called(v)}"
                    return f"{both} are both on core {self._core[v]}"
        return ""

    def _neurons(self, entry: dict[str, Any]) -> Int64:
        if "neurons" in entry:
            return np.array(entry["neurons"], np.int64)
        if "range" in entry:
            first, last = entry["range"]
            return np.arange(first, last + 1)
        members = self._names.members(entry["population"])
        if members is None:
            raise CheckFailedError(f"the network has no population {shown(entry['population'])}")
        return members

    def _region(self) -> Iterable[int]:
        if "cores" in self._entry:
            return map(self._id, self._entry["cores"])
        left, top, right, bottom = self._entry["rectangle"]
        return (self._id([x, y]) for y in range(top, bottom + 1) for x in range(left, right + 1))

    def _id(self, core: Any) -> int:
        """Return the id of a core that is given by its id, or column and row."""
        if isinstance(core, int):
            return core
        x, y = core.split(",") if isinstance(core, str) else core
        return int(y) * int(self._chip["width"]) + int(x)
