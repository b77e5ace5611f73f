"""Files of spike trains: npz archives, SONATA spike reports, and files of NEST's spike recorder.

* npz: arrays `neuron` and `tick`, shape (spikes,), whole numbers from 0. Written files also have
  the array `rate`, spikes per tick of each neuron, so that they are valid rate files, and `ticks`,
  the number of ticks.
* SONATA, and NEST with times: times in milliseconds; tick t covers t to t + 1 tick lengths.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from storage.errors import BadInputError
from storage.files import PartialFile, open_input
from storage.formats.columns import listed
from storage.formats.hdf5.sonataconfig import HDF5_MAGIC
from storage.formats.hdf5.spikes import report_spikes, save_report
from storage.formats.text.nestspikes import recorder_of, recorder_spikes
from storage.npz import DAMAGE, npz_bytes, open_arrays
from storage.store.network import NetworkFile

Int64 = NDArray[np.int64]
SONATA = (".h5", ".hdf5")
_MOST = 1 << 33  # spikes in a file
_EARLY = 1e-6  # rounding tolerance of times in ticks


class Trains(NamedTuple):
    """Spikes sorted by tick, then by neuron; each ndarray[int64], shape (spikes,)."""

    neuron: Int64
    tick: Int64

    def ends(self, ticks: int) -> Int64:
        """Return offsets of the spikes of each tick, shape (ticks + 1,)."""
        return np.searchsorted(self.tick, np.arange(ticks + 1)).astype(np.int64)

    def before(self, ticks: int) -> Trains:
        """Return the spikes before tick `ticks`."""
        kept = int(np.searchsorted(self.tick, ticks))
        return Trains(self.neuron[:kept], self.tick[:kept])


def read_trains(path: Path, network: NetworkFile, tick_ms: float) -> Trains:
    """Read the spikes of a file; tick_ms : tick length in ms, for SONATA times.

    Raises `BadInputError` with the fault in one line, for example spikes of neurons that the
    network does not have.
    """
    with open_input(path) as file:
        head = file.read(len(HDF5_MAGIC))
    recorder = None if head == HDF5_MAGIC or head.startswith(b"PK") else recorder_of(path)
    if recorder is not None and not recorder.in_ms:
        raise BadInputError(f"{path}: spike times are in steps of unknown length; record times")
    if head == HDF5_MAGIC or recorder is not None:
        read = report_spikes if recorder is None else recorder_spikes
        parts = list(read(path, network))
        neuron = np.concatenate([np.zeros(0, np.int64), *(one for one, _ in parts)])
        time = np.concatenate([np.zeros(0), *(times for _, times in parts)])
        ticks = np.floor(time / tick_ms + _EARLY)
        if ticks.size and ticks.max() >= 2**53:
            raise BadInputError(f"{path}: spike at {time.max()} ms; is its unit of time right?")
        tick = ticks.astype(np.int64)
    elif head.startswith(b"PK"):
        neuron, tick = _read_npz(path, network.vertices)
    else:
        raise BadInputError(
            f"{path}: neither an npz archive nor a SONATA spike report, nor of NEST"
        )
    order = np.lexsort((neuron, tick))
    return Trains(neuron[order], tick[order])


def _read_npz(path: Path, neurons: int) -> tuple[Int64, Int64]:
    try:
        with open_arrays(path, _MOST) as archive:
            names = list(archive.files)
            found = {name: archive[name] for name in ("neuron", "tick") if name in names}
    except BadInputError:
        raise
    except DAMAGE as error:
        reason = " ".join(str(error).split())[:120]
        raise BadInputError(f"{path}: not a valid npz file ({reason}); save it again") from error
    if len(found) < 2:
        raise BadInputError(
            f"{path}: holds {listed(names) or 'nothing'}; it must hold arrays `neuron` and `tick`"
        )
    for name, values in found.items():
        kinds = "iu" if values.size else "iuf"  # lists without elements are of floats
        if values.ndim != 1 or values.dtype.kind not in kinds:
            raise BadInputError(
                f"{path}: {name} is {values.dtype} of shape {values.shape}; give a list of whole "
                "numbers"
            )
    neuron, tick = (found[name].astype(np.int64) for name in ("neuron", "tick"))
    if neuron.size != tick.size:
        raise BadInputError(
            f"{path}: {neuron.size} neurons and {tick.size} ticks; give one of each per spike"
        )
    wrong = np.flatnonzero((neuron < 0) | (neuron >= neurons))
    if wrong.size:
        raise BadInputError(
            f"{path}: spike {wrong[0]} (from 0) has neuron {neuron[wrong[0]]}; the network has "
            f"{neurons}, numbered from 0"
        )
    wrong = np.flatnonzero(tick < 0)
    if wrong.size:
        raise BadInputError(
            f"{path}: spike {wrong[0]} (from 0) has tick {tick[wrong[0]]}; ticks start from 0"
        )
    return neuron, tick


def save_trains(
    path: Path, network: NetworkFile, trains: Trains, rate: NDArray[np.float64], ticks: int,
    tick_ms: float,
) -> None:  # fmt: skip
    """Write spikes as a SONATA report if the extension is SONATA's, else as npz.

    rate : spikes per tick of each neuron, shape (neurons,)
    """
    with PartialFile(path) as file:
        if path.name.lower().endswith(SONATA):
            save_report(file, network, trains.neuron, trains.tick * np.float64(tick_ms))
        else:
            found = {"neuron": trains.neuron, "tick": trains.tick, "rate": rate}
            file.write(npz_bytes({**found, "ticks": np.int64(ticks)}))
        file.commit()
