"""The neurons of a mapping as NIR nodes: one group per core and kind of neuron."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mapper.exports.base import MappedRun

_PARAMETERS = {
    "CubaLI": ("tau_syn", "tau_mem", "r", "v_leak", "w_in"),
    "CubaLIF": ("tau_syn", "tau_mem", "r", "v_leak", "v_threshold", "v_reset", "w_in"),
    "I": ("r",),
    "IF": ("r", "v_threshold", "v_reset"),
    "LI": ("tau", "r", "v_leak"),
    "LIF": ("tau", "r", "v_leak", "v_threshold", "v_reset"),
    "Threshold": ("threshold",),
}
_STORED = {"tau_mem": "tau", "threshold": "v_threshold"}
_ENDS = ("Input", "Output")


class Groups:
    """Groups by core, then by kind.

    group, local : ndarray[int64], shape (neurons,), group of each neuron and its place in it
    count : ndarray[int64], shape (groups,), neurons per group
    names : of their nodes; cores : number of used cores
    """

    def __init__(self, run: MappedRun, kinds: list[str], kind: NDArray[np.int64]) -> None:
        self._run = run
        key = run.core.astype(np.int64) * len(kinds) + kind
        keys, self.group = np.unique(key, return_inverse=True)
        self._kinds = [kinds[one % len(kinds)] for one in keys.tolist()]
        self._cores = (keys // len(kinds)).tolist()
        self.count = np.bincount(self.group)
        self._order = np.argsort(self.group, kind="stable")
        self._ends = np.append(0, np.cumsum(self.count))
        self.local = np.empty(key.size, np.int64)
        self.local[self._order] = np.arange(key.size) - self._ends[self.group[self._order]]
        self.cores = len(set(self._cores))
        several = {core for core in self._cores if self._cores.count(core) > 1}
        self._labels = [
            f"{core}_{name}" if core in several else str(core)
            for core, name in zip(self._cores, self._kinds, strict=True)
        ]
        self.names = [f"core_{label}" for label in self._labels]

    def members(self, group: int) -> NDArray[np.int64]:
        """Return the neurons of a group, in order of their places."""
        return self._order[self._ends[group] : self._ends[group + 1]]

    def matrix_name(self, source: int, target: int) -> str:
        """Return the name of the node of the synapses between two groups."""
        return f"weights_{self._labels[source]}_to_{self._labels[target]}"

    def nodes(self, nir: Any, values: dict[str, NDArray[np.float64]]) -> dict[str, Any]:
        """Return the nodes of neurons; values : parameters by name, each of shape (neurons,)."""
        table, width = self._run.columns(), self._run.chip.width
        extras = {f"{name}s": table[name] for name in ("id", "size") if name in table}
        found = {}
        for group, (name, kind, core) in enumerate(
            zip(self.names, self._kinds, self._cores, strict=True)
        ):
            own = self.members(group)
            about = {"core": core, "x": core % width, "y": core // width, "neurons": own}
            about |= {name: column[own] for name, column in extras.items()}
            if kind in _ENDS:
                node = getattr(nir, kind)({kind.lower(): np.array([own.size])}, metadata=about)
            else:
                given = {
                    name: values[_STORED.get(name, name)][own]
                    for name in _PARAMETERS[kind]
                    if _STORED.get(name, name) in values
                }
                node = getattr(nir, kind)(**given, metadata=about)
            found[name] = node
        return found

    def ends(self, nir: Any, nodes: dict[str, Any]) -> list[tuple[str, str]]:
        """Add inputs and outputs; return their edges.

        Inputs are the model's if it has any; otherwise every group gets one. Every group except
        inputs and outputs of the model gets an output.
        """
        edges = []
        given = "Input" in self._kinds
        for group, (name, kind) in enumerate(zip(self.names, self._kinds, strict=True)):
            size = np.array([self.count[group]])
            if not given:
                nodes[f"input_{self._labels[group]}"] = nir.Input({"input": size})
                edges.append((f"input_{self._labels[group]}", name))
            if kind not in _ENDS:
                nodes[f"output_{self._labels[group]}"] = nir.Output({"output": size})
                edges.append((name, f"output_{self._labels[group]}"))
        return edges
