"""Open paths and addresses for random-access reads."""

from __future__ import annotations

from pathlib import Path

from storage.address import RemotePath
from storage.blobs.blob import Blob, FileBlob
from storage.blobs.readahead import DEFAULT_BUFFER


def open_blob(path: Path, buffer: int = DEFAULT_BUFFER, *, keep: bool = True) -> Blob:
    """Open a file, or an object in a store.

    buffer : bytes to prefetch from an object; keep : keep a file open between reads
    Raises `BadInputError` if it cannot be read.
    """
    if not isinstance(path, RemotePath):
        return FileBlob(path, keep)
    from storage.blobs.remote import RemoteBlob  # slow import

    return RemoteBlob(path, buffer)
