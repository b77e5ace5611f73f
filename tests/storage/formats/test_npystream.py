"""Arrays of npz archives as streams."""

from __future__ import annotations

import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from storage.formats.columnar import npystream
from storage.formats.columnar.npystream import ArrayArchive, DamagedError, read_together


class Greedy:
    """Takes all input at once, and asks for more while it holds output, as isal before 1.9."""

    def __init__(self, flag: int) -> None:
        self._stream, self._held = zlib.decompressobj(-15), b""

    @property
    def needs_input(self) -> bool:
        return not self.eof

    @property
    def eof(self) -> bool:
        return self._stream.eof and not self._held

    def decompress(self, data: bytes, most: int) -> bytes:
        self._held += self._stream.decompress(data)
        part, self._held = self._held[:most], self._held[most:]
        return part


@pytest.mark.parametrize("inflater", [None, Greedy])
def test_columns_in_pieces(inflater: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if inflater is not None:
        monkeypatch.setattr(npystream.igzip_lib, "IgzipDecompressor", inflater)
    rng = np.random.default_rng(0)
    arrays = {"a": rng.integers(0, 9, 40000), "b": rng.random(40000)}
    path = tmp_path / "arrays.npz"
    np.savez_compressed(path, **arrays)  # type: ignore[arg-type]
    with ArrayArchive(path) as archive:
        columns = [archive.column(name) for name in "ab"]
        pieces = list(read_together(columns, 7001))
    for at, name in enumerate("ab"):
        np.testing.assert_array_equal(np.concatenate([piece[at] for piece in pieces]), arrays[name])


def test_an_array_that_ends_early(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(npystream.igzip_lib, "IgzipDecompressor", Greedy)
    path = tmp_path / "arrays.npz"
    np.savez_compressed(path, a=np.arange(40000))
    with ArrayArchive(path) as archive:
        archive._members["a"].compress_size //= 2
        with pytest.raises(DamagedError, match="cut off"):
            archive.column("a").read(40000)
