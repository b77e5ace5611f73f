"""Flits of cores on a mesh, encoded as numbers.

From bit 0 on: target node and source node, with as many bits as the mesh needs; kind and stream, 4
bits each; from `TOP` on the value.
"""

from __future__ import annotations

from numba import njit

from chipsim.npu.mesh_state import (
    TOP,
)


@njit(cache=True, nogil=True)
def _pack(bits, target, source, kind, stream, value):
    low = target | (source << bits) | (kind << (2 * bits)) | (stream << (2 * bits + 4))
    return value * TOP + low
