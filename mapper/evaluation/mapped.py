"""Opens a network with its mapping and the relays of split neurons."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from chipsim.chip.model import Chip
from mapper.limits.split_neurons import write_split
from mapper.results.mapping_file import load_mapping, load_relays
from storage.store.network import NetworkFile
from storage.store.populations import called


@contextmanager
def open_mapped(
    network: NetworkFile,
    mapping: Path,
    chip: Chip,
    memory: int,
    threads: int = 1,
    scratch: Path | None = None,
) -> Iterator[tuple[NetworkFile, NDArray[np.int32]]]:
    """Yield the network of a mapping file, and the core of every neuron.

    If neurons were split, the network is a temporary one with their relays.

    memory : bytes for sorting; scratch : folder for the temporary network, None for the system's
    """
    core = load_mapping(mapping, network.vertices, chip, partial(called, network))
    split = load_relays(mapping, chip, network.vertices, network.meta.synapses)
    if split is None:
        yield network, core
        return
    relays, core_of_relays = split
    with tempfile.TemporaryDirectory(dir=scratch) as folder:
        path = Path(folder) / "split.bin"
        write_split(network, relays, path, memory, threads)
        with NetworkFile(path) as whole:
            yield whole, np.concatenate([core, core_of_relays])
