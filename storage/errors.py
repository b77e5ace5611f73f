"""What can go wrong with files: each message is one line that says what, where and what to try."""

from __future__ import annotations


class StorageError(Exception):
    """Base of every error raised by `storage`; ``str(error)`` is one complete line."""


class BadInputError(StorageError, ValueError):
    """The content of a file or of an array breaks the rules of its format."""


class CorruptError(BadInputError):
    """A network or scratch file is damaged: truncated, altered, or not of this format."""


class WriteError(StorageError, OSError):
    """The system refused to write: disk full, no permission, no such folder."""
