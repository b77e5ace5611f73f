"""Arguments of the Python interface: checked, and converted to the objects of the library."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from numbers import Integral, Real
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from numpy.typing import ArrayLike

from mapper.api.types import Rates
from mapper.errors import UsageError, shown
from mapper.monitoring.bars import require_progress

if TYPE_CHECKING:
    from chipsim.chip.model import Chip
    from mapper.api.network import Network
    from mapper.inputs.source import Effort, Source
    from mapper.limits.constraints import ConstraintFile
    from mapper.settings import Settings

_PATH = (str, os.PathLike)
_WANTED: dict[str, tuple[tuple[type, ...], str]] = {
    "preset": ((str,), "the name of a preset"),
    "objective": ((str,), '"hops", "unicast", "core", "multicast", "cut" or "time"'),
    "seed": ((Integral,), "a whole number"),
    "threads": ((Integral,), "a whole number of 1 or more, or None for all cores"),
    "memory": ((str, Real), 'bytes, or a text such as "1GiB"'),
    "constraints": ((*_PATH, Mapping), 'the path of a TOML file, or {"pin": [...]}'),
    "split_neurons": ((bool,), "True or False"),
    "neurons": ((Integral,), "a whole number"),
    "files": ((Integral,), "a whole number of 1 or more"),
    "workers": ((Integral,), "a whole number of 1 or more"),
    "columns": ((Mapping,), 'names by role, as in {"source": "pre"}'),
    "workdir": (_PATH, "the path of a folder"),
    "shared": (_PATH, "the path of a folder"),
    "time_limit": ((Real,), "seconds above 0"),
}


def check_arguments(**given: Any) -> None:
    """Raise `UsageError` for an argument of a wrong type.

    given : arguments by name: the names in `_WANTED`, where None stands for an omitted argument,
        and `progress`
    """
    for name, value in given.items():
        if name == "progress":
            require_progress(value)
            continue
        kinds, words = _WANTED[name]
        wrong = not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds)
        if wrong and (value is not None or name == "seed"):
            raise UsageError(f"{name} is {shown(value)}; give {words}")
    for name in ("threads", "files", "workers"):
        if given.get(name) is not None and given[name] < 1:
            raise UsageError(f"{name} is {given[name]}; give {_WANTED[name][1]}")
    limit = given.get("time_limit")
    if limit is not None and not 0 < limit < math.inf:
        raise UsageError(f"time_limit is {limit}; give {_WANTED['time_limit'][1]}")


def settings_of(
    preset: str, seed: int, threads: int | None, memory: int | str | None, method: dict[str, Any]
) -> Settings:
    """Return the settings of a call, with the defaults of this machine."""
    from mapper.settings import preset as preset_of

    effort = effort_of(threads, memory)
    return preset_of(
        preset, **method, seed=seed, threads=effort.threads, memory_bytes=effort.memory
    )


class Reading(NamedTuple):
    """Arguments on how to read a network; see `mapper.map_network`."""

    neurons: int | None
    sizes: ArrayLike | None
    rates: Rates | None
    rates_duration: float | None
    columns: Mapping[str, str] | None
    weights_are: str | None


class GivenLimits(NamedTuple):
    """Arguments that replace the limits of a chip; see `mapper.map_network`."""

    neurons: int | None
    synapses: int | None
    axons: int | None
    axons_out: int | None


def source_of(network: Any, reading: Reading) -> Source:
    """Return the network as a `Source`; raise `UsageError` for misplaced arguments."""
    from mapper.api.network import Network
    from mapper.inputs.source import RATES_WORDS, Source, is_table
    from storage.address import path_of
    from storage.formats.columns import name_columns
    from storage.store.network import is_network_name

    neurons, sizes, rates = reading.neurons, reading.sizes, reading.rates
    columns, weights_are = reading.columns, reading.weights_are
    if neurons is not None and not isinstance(network, tuple | list):
        raise UsageError("neurons is for a network of edge arrays only; leave it out")
    if columns is not None and not (isinstance(network, str | os.PathLike) or is_table(network)):
        raise UsageError("columns are for a table; leave them out")
    if isinstance(rates, str | os.PathLike) and rates not in RATES_WORDS:
        rates = Path(rates)
        if not rates.exists():
            raise UsageError(
                f"rates is {str(rates)!r}, which is no file; give an array of rates, the path of a "
                'file, "uniform" or "weights"'
            )
    if reading.rates_duration is not None and not isinstance(rates, Path):
        raise UsageError("rates_duration is for a file of spikes; give its path as rates")
    if weights_are not in (None, "rate", "synapse"):
        raise UsageError(f'weights_are is {weights_are!r}; give "rate" or "synapse"')
    if isinstance(network, Network):
        network = network.path
    if isinstance(network, str | os.PathLike):
        network = path_of(network)
        if columns is not None and is_network_name(network):
            raise UsageError(f"{network}: is a network file, not a table; leave out columns")
    try:
        chosen = None if columns is None else name_columns(columns)
    except ValueError as error:
        raise UsageError(f"columns: {error}") from error
    source = Source(
        network, chosen, rates, reading.rates_duration, neurons=neurons, sizes=sizes,
        weights_are=weights_are,
    )  # fmt: skip
    if weights_are is not None and source.is_network_file:
        raise UsageError(
            "weights_are is for imported networks, not for a network file; leave it out"
        )
    if sizes is not None and not source.is_object:
        raise UsageError("sizes are for a network without a file; leave them out")
    return source


def path_of_network(network: str | os.PathLike[str] | Network, name: str) -> Path:
    """Return the path of a network file; raise `UsageError` that calls the argument `name`."""
    from mapper.api.network import Network
    from storage.address import path_of

    if isinstance(network, Network):
        return network.path
    if isinstance(network, str | os.PathLike):
        return path_of(network)
    raise UsageError(f"{name} is {shown(network)}; give a Network, or the path of a network file")


@contextmanager
def path_of_source(source: Any) -> Iterator[Path]:
    """Yield the path of a network file, or of the output folder of a mapping or a compiled model.

    A mapping is written to a temporary folder. Raises `UsageError` for other objects.
    """
    from mapper.api.network import Network
    from mapper.result import NetworkMapping
    from storage.address import path_of

    if isinstance(source, str | os.PathLike):
        yield path_of(source)
    elif isinstance(source, Network):
        yield source.path
    elif isinstance(source, NetworkMapping):
        with source.in_folder() as folder:
            yield folder
    elif isinstance(compiled := getattr(source, "folder", None), Path):
        yield compiled
    else:
        raise UsageError(
            f"the first argument is {shown(source)}; give a network, a mapping, a compiled model, "
            "or the path of one"
        )


def core_limits(chip: Any, limits: GivenLimits) -> Chip:
    """Return a chip with other limits, without NPU and host: mappings do not depend on them."""
    from mapper.inputs.chips import given_chip

    return replace(given_chip(chip), npu=None, host=None).with_limits(*limits)


def effort_of(threads: int | None, memory: int | str | None) -> Effort:
    """Return threads and memory of a call, with the defaults of this machine."""
    from mapper.inputs.source import Effort
    from mapper.monitoring.resources import all_cores

    return Effort(threads or all_cores(), memory_of(memory))


def memory_of(memory: int | str | None) -> int:
    """Return a memory budget in bytes; raise `UsageError` for a text that is not a size."""
    from mapper.monitoring.resources import default_memory, parse_bytes

    try:
        return default_memory() if memory is None else parse_bytes(str(memory))
    except ValueError as error:
        raise UsageError(f"memory: {error}") from error


def constraints_of(
    given: str | os.PathLike[str] | Mapping[str, Any] | None,
) -> ConstraintFile | None:
    """Return constraints: a TOML file, or the same tables as lists of dictionaries by name."""
    from mapper.limits.constraints import ConstraintFile

    if given is None:
        return None
    if not isinstance(given, Mapping):
        return ConstraintFile.read(Path(given))
    lines = []
    for table, entries in given.items():
        if not isinstance(entries, list | tuple) or not all(
            isinstance(x, Mapping) for x in entries
        ):
            raise UsageError(
                f"constraints: {shown(table)} is {shown(entries)}; give a list of dictionaries, "
                'such as {"pin": [{"neurons": [0, 5], "core": 12}]}'
            )
        for entry in entries:
            lines.append(f"[[{json.dumps(str(table))}]]")
            lines += [f"{json.dumps(str(key))} = {_toml(value)}" for key, value in entry.items()]
    return ConstraintFile(Path("constraints"), "\n".join(lines).encode())


def _toml(value: Any) -> str:
    """Return numbers, texts and sequences of them as TOML, which writes them like JSON."""
    plain = value.tolist() if hasattr(value, "tolist") else value
    try:
        return json.dumps(list(plain) if isinstance(plain, range) else plain, ensure_ascii=False)
    except TypeError as error:
        raise UsageError(
            f"constraints: {shown(value)} is not a number, a text or a list of them"
        ) from error
