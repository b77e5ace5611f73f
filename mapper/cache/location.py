"""Folder of the cache and the catalogue, and whether its file system can hold them."""

from __future__ import annotations

import os
import warnings
from pathlib import Path

import psutil

from mapper.cache.database import is_supported
from mapper.errors import UsageError
from mapper.monitoring.resources import parse_bytes
from storage.errors import StorageWarning

NAME = "mapper"
"""Name of the folders, in those for caches and data on the platform, as for kernels."""
FOLDER, SIZE = "MAPPER_CACHE_DIR", "MAPPER_CACHE_SIZE"
DEFAULT_SIZE = 2 << 30
"""Bytes of the cache, unless MAPPER_CACHE_SIZE says otherwise."""
NETWORK = {
    "9p", "afs", "beegfs", "ceph", "cifs", "fuse.ceph", "fuse.glusterfs", "fuse.sshfs", "gpfs",
    "lustre", "nfs", "nfs4", "pvfs2", "smb3", "smbfs",
}  # fmt: skip
"""File systems on which processes of several machines would map the same file, each its own copy
of it."""


def cache_folder() -> Path:
    """Return the folder of the cache: MAPPER_CACHE_DIR, or in the platform's folder of caches."""
    import platformdirs

    return _given() or platformdirs.user_cache_path(NAME, appauthor=False)


def catalogue_folder() -> Path:
    """Return the folder of the catalogue: MAPPER_CACHE_DIR, or in the platform's folder of data,
    because a cache is deleted at any time."""
    import platformdirs

    return _given() or platformdirs.user_data_path(NAME, appauthor=False)


def cache_size() -> int:
    """Return the bytes that the cache may have; 0 if it is off.

    Raises `UsageError` if MAPPER_CACHE_SIZE is no size.
    """
    text = os.environ.get(SIZE)
    if not text:
        return DEFAULT_SIZE
    try:
        return 0 if text == "0" else parse_bytes(text)
    except ValueError as error:
        raise UsageError(f"{SIZE}: {error}") from error


def reason_against(folder: Path) -> str:
    """Return the reason why a folder cannot hold a database, or ""."""
    if not is_supported():
        return "the installed lmdb writes files of another format; install lmdb 1 to 3"
    if is_shared(folder):
        return f"{folder}: is on a network file system; set {FOLDER} to a local folder"
    return ""


def is_shared(folder: Path) -> bool:
    """Return whether a folder is on a file system of the network."""
    real, found = Path(os.path.realpath(folder)), ("", "")
    for one in psutil.disk_partitions(all=True):
        if real.is_relative_to(one.mountpoint) and len(one.mountpoint) >= len(found[0]):
            found = one.mountpoint, one.fstype
    return found[1].lower() in NETWORK


def _given() -> Path | None:
    text = os.environ.get(FOLDER)
    return Path(text) if text else None


def note(text: str) -> None:
    """Print a note on the cache."""
    warnings.warn(text, StorageWarning, stacklevel=3)
