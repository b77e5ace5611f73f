"""What can go wrong with files: each message is one line that says what, where and what to try."""

from __future__ import annotations

from pathlib import Path


class StorageError(Exception):
    """Base of every error raised by `storage`; ``str(error)`` is one complete line."""


class BadInputError(StorageError, ValueError):
    """The content of a file or of an array breaks the rules of its format."""


class CorruptError(BadInputError):
    """A network or scratch file is damaged: truncated, altered, or not of this format."""


class WriteError(StorageError, OSError):
    """The system refused to write: disk full, no permission, no such folder."""


class LockedError(WriteError):
    """Another process, or another thread, is writing to the same output."""


class StorageWarning(UserWarning):
    """Something that went otherwise than one would expect, but harms no result."""


def write_error(path: Path, error: OSError) -> WriteError:
    """The one-line form of what the system said about `path`."""
    reason = error.strerror or str(error)
    return WriteError(f"{path}: cannot write: {reason}; nothing was kept, choose another place")


class MemoryShortError(StorageError):
    """What is to be read does not fit the memory that it may use; says how much would do."""


class MissingExtraError(StorageError):
    """What is asked for needs a package that is not installed; says which extra has it."""


class MissingObjectError(BadInputError):
    """A store has no such object."""
