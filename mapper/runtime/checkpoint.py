"""Finished steps of a run, kept in its scratch: a run that was killed goes on behind the last."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from storage.scratch.scratch import Scratch

Arrays = dict[str, NDArray[Any]]


class Checkpoint:
    """Does each named step once in the life of a scratch.

    Every step draws its random numbers from a seed of its own, so going on gives the same result
    as never having stopped.
    """

    def __init__(self, scratch: Scratch, prefix: str = "") -> None:
        self._scratch = scratch
        self._prefix = prefix

    def nested(self, name: str) -> Checkpoint:
        """Steps of the same scratch whose names do not meet those of these."""
        return Checkpoint(self._scratch, f"{self._prefix}{name}/")

    def done(self, name: str) -> bool:
        """Whether the step was finished, in this run or before."""
        return self._key(name) in self._scratch

    def run_once(self, name: str, work: Callable[[], Arrays]) -> Arrays:
        """The arrays that a step ends with: from scratch if it is done, else computed and kept."""
        key = self._key(name)
        if self.done(name):
            names = self._scratch.get_json(key)
            return {array: self._scratch.get_array(f"{key}/{array}") for array in names}
        arrays = work()
        for array, values in arrays.items():
            self._scratch.put_array(f"{key}/{array}", values)
        self._scratch.put_json(key, sorted(arrays))  # last: now the step counts as done
        self._scratch.sync()
        return arrays

    @contextmanager
    def spare(self) -> Iterator[Scratch]:
        """Scratch beside the steps, for what is quick to make again; it goes with the context."""
        with (
            tempfile.TemporaryDirectory(prefix="spare-", dir=self._scratch.path) as folder,
            Scratch(Path(folder) / "scratch", lasting=False) as made,
        ):
            yield made

    def _key(self, name: str) -> str:
        return f"steps/{self._prefix}{name}"
