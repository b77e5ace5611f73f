"""Synthetic networks: one module per kind, streamed to a network file.

::

    from storage.generate import Cortex, generate

    meta = generate(Cortex(side=64, fanout=20), Path("cortex.bin"), seed=1)

Importing this package is fast: the writer, with its compiled kernels, is imported on first use.
"""

from __future__ import annotations

from storage.generate.base import Folder, Helpers, NetworkSpec, Progress
from storage.generate.cortex import Cortex
from storage.generate.draws import VERSIONS, Draws
from storage.generate.generation import generate
from storage.generate.grouped import GroupCnn, GroupDnn
from storage.generate.layered import Layered
from storage.generate.microcircuit import Microcircuit

KINDS: dict[str, type[NetworkSpec]] = {
    spec.kind: spec for spec in (Cortex, Layered, Microcircuit, GroupDnn, GroupCnn)
}
"""All kinds by name. The fields of the dataclass are its settings, with ``metadata["help"]``."""

__all__ = [
    "KINDS",
    "VERSIONS",
    "Cortex",
    "Draws",
    "Folder",
    "GroupCnn",
    "GroupDnn",
    "Helpers",
    "Layered",
    "Microcircuit",
    "NetworkSpec",
    "Progress",
    "generate",
]
