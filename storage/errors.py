"""Errors of files: each message is one line with the place, the fault and the remedy."""

from __future__ import annotations

from pathlib import Path

from storage.printable import plain


def one_line(text: str) -> str:
    """Return a text without line breaks and unprintable characters."""
    return plain(" ".join(text.splitlines()))


class StorageError(Exception):
    """Base of every error raised by `storage`; ``str(error)`` is one complete, printable line."""

    def __init__(self, message: str) -> None:
        super().__init__(one_line(message))


class BadInputError(StorageError, ValueError):
    """The content of a file or of an array violates its format."""


class CorruptError(BadInputError):
    """A network or scratch file is damaged: truncated, altered, or not of this format."""


class WriteError(StorageError, OSError):
    """The system refused to write: disk full, no permission, no such folder."""


class LockedError(WriteError):
    """Another process, or another thread, is writing to the same output."""


class StorageWarning(UserWarning):
    """An unexpected event that does not affect the result."""


def reason_of(error: BaseException) -> str:
    """Return the text of an error in at most 120 characters; of a system error without its number.

    Texts of libraries may quote the bytes of a file.
    """
    text = (error.strerror if isinstance(error, OSError) else None) or str(error)
    return " ".join(text.split())[:120]


def write_error(path: Path, error: OSError) -> WriteError:
    """Return a system error on `path` as a one-line `WriteError`."""
    if isinstance(error, WriteError):
        return error
    return WriteError(
        f"{path}: cannot write: {reason_of(error)}; nothing was kept, choose another place"
    )


class MemoryShortError(StorageError):
    """The input does not fit in the memory budget; the message states the memory needed."""


def with_place(place: str, error: BadInputError | MemoryShortError) -> StorageError:
    """Return an error of the same meaning whose message begins with a place."""
    of = MemoryShortError if isinstance(error, MemoryShortError) else BadInputError
    return of(" ".join(f"{place}: {error}".split()))  # names may contain any characters


class MissingExtraError(StorageError):
    """The request needs a package that is not installed; the message names the extra."""


class MissingObjectError(BadInputError):
    """A store has no such object."""


class ChangedObjectError(BadInputError):
    """An object in a store changed, or was deleted, while a command read it."""
