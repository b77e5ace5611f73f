"""Checkpoints of a run in its scratch: a killed run continues after the last finished step."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from storage.scratch.scratch import TYPE, Scratch

Arrays = dict[str, NDArray[Any]]
STEPS = "steps/"  # prefix of the names of values


def completed_steps(names: Sequence[str]) -> list[str]:
    """Return the steps that are complete in a scratch with values of these names, in their order.

    The arrays of a step have the prefix of its name, and each array has a type.
    """
    known = set(names)
    return [
        name.removeprefix(STEPS)
        for name in names
        if name.startswith(STEPS)
        and not name.endswith(TYPE)
        and known.isdisjoint((f"{name}{TYPE}", name.rpartition("/")[0]))
    ]


class Checkpoint:
    """Runs each named step once in the lifetime of a scratch.

    Every step draws its random numbers from its own seed, so a resumed run gives the same result as
    an uninterrupted one.
    """

    def __init__(self, scratch: Scratch, prefix: str = "") -> None:
        self._scratch = scratch
        self._prefix = prefix

    def nested(self, name: str) -> Checkpoint:
        """Return a checkpoint in the same scratch with a separate namespace of steps."""
        return Checkpoint(self._scratch, f"{self._prefix}{name}/")

    def done(self, name: str) -> bool:
        """Return whether the step was finished, in this run or an earlier one."""
        return self._key(name) in self._scratch

    def run_once(self, name: str, work: Callable[[], Arrays]) -> Arrays:
        """Return the arrays of a step: loaded from scratch if done, else computed and stored."""
        key = self._key(name)
        if self.done(name):
            names = self._scratch.get_json(key)
            return {array: self._scratch.get_array(f"{key}/{array}") for array in names}
        arrays = work()
        for array, values in arrays.items():
            self._scratch.put_array(f"{key}/{array}", values)
        self._scratch.put_json(key, sorted(arrays))  # last: the step now counts as done
        self._scratch.sync()
        return arrays

    @contextmanager
    def spare(self) -> Iterator[Scratch]:
        """Open a temporary scratch for data that is cheap to recompute; it is deleted on exit."""
        with (
            tempfile.TemporaryDirectory(prefix="spare-", dir=self._scratch.path) as folder,
            Scratch(Path(folder) / "scratch", lasting=False) as made,
        ):
            yield made

    def _key(self, name: str) -> str:
        return f"{STEPS}{self._prefix}{name}"
