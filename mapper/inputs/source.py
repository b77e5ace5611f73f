"""Input of a run: a file or a Python object, and how to read it."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from numpy.typing import ArrayLike

from mapper.cache.cache import OFF, Cache
from storage.formats.columns import ColumnNames
from storage.store.network import NetworkFile, is_network_name
from storage.store.traffic import UNIFORM, WEIGHTS

RATES_WORDS = (UNIFORM, WEIGHTS)


class Effort(NamedTuple):
    """Threads, memory in bytes, and earlier imports, for reading an input."""

    threads: int
    memory: int
    cache: Cache = OFF


@dataclass(frozen=True, slots=True, eq=False)
class Source:
    """An input of a run.

    network : path of a network file, or of a file to import; an open `NetworkFile`; arrays
        (source, target[, weight]), a matrix, a graph of networkx, igraph or NIR, a data frame
    columns : columns to use of a table
    rates : firing rates to assign: "uniform" or "weights" (`RATES_WORDS`), the path of a file of
        rates, or an array of shape (neurons,); None uses the rates of the input, if any
    duration : length of a file of spikes in seconds
    weights_are : "rate" or "synapse", the meaning of the number of a synapse in the input; None
        for the default of the format (traffic for Python objects, except NIR graphs)
    neurons : number of neurons, for arrays
    sizes : size of each neuron, shape (neurons,), for an object
    made : network file that `import_once` has written; it is not imported again
    """

    network: Any
    columns: ColumnNames | None = None
    rates: str | Path | ArrayLike | None = None
    duration: float | None = None
    neurons: int | None = None
    sizes: ArrayLike | None = None
    weights_are: str | None = None
    made: Path | None = None

    @property
    def word(self) -> str | None:
        """Return the kind of traffic for importers; None for their default."""
        return self.rates if isinstance(self.rates, str) else None

    @property
    def is_object(self) -> bool:
        """Return whether the network is an object with rates: arrays, a matrix or a graph."""
        if isinstance(self.network, NetworkFile | Path):
            return False
        return not (is_nir(self.network) or is_table(self.network))

    @property
    def is_network_file(self) -> bool:
        """Return whether the network is a network file already."""
        if isinstance(self.network, Path):
            return is_network_name(self.network)
        return isinstance(self.network, NetworkFile)

    @property
    def wants_rates(self) -> bool:
        """Return whether a copy of the network with rates must be written."""
        if self.word is not None:
            return self.word == UNIFORM
        return self.rates is not None and not self.is_object


def is_nir(network: Any) -> bool:
    """Return whether an object is a NIR graph."""
    nir = sys.modules.get("nir")  # imported already if the object is a NIR graph
    return nir is not None and isinstance(network, nir.NIRGraph)


def is_table(network: Any) -> bool:
    """Return whether an object is a data frame of pandas or polars."""
    package = type(network).__module__.partition(".")[0]
    return package in ("pandas", "polars") and hasattr(network, "columns")
