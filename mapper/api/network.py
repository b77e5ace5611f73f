"""A network in Python: its file, its neurons and synapses, and the notes of its import."""

from __future__ import annotations

import os
import shutil
import tempfile
import weakref
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from mapper.errors import MapperError, as_argument_errors
from storage.address import RemotePath
from storage.files import PartialFile
from storage.formats.edges import edge_blocks
from storage.store.meta import NetworkMeta
from storage.store.network import NetworkFile
from storage.store.populations import read_populations
from storage.store.resharding import write_joined
from storage.store.traffic import describe, describe_weights, traffic_of

if TYPE_CHECKING:
    import scipy.sparse

NAME = "network.bin"
COPIED_BYTES = 1 << 22  # bytes copied at a time


class Network:
    """A network file, returned by `mapper.import_network`, `mapper.generate` and `mapper.load`.

    A network without a file of the user has a temporary one, which lasts as long as the object and
    its copies. Pickles of such a network contain it.

    Attributes
    ----------
    path : the network file, a folder of several files, or the address of either
    notes : a line for each kind of value that the import dropped, merged, changed or assumed
    """

    path: Path
    notes: tuple[str, ...]

    def __init__(self, path: Path, notes: tuple[str, ...] = (), folder: Path | None = None) -> None:
        """folder : a temporary folder to remove with this object

        Raises `MapperError` if the file is not a network.
        """
        self.path, self.notes, self._folder = path, notes, folder
        if folder is not None:
            weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)
        with as_argument_errors(), NetworkFile(path) as network:
            self._meta = network.meta

    @property
    def meta(self) -> NetworkMeta:
        """All metadata of the file, as `mapper info --json` prints it."""
        return self._meta

    @property
    def is_temporary(self) -> bool:
        """Whether its file is removed with the object."""
        return self._folder is not None

    @property
    def neurons(self) -> int:
        """Number of neurons."""
        return self._meta.neurons

    @property
    def synapses(self) -> int:
        """Number of synapses; of an undirected network, of edges."""
        return self._meta.synapses

    @property
    def attributes(self) -> tuple[str, ...]:
        """Names of the attributes of its neurons."""
        return tuple(self._meta.attributes)

    @property
    def populations(self) -> dict[str, int]:
        """Number of neurons of each population or layer by name; {} without populations."""
        with as_argument_errors(), NetworkFile(self.path) as network:
            found = read_populations(network)
        return {} if found is None else found.counts()

    def attribute(self, name: str) -> NDArray[Any]:
        """Return the values of an attribute, shape (neurons,); names for values with labels.

        Raises `MapperError` if the network does not have it.
        """
        if name not in self._meta.attributes:
            known = ", ".join(self.attributes) or "none"
            raise MapperError(f"{self.path}: has no attribute {name!r}; there are {known}")
        with as_argument_errors(), NetworkFile(self.path) as network:
            found = network.attribute(name)
        return found.values if found.labels is None else np.array(found.labels)[found.stored]

    def edges(self) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]:
        """Return sources, targets and weights of all synapses, each of shape (synapses,).

        Weights are the synaptic weights if the network has them: each edge of an undirected network
        is then a synapse in both directions. Otherwise they are the traffic, with each edge once.
        The arrays need 24 bytes for each synapse.
        """
        unit = self._meta.weight_unit
        with as_argument_errors(), NetworkFile(self.path) as network:
            if self._meta.synaptic is None:
                blocks = [
                    (one.source, one.target, one.weight * unit) for one in edge_blocks(network)
                ]
            else:
                blocks = [network.read_synapses(index) for index in range(network.block_count)]
        source, target, weight = (
            np.concatenate([np.zeros(0, kind), *(block[column] for block in blocks)])
            for column, kind in enumerate((np.int64, np.int64, np.float64))
        )
        return source, target, weight

    def to_scipy(self) -> scipy.sparse.csr_array:
        """Return the weights as a sparse matrix: entry (i, j) is the synapse from i to j."""
        from scipy.sparse import coo_array

        source, target, weight = self.edges()
        shape = (self.neurons, self.neurons)
        found = coo_array((weight, (source, target)), shape)
        if self._meta.undirected and self._meta.synaptic is None:
            found = found + found.T
        return found.tocsr()

    def save(self, path: str | os.PathLike[str]) -> Network:
        """Copy the network file to a new path; return the network there.

        Raises `MapperError` if it cannot be written.
        """
        target = Path(path)
        with as_argument_errors():
            if self.path.is_dir() or isinstance(self.path, RemotePath):
                with NetworkFile(self.path) as network:
                    write_joined(network, target, 1)
            else:
                with PartialFile(target) as file, self.path.open("rb") as given:
                    while piece := given.read(COPIED_BYTES):
                        file.write(piece)
                    file.commit()
        return Network(target, self.notes)

    def _facts(self) -> list[tuple[str, str]]:
        return [
            ("neurons", f"{self.neurons:,}"),
            ("synapses", f"{self.synapses:,}"),
            ("traffic", describe(traffic_of(self._meta))),
            ("synaptic weights", describe_weights(self._meta.synaptic)),
            ("attributes", ", ".join(self.attributes) or "none"),
        ]

    def __repr__(self) -> str:
        return f"<Network: {self.neurons:,} neurons, {self.synapses:,} synapses, {self.path.name}>"

    def _repr_html_(self) -> str:
        from mapper.reporting.notebook import table_html

        return table_html(self._facts())

    def __reduce__(self) -> tuple[Any, ...]:
        if self._folder is None:
            return Network, (self.path, self.notes)
        return _restored, (self.path.read_bytes(), self.notes)


def temporary() -> Path:
    """Return a new temporary folder for a network without a file."""
    return Path(tempfile.mkdtemp(prefix="mapper-"))


def _restored(content: bytes, notes: tuple[str, ...]) -> Network:
    """Return a pickled network with a temporary file."""
    folder = temporary()
    (folder / NAME).write_bytes(content)
    return Network(folder / NAME, notes, folder)
