"""Parts of all contracts: the error, temporary folders and their files, clear messages."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

MOST_SAID = 300  # characters of a message without the path


class ContractError(AssertionError):
    """An object does not keep the contract of its interface; the message says where."""


def require(kept: bool, fault: str) -> None:
    """Raise `ContractError` unless the contract is kept."""
    if not kept:
        raise ContractError(fault)


@contextmanager
def own_folder() -> Iterator[Path]:
    """Yield an empty temporary folder."""
    with tempfile.TemporaryDirectory(prefix="mapper-contract-") as folder:
        yield Path(folder)


def contents(folder: Path) -> dict[str, bytes]:
    """Return the files in a folder by name, without subfolders."""
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir()) if path.is_file()}


def unclear(message: str, path: Path) -> str:
    """Return why the message of an error on a file is unclear, "" if it is one plain line."""
    said = message.removeprefix(f"{path}: ")
    if said == message:
        return f"does not start with the file: {message}"
    if not said.isprintable() or len(said) > MOST_SAID or len(said.split()) < 2:
        return f"is not one plain line: {said!r}"
    return ""
