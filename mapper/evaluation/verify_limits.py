"""Check of the core limits of a mapping, by code that runs do not use."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mapper.errors import CheckFailedError

Int64 = NDArray[np.int64]


def memory_of(chip: dict[str, Any], use: dict[str, Int64]) -> Int64:
    """Return the bits of memory that each core uses."""
    synapse = chip["weight_bits"] + chip["index_bits"]
    neurons = use["neurons"] * chip.get("neuron_bits", 0)
    return use["synapses"] * synapse + use["axons_in"] * chip["axon_bits"] + neurons


def limit_of(chip: dict[str, Any], name: str) -> Int64 | None:
    """Return a limit of every core, shape (cores,), with the tables of the chip; None for none."""
    if chip[name] is None:
        return None
    found = np.full((chip["height"], chip["width"]), chip[name], np.int64)
    for table in chip.get("core_limits", ()):
        if name not in table:
            continue
        here = np.zeros(found.shape, np.bool_)
        if "rectangle" in table:
            left, top, right, bottom = table["rectangle"]
            here[top : bottom + 1, left : right + 1] = True
        else:
            for core in table["cores"]:
                row, column = divmod(core, chip["width"])
                here[row, column] = True
        found[here & (found > table[name])] = table[name]
    return found.ravel()


def fill_of(chip: dict[str, Any], name: str, use: Int64) -> NDArray[np.float64]:
    """Return the use of a limit that the chip has, as a share of the limit of each core."""
    limit = limit_of(chip, name)
    assert limit is not None, "the chip has the limit"
    return use / limit


def check_least_fill(
    folder: Path, chip: dict[str, Any], settings: dict[str, Any], neurons: Int64, used: Int64
) -> None:
    """Raise `CheckFailedError` if a core in use has less than the least fill of the settings.

    neurons : size of the neurons of each core, shape (cores,); used : cores with neurons
    """
    share = settings.get("min_fill", 0.0)
    if isinstance(share, bool) or not isinstance(share, int | float) or not 0 <= share <= 1:
        raise CheckFailedError(f"{folder}: min_fill of the settings is {share!r}")
    limit = limit_of(chip, "neurons")
    assert limit is not None, "every chip limits neurons"
    for core in used.tolist():
        if Fraction(int(neurons[core])) < Fraction(str(share)) * int(limit[core]):
            raise CheckFailedError(
                f"{folder}: core {core} holds {neurons[core]} neurons, less than {share} of "
                f"{limit[core]}, the min_fill of the run"
            )


def check_limits(folder: Path, chip: dict[str, Any], use: dict[str, Int64], used: Int64) -> None:
    """Raise `CheckFailedError` if a core is above a limit, or must stay empty.

    use : of each core by limit, shape (cores,); used : cores with neurons
    """
    faulty = np.intersect1d(used, np.array(chip["unavailable"], np.int64))
    if faulty.size:
        raise CheckFailedError(f"{folder}: core {faulty[0]} is unavailable and in use")
    if chip.get("memory_bits") is not None:
        use = use | {"memory_bits": memory_of(chip, use)}
    for name, used_of in use.items():
        allowed = limit_of(chip, name)
        if name == "axons_out" and chip.get("single_target"):
            neurons = limit_of(chip, "neurons")
            assert neurons is not None, "every chip limits neurons"
            allowed = neurons if allowed is None else np.minimum(neurons, allowed)
        if allowed is None:
            continue
        worst = int((used_of - allowed).argmax())
        if used_of[worst] > allowed[worst]:
            raise CheckFailedError(
                f"{folder}: core {worst} uses {used_of[worst]} {name} of {allowed[worst]}"
            )
