"""What paths and addresses name, as bytes that are read in pieces."""

from __future__ import annotations

from pathlib import Path

from storage.address import RemotePath
from storage.blobs.blob import Blob, FileBlob
from storage.blobs.readahead import DEFAULT_BUFFER
from storage.blobs.remote import RemoteBlob


def open_blob(path: Path, buffer: int = DEFAULT_BUFFER, *, keep: bool = True) -> Blob:
    """A file, or an object of a store.

    buffer : bytes that may be read ahead of an object; keep : a file stays open between reads
    Raises `BadInputError` if it cannot be read.
    """
    return RemoteBlob(path, buffer) if isinstance(path, RemotePath) else FileBlob(path, keep)
