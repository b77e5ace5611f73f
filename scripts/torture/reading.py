"""Damaged bytes in small files for each reader of `fuzz_readers`, called without a command."""

from __future__ import annotations

import shutil
import time
from pathlib import Path
from typing import NamedTuple

from scripts.fuzz_oracle import fingerprint, judge
from scripts.fuzz_structure import archive_of, members
from scripts.fuzz_targets import READERS, Reader, corpus
from scripts.torture.batches import LONGEST, Batches
from scripts.torture.bench import Bench
from scripts.torture.damage import NOISE, SECONDS
from scripts.torture.family import Random, one_of
from scripts.torture.outcomes import RAISED, REFUSED, RIGHT, WRONG, Outcome
from scripts.torture.spoiling import spoiled


class Sample(NamedTuple):
    """A valid input of a reader; value : fingerprint of the values read"""

    reader: Reader
    name: str
    data: bytes
    value: int


class Reading(Batches):
    """Flips, truncations, and zeroed, doubled, swapped or added blocks."""

    name = "damage of readers"
    share = 3.0
    batch = 1000

    def __init__(self, bench: Bench) -> None:
        super().__init__(bench)
        self._samples: list[Sample] = []

    def prepare(self, _random: Random) -> None:
        """Read all valid inputs once, which also loads the kernels."""
        if self._samples:
            return
        for reader in READERS.values():
            for name, data in corpus(reader).items():
                if name.startswith("good"):
                    path = reader.put(data, _emptied(self.bench.base))
                    assert path is not None
                    fault, value = judge(reader.read, path, reader.expected, LONGEST)
                    if fault is not None:
                        raise RuntimeError(f"{reader.name}/{name}: {fault}")
                    self._samples.append(Sample(reader, name, data, fingerprint(value)))

    def case(self, seed: int, random: Random) -> Outcome:
        reader = one_of(random, list(READERS.values()))
        one = one_of(random, [each for each in self._samples if each.reader is reader])
        if reader.file:
            data, damage = spoiled(one.data, random)
        else:
            parts = members(one.data)
            inside = one_of(random, sorted(parts))
            parts[inside], damage = spoiled(parts[inside], random)
            data, damage = archive_of(parts), f"{inside}: {damage}"
        path = reader.put(data, _emptied(self.bench.base))
        assert path is not None
        began = time.process_time()
        fault, value = judge(reader.read, path, reader.expected, SECONDS * NOISE)
        seconds, what = time.process_time() - began, f"{reader.name}/{one.name}: {damage}"
        if fault is not None:
            how = RAISED if "Error" in fault.what else WRONG
            return Outcome(self.name, seed, how, what, f"{fault}\n{fault.details}")
        if value is None:
            return Outcome(self.name, seed, REFUSED, what, "", seconds)
        if reader.sealed and fingerprint(value) not in self._known(reader):
            return Outcome(self.name, seed, WRONG, what, "other values without an error")
        return Outcome(self.name, seed, RIGHT, what)

    def _known(self, reader: Reader) -> set[int]:
        return {one.value for one in self._samples if one.reader is reader}


def _emptied(folder: Path) -> Path:
    """Return a folder without content below a folder."""
    place = folder / "input"
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir()
    return place
