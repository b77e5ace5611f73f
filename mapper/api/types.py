"""Types of the arguments of the Python interface, for type checkers."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias, TypedDict

from numpy.typing import ArrayLike, NDArray

if TYPE_CHECKING:
    from chipsim.chip.model import Chip
    from mapper.api.network import Network
    from storage.store.network import NetworkFile

PathLike: TypeAlias = str | os.PathLike[str]
Preset: TypeAlias = Literal["fast", "default", "strong", "classic"]
Objective: TypeAlias = Literal["hops", "time", "unicast", "core", "multicast", "cut"]
Rates: TypeAlias = ArrayLike | PathLike
ConstraintsLike: TypeAlias = PathLike | Mapping[str, Any]


class SparseMatrix(Protocol):
    """A matrix of SciPy."""

    @property
    def shape(self) -> tuple[int, ...]: ...

    def tocoo(self) -> Any: ...


class GraphObject(Protocol):
    """A graph of networkx or NIR."""

    @property
    def nodes(self) -> Any: ...

    @property
    def edges(self) -> Any: ...


class IgraphObject(Protocol):
    """A graph of igraph."""

    def get_edgelist(self) -> Any: ...

    def vcount(self) -> int: ...


class DataFrame(Protocol):
    """A table of edges, of pandas or polars."""

    @property
    def columns(self) -> Any: ...


if TYPE_CHECKING:
    ChipLike: TypeAlias = Chip | PathLike | tuple[int, int]
    NetworkLike: TypeAlias = (
        PathLike
        | Network
        | NetworkFile
        | tuple[ArrayLike, ArrayLike]
        | tuple[ArrayLike, ArrayLike, ArrayLike]
        | SparseMatrix
        | GraphObject
        | IgraphObject
        | DataFrame
        | NDArray[Any]
    )


class MethodSettings(TypedDict, total=False):
    """Values that override a preset; `mapper.settings.Settings` describes them."""

    method: str
    cores: int
    fill: float
    min_fill: float
    spread: Literal["no", "yes"]
    matching_repeats: int
    size_divisor: int
    stop_shrink: float
    bisection_repeats: int
    refinement_passes: int
    force_share: float
    force_iterations: int
    degree: int
    cluster_rounds: int
    coarse_degree: int
    block_vertices: int
    block_passes: int
    fm_passes: int
    smoothing: int
    placement: Literal["fast", "default", "strong"]
    placer: str
    level_budget: int
    starts: int
    level_tries: int
    level_fm_passes: int
    hop_passes: int
    exchanges: int
    hop_budget: int
    cycles: int
    proposals: int
    cycle_proposals: int
    anneal_budget: int
    net_budget: int
    recuts: int
    net_pins: int
    net_time: int
    packet_cycles: int
    tick_proposals: int
    tree_cycles: int
    tree_proposals: int
