"""What neurons are called in an exported file: by their ids or names, if the network has some."""

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
    """How a file names neurons.

    ids : shape (neurons,), the id of each, or where its name is in `names`; None if neurons are
        called by their numbers
    names : all names, None if neurons are called by whole numbers
    """

    ids: Int64 | None = None
    names: list[str] | None = None

    def of(self, neurons: Int64) -> Int64:
        """Ids of neurons, or places of their names."""
        return neurons if self.ids is None else self.ids[neurons]

    def words(self, spell: Callable[[str], str]) -> Words | None:
        """The names as they are written in a file; None if there are none."""
        return None if self.names is None else Words.of(spell(n).encode() for n in self.names)


def read_called(net: NetworkFile, holds: Callable[[str], bool] | None = None) -> Called:
    """What to call the neurons of a network.

    holds : whether the format can hold a name, if it can't hold all
    Raises `BadInputError` for two of one name, which a file would make one neuron, and for names
    and ids that can't be written.
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
            f"{net.path}: two neurons are called {shown}, and would become one; write it as npz"
        )
    if names is None:
        if int(order[0]) < 0:
            raise BadInputError(
                f"{net.path}: a neuron has the id {order[0]}; negative ones can be held by npz only"
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
    """Whether a name is text in UTF-8; JSON can smuggle in halves of characters."""
    return not any("\ud800" <= mark <= "\udfff" for mark in name)
