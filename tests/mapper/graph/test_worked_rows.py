"""Rows that workers hold and the driver also reads."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mapper.concurrency.threads import ThreadTeam
from mapper.executors.executor import LocalShardExecutor
from mapper.graph.network_rows import NetworkRows, WorkedRows
from mapper.graph.rows import StreamedRows
from mapper.monitoring.monitor import Monitor
from storage.scratch.scratch import Scratch
from storage.store.network import NetworkFile
from tests.mapper.helpers import random_network


class Here:
    """Workers in this process."""

    def __init__(self, network: NetworkFile) -> None:
        self._rows = StreamedRows(network, network.vertex_sizes(), 0)

    def executor(self, source: NetworkRows, *_: Any) -> LocalShardExecutor:
        assert source.shift == 0
        return LocalShardExecutor(self._rows, ThreadTeam(1))


def test_the_driver_reads_each_block_from_the_network_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "net.bin"
    random_network(path, 300, 4000, block_size=64)
    with NetworkFile(path) as network, Scratch(tmp_path / "scratch") as scratch:
        expected = StreamedRows(network, network.vertex_sizes(), 0)
        rows = WorkedRows(network, 0, Here(network), scratch, Monitor())  # type: ignore[arg-type]
        assert rows.degrees().tolist() == expected.degrees().tolist()
        seen: list[int] = []
        read = StreamedRows.read

        def counted(self: StreamedRows, index: int) -> Any:
            seen.append(index)
            return read(self, index)

        monkeypatch.setattr(StreamedRows, "read", counted)
        for _ in range(2):
            for index in range(rows.chunks):
                for mine, theirs in zip(rows.read(index), read(expected, index), strict=True):
                    assert np.array_equal(mine, theirs)
        assert seen == list(range(rows.chunks))
