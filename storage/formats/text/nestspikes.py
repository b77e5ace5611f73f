"""Files of NEST's spike recorder (backend `ascii`): a line ``sender time`` per spike.

NEST 3 writes two comments with its version and a line with the names of the columns, ``sender
time_ms`` or ``sender time_step time_offset``. Earlier versions write only the numbers. There is one
file per virtual process, LABEL-NODE-PROCESS.dat; all files of a recorder are read together.
Senders are the ids of nodes in NEST, which start from 1.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from storage.errors import BadInputError
from storage.files import open_input, read_error
from storage.formats.base import HEAD_BYTES, is_text
from storage.formats.neuronfinder import NeuronFinder
from storage.formats.text.reader import TextReader
from storage.formats.text.table import Rows, table_rows
from storage.store.network import ID, NetworkFile

ENDINGS = (".dat", ".gdf")
SENDER, MILLISECONDS, STEPS = "sender", ["time_ms"], ["time_step", "time_offset"]
_PROCESS = re.compile(r"(.+-\d+)-\d+(\.\w+)")
Spikes = tuple[NDArray[np.int64], NDArray[np.float64]]


class Recorder(NamedTuple):
    """Layout of the files.

    columns : numbers per line; in_ms : whether times are in ms; named : a line names the columns
    """

    columns: int
    in_ms: bool
    named: bool


def recorder_of(path: Path, named: bool = False) -> Recorder | None:
    """Return the layout of a file of a spike recorder; None if it is another file.

    named : without names of columns, the ending of the name shows that it holds spikes
    """
    with open_input(path) as file:
        try:
            head = file.read(HEAD_BYTES)
        except OSError as error:
            raise read_error(path, error) from error
    if not is_text(head):
        return None
    lines = (line.strip() for line in head.decode("utf-8", "replace").splitlines())
    first = next((line for line in lines if line and line[0] not in "#%"), "")
    names = first.split()
    if names[:1] == [SENDER] and (names[1:2] == MILLISECONDS or names[1:3] == STEPS):
        return Recorder(len(names), names[1:2] == MILLISECONDS, True)
    if named and path.suffix.lower() in ENDINGS:
        return Recorder(2, True, False)
    return None


def files_of_recorder(path: Path) -> list[Path]:
    """Return the files of all virtual processes of the recorder of a file, in order."""
    found = _PROCESS.fullmatch(path.name)
    if found is None:
        return [path]
    start, ending = found.groups()
    return sorted(
        one
        for one in path.parent.iterdir()
        if (other := _PROCESS.fullmatch(one.name)) is not None
        and other.groups() == (start, ending)
        and one.is_file()
    )


def recorder_spikes(path: Path, network: NetworkFile) -> Iterator[Spikes]:
    """Yield neurons that spike and times in ms (0 if unknown), in pieces of shape (spikes,).

    Raises `BadInputError` for senders that the network does not have, and for a network whose
    neurons are not identified by ids of NEST.
    """
    finder = _finder(path, network)
    for file in files_of_recorder(path):
        layout = recorder_of(file, named=True)
        if layout is None:
            raise BadInputError(f"{file}: not a file of the recorder of {path.name}; move it")
        with TextReader(file, comments=b"#%") as reader:
            if layout.named:
                reader.next_line()
            for rows in table_rows(reader, layout.columns):
                if rows.lines.size:
                    yield _spikes(rows, layout, finder)


def _finder(path: Path, network: NetworkFile) -> NeuronFinder:
    try:
        finder = NeuronFinder(network)
    except BadInputError as error:
        raise BadInputError(f"{path}: {error}") from error
    if not finder.are_numbers or ID not in network.meta.attributes or finder.least < 1:
        raise BadInputError(
            f"{path}: senders are ids of NEST, from 1, but the neurons of the network have names "
            "or start from 0; import its connections with the ids of NEST"
        )
    return finder


def _spikes(rows: Rows, layout: Recorder, finder: NeuronFinder) -> Spikes:
    senders, times = rows.ids(0), rows.weights(1).astype(np.float64)
    found = finder.find_numbers(senders)
    for wrong, fault in (
        (found < 0, "the network has no neuron {}"),
        (times < 0, "the time of a spike of {} is negative"),
    ):
        if wrong.any():
            row = int(np.flatnonzero(wrong)[0])
            where = rows.reader.where(int(rows.lines[row]))
            raise BadInputError(f"{where}: {fault.format(senders[row])}")
    return found, times if layout.in_ms else np.zeros_like(times)
