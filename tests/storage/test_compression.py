"""zstd frames: damage and a lack of memory are different errors."""

from __future__ import annotations

from typing import Any

import pytest
import zstandard

from storage.compression import compress, decompress
from storage.errors import CorruptError


def test_frames() -> None:
    frame = compress(b"abc" * 1000)
    assert len(frame) < 100
    assert decompress(frame) == b"abc" * 1000
    for damaged in (frame[:-1], frame[:-1] + bytes([frame[-1] ^ 1]), b"none"):
        with pytest.raises(CorruptError):
            decompress(damaged)


@pytest.mark.parametrize("kind", ["ZstdCompressor", "ZstdDecompressor"])
def test_a_lack_of_memory(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """zstd reports it with the error that it also has for damaged frames."""

    def fail(*_: Any, **__: Any) -> Any:
        raise zstandard.ZstdError("cannot compress: Allocation error : not enough memory")

    frame = compress(b"a")
    monkeypatch.setattr(zstandard, kind, fail)
    with pytest.raises(MemoryError):
        compress(b"a") if kind == "ZstdCompressor" else decompress(frame)
