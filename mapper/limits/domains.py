"""Domains: the cores that each vertex of a mapping may be on."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from storage.arrays import Int32, Int64, Mask

FIXED = -1  # kind of the vertices that must not move


@dataclass(frozen=True, slots=True)
class Domains:
    """The cores that each vertex may be on: vertices of a kind have one domain.

    kind : ndarray[int32], shape (vertices,), row of `table`, or `FIXED` for vertices that must not
        move
    table : ndarray[bool], shape (kinds, cores)
    """

    kind: Int32
    table: Mask

    @classmethod
    def of_fixed(cls, fixed: Mask, cores: int) -> Domains:
        """Return the domains of vertices that are fixed, or may be on all cores."""
        kind = np.where(fixed, FIXED, 0).astype(np.int32)
        return cls(kind, np.ones((1, cores), np.bool_))

    @property
    def fixed(self) -> Mask:
        """Return the vertices that must not move."""
        return self.kind == FIXED

    def allows(self, vertices: Int32 | Int64, cores: Int32 | Int64) -> Mask:
        """Return whether each vertex may move to its core; False for fixed vertices."""
        kind = self.kind[vertices]
        return (kind != FIXED) & self.table[kind, cores]

    def separated(self, group: Int32) -> Int32:
        """Return labels that differ where groups or kinds differ."""
        kind = np.where(self.fixed, self.table.shape[0], self.kind)
        key = group.astype(np.int64) * (self.table.shape[0] + 1) + kind
        return np.unique(key, return_inverse=True)[1].astype(np.int32)

    def of_clusters(self, cluster: Int32, clusters: int) -> Domains:
        """Return the domains of clusters, each of vertices of one kind."""
        kind = np.zeros(clusters, np.int32)
        kind[cluster] = self.kind
        return Domains(kind, self.table)
