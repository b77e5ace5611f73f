"""Names of neurons in an exported file: the ids or names of the network, if it has them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from storage.errors import BadInputError
from storage.formats.text.render import Words
from storage.store.network import ID, NetworkFile

Int64 = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Called:
    """Ids or names of neurons in a file.

    ids : shape (neurons,), the id of each, or the index of its name in `names`; None if neurons
        are identified by their numbers
    names : all names, None if neurons are identified by integers
    """

    ids: Int64 | None = None
    names: list[str] | None = None

    def of(self, neurons: Int64) -> Int64:
        """Return ids of neurons, or indices of their names."""
        return neurons if self.ids is None else self.ids[neurons]

    def words(self, spell: Callable[[str], str]) -> Words | None:
        """Return the names as spelled in a file; None if there are none."""
        return None if self.names is None else Words.of(spell(n).encode() for n in self.names)


def read_called(net: NetworkFile, holds: Callable[[str], bool] | None = None) -> Called:
    """Return the ids or names of the neurons of a network.

    holds : whether the format can hold a name, if it cannot hold all
    Raises `BadInputError` for duplicate names, which a file would merge into one neuron, and for
    names and ids that cannot be written.
    """
    if ID not in net.meta.attributes:
        return Called()
    attribute = net.attribute(ID)
    ids, names = attribute.stored, attribute.labels
    if attribute.unit != 1:
        raise BadInputError(f"{net.path}: ids are fractions; write it as npz")
    if names is not None:
        distinct = {name: place for place, name in reversed(list(enumerate(names)))}
        ids = np.array([distinct[name] for name in names], np.int64)[ids]
    order = np.sort(ids)
    again = np.flatnonzero(order[1:] == order[:-1])
    if again.size:
        wrong = int(order[again[0]])
        shown = str(wrong) if names is None else repr(names[wrong])
        raise BadInputError(
            f"{net.path}: two neurons are called {shown} and would be merged; write it as npz"
        )
    if names is None:
        if int(order[0]) < 0:
            raise BadInputError(
                f"{net.path}: a neuron has the id {order[0]}; only npz holds negative ids"
            )
        return Called(ids)
    for name in names:
        if not (_is_sound(name) and (holds is None or holds(name))):
            raise BadInputError(
                f"{net.path}: a neuron is called {name[:40]!r}, which this format cannot hold; "
                "write it as npz"
            )
    return Called(ids, names)


def _is_sound(name: str) -> bool:
    """Return whether a name is valid Unicode; JSON can contain lone surrogates."""
    return not any("\ud800" <= mark <= "\udfff" for mark in name)
