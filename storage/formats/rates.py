"""Files of firing rates: npz archives, tables of text, and SONATA spike reports.

* npz: an array `rate`, shape (neurons,), in the order of the network.
* Text: two columns, neuron and rate, or more if the first line names these two. Neurons are
  identified as in the file that the network came from: by its attribute `id`, else by their number.
  Tables of spike times are refused if they can be recognised.
* SONATA: spikes of one or more populations, counted over the duration of the recording. Population
  names must match the network's attribute `population`.
* Files of NEST's spike recorder (`nestspikes`), counted over the duration.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from storage.errors import BadInputError
from storage.files import open_input
from storage.formats.columns import listed
from storage.formats.hdf5.sonataconfig import HDF5_MAGIC
from storage.formats.hdf5.spikes import report_spikes
from storage.formats.neuronfinder import NeuronFinder
from storage.formats.text.heading import separator, split_line
from storage.formats.text.namedtable import (
    NameCells,
    NamedTable,
    Where,
    is_number,
    real_numbers,
    refuse,
)
from storage.formats.text.nestspikes import files_of_recorder, recorder_of, recorder_spikes
from storage.formats.text.reader import TextReader
from storage.npz import DAMAGE, open_arrays
from storage.store.network import NetworkFile
from storage.store.rates import Rates, check_rates

MANY = 1 << 16
NPY_MAGIC = b"\x93NUMPY"
NEURONS = ("neuron", "id", "node", "neuron_id", "node_id", "name")
RATES = ("rate", "firing_rate", "rate_hz", "hz")
TIMES = (
    "time", "times", "t", "timestamp", "timestamps", "spike_time", "spike_times", "spiketime",
    "spiketimes", "time_ms", "times_ms", "t_ms", "time_s", "ms",
)  # fmt: skip
ADVICE = (
    "count the spikes of each neuron and divide by the duration, or give a SONATA "
    "spike report"
)  # advice for files of spike times

Int64 = NDArray[np.int64]
Spikes = tuple[Int64, NDArray[np.float64]]


def read_rates(path: Path, network: NetworkFile, duration: float | None = None) -> Rates:
    """Return the rate of each neuron of a network, shape (neurons,), from a file of any format.

    duration : of a spike report, in seconds; until its last spike if None
    Raises `BadInputError` with the fault and its place in one line.
    """
    with open_input(path) as file:
        head = file.read(len(HDF5_MAGIC))
    if head == HDF5_MAGIC:
        return _count_spikes(path, network, duration, report_spikes(path, network))
    recorder = recorder_of(path, named=duration is not None)
    if recorder is not None:
        if duration is None and not recorder.in_ms:
            raise BadInputError(
                f"{path}: spike times are in steps of unknown length; give the duration"
            )
        return _count_spikes(path, network, duration, recorder_spikes(path, network))
    if duration is not None:
        raise BadInputError(f"{path}: only spike reports have a duration; omit it")
    if head.startswith(NPY_MAGIC):
        raise BadInputError(f"{path}: is a single array; save it as npz, with the name `rate`")
    rates = (
        _read_npz(path, network.vertices) if head.startswith(b"PK") else _read_table(path, network)
    )
    check_rates(rates, network.vertices, str(path))
    return rates


def name_of_rates(path: Path) -> str:
    """Return the name of a file of rates, with the number of files that are read with it."""
    more = len(files_of_recorder(path)) - 1 if recorder_of(path, named=True) else 0
    return path.name if not more else f"{path.name} and {more} of other processes"


def _read_npz(path: Path, neurons: int) -> Rates:
    try:
        # up to twice as many are read, so that the message can give the count
        with open_arrays(path, max(MANY, 2 * neurons), ("rate",)) as archive:
            names = list(archive.files)
            if "rate" in names:
                rates: Rates = archive["rate"]
                return rates
    except BadInputError:
        raise
    except DAMAGE as error:
        reason = " ".join(str(error).split())[:120]
        raise BadInputError(f"{path}: not a valid npz file ({reason}); save it again") from error
    held = listed(names) or "nothing"
    raise BadInputError(f"{path}: holds {held}; it must hold an array `rate`")


def _read_table(path: Path, network: NetworkFile) -> NDArray[np.float64]:
    try:
        neurons = NeuronFinder(network)
    except BadInputError as error:
        raise BadInputError(f"{path}: {error}") from error
    rates, seen = np.zeros(network.vertices), np.zeros(network.vertices, np.bool_)
    with TextReader(path, comments=b"#%") as reader:
        line = reader.peek()
        mark = separator(line or "")
        fields = split_line(line or "", mark, reader.where(reader.line + 1))
        places, named = (0, 1), False
        if len(fields) > 1 and not any(map(is_number, fields[1:])):  # names of columns
            reader.next_line()
            places, named = _choose(fields, reader.where()), True
        order, cells = _Order(), NameCells()
        if len(fields) < 2 or (places == (0, 1) and len(fields) > 2 and is_number(fields[1])):
            raise BadInputError(
                f"{reader.where(reader.line + 1)}: {len(fields)} columns; give two, neuron and "
                "rate, or a header line that names them"
            )
        for (called, texts), where in NamedTable(reader, mark, len(fields)).pieces(places):
            if not named and neurons.are_numbers:
                _not_instants(called, where)
            found = neurons.find(cells.read(called, where), where)
            values = real_numbers(texts, where, "rate")
            refuse(values < 0, texts, where, "rate {} is negative; silent neurons have the rate 0")
            first = np.unique(found, return_index=True)[1]
            again = np.flatnonzero(seen[found])
            again = np.append(again, np.setdiff1d(np.arange(found.size), first))
            if again.size:
                row = int(again.min())
                raise BadInputError(
                    f"{where(row)}: neuron {called[row].strip()} has two rates; if these are "
                    f"spike times, {ADVICE}"
                )
            rates[found], seen[found] = values, True
            order.add(found, values)
    if not seen.all():
        missing = np.flatnonzero(~seen)
        more = f" (and {missing.size - 1} more)" if missing.size > 1 else ""
        raise BadInputError(
            f"{path}: no rate for neuron {neurons.name(int(missing[0]))}{more}; the network has "
            f"{network.vertices} neurons, silent ones have the rate 0"
        )
    if not named and order.is_in_time:
        raise BadInputError(
            f"{path}: the second column only increases, for any order of neurons, like spike "
            f"times: {ADVICE}; if it holds rates, name the columns: neuron,rate"
        )
    return rates


def _not_instants(called: Sequence[str], where: Where) -> None:
    """Refuse a table without column names whose neuron ids are fractions: spike times."""
    for row, name in enumerate(called):
        text = name.strip()
        if not text.isdecimal() and is_number(text) and float(text) >= 0:
            raise BadInputError(
                f"{where(row)}: {text[:40]} is not a neuron number; if the first column "
                f"holds spike times, {ADVICE}"
            )


class _Order:
    """Detects a table in order of time: increasing values, with neurons in no order.

    A table without column names that has one spike per neuron otherwise looks like rates.
    """

    def __init__(self) -> None:
        self._rows = 0
        self._grow = self._numbered = True
        self._last = (-1, -np.inf)

    def add(self, found: Int64, values: NDArray[np.float64]) -> None:
        """Process some lines; shapes (lines,)."""
        if not found.size:
            return
        neuron, value = self._last
        self._grow &= bool(np.all(np.diff(values, prepend=value) > 0))
        self._numbered &= bool(np.all(np.diff(found, prepend=neuron) > 0))
        self._last = int(found[-1]), float(values[-1])
        self._rows += found.size

    @property
    def is_in_time(self) -> bool:
        return self._rows > 2 and self._grow and not self._numbered


def _choose(fields: Sequence[str], where: str) -> tuple[int, int]:
    lower = [field.lower() for field in fields]
    found = [
        next((lower.index(name) for name in names if name in lower), None)
        for names in (NEURONS, RATES)
    ]
    neuron, rate = found
    if neuron is None or rate is None:
        times = next((fields[i] for i, name in enumerate(lower) if name in TIMES), None)
        if times is not None and rate is None:
            raise BadInputError(f"{where}: column {times!r}: spike times are not rates; {ADVICE}")
        if len(fields) == 2 and neuron is None and rate is None:
            return 0, 1
        raise BadInputError(f"{where}: columns are {listed(fields)}; name two neuron and rate")
    return neuron, rate


def _count_spikes(
    path: Path, network: NetworkFile, duration: float | None, spikes: Iterator[Spikes]
) -> NDArray[np.float64]:
    """Return spikes per second, shape (neurons,); spikes : neurons and times in ms, in pieces."""
    if duration is not None and not 0 < duration < np.inf:
        raise BadInputError(f"{path}: the duration is {duration} s; it must be above 0")
    counts, last = np.zeros(network.vertices, np.int64), 0.0
    for neurons, times in spikes:
        counts += np.bincount(neurons, minlength=counts.size)
        last = max(last, float(times.max()))
    seconds = last / 1000 if duration is None else duration
    if last > 1000 * seconds:
        raise BadInputError(f"{path}: a spike at {last:g} ms is after the duration of {seconds} s")
    if not seconds:
        raise BadInputError(
            f"{path}: without spikes the recording length is unknown; give its duration"
        )
    return counts / seconds
