"""Interface of a network for the metrics: blocks of consecutive vertices with their synapses.

This package does not depend on how a network is stored: any object with this interface works.
"""

from __future__ import annotations

from typing import Protocol, TypeAlias, runtime_checkable

import numpy as np
import numpy.typing as npt

ByteArray: TypeAlias = npt.NDArray[np.uint8]
Int32Array: TypeAlias = npt.NDArray[np.int32]
Int64Array: TypeAlias = npt.NDArray[np.int64]
FloatArray: TypeAlias = npt.NDArray[np.float64]
BoolArray: TypeAlias = npt.NDArray[np.bool_]


class SynapseBlock(Protocol):
    """Consecutive vertices of a network and the synapses that leave them."""

    @property
    def first(self) -> int:
        """Id of the first vertex of the block."""
        ...

    def outgoing(self) -> tuple[Int64Array, Int32Array, Int64Array]:
        """Return the outgoing synapses of the block's vertices.

        Returns
        -------
        indptr : ndarray[int64], shape (vertices of the block + 1,)
            Vertex ``first + i`` owns the entries ``indptr[i]`` to ``indptr[i + 1] - 1``.
        targets : ndarray[int32], shape (synapses of the block,), vertex id
            Increasing within a vertex, without repeats and without the vertex itself.
        weights : ndarray[int64], shape (synapses of the block,), in weight units, >= 0
        """
        ...


@runtime_checkable
class BlockSource(Protocol):
    """A network whose blocks can be read in any order, by several threads concurrently."""

    @property
    def block_count(self) -> int:
        """Number of blocks."""
        ...

    def read_block(self, index: int) -> SynapseBlock:
        """Return block ``index``, from 0."""
        ...
