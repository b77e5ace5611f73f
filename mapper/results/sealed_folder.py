"""Output folders with a manifest that has the hashes of all other files, and its own.

Folders of compiled models are sealed: a file that changes after compilation is found on reading.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from chipsim.errors import ChipError
from hw.errors import HwError
from mapper.errors import MapperError, shown
from mapper.results.output_folder import REPORT
from storage.errors import StorageError
from storage.files import read_input, write_file
from storage.jsontext import parse_json
from storage.npz import DAMAGE

MANIFEST, SEAL = "manifest.json", "sha256"
MOST_JSON, MOST_FILE = 1 << 28, 1 << 31  # bytes


def write_sealed(folder: Path, files: Mapping[str, bytes], manifest: dict[str, Any]) -> None:
    """Write files, and the manifest with their hashes under `files`."""
    for name, data in files.items():
        write_file(folder / name, data)
    hashes = {name: hashlib.sha256(data).hexdigest() for name, data in files.items()}
    whole = manifest | {"files": hashes}
    write_file(folder / MANIFEST, json_bytes(whole | {SEAL: _seal(whole)}))


def read_manifest(folder: Path, schema: int) -> dict[str, Any]:
    """Read a manifest without its hash; raise `MapperError` if it is damaged or of another
    version."""
    path = folder / MANIFEST
    data = read_input(path, MOST_JSON)
    try:
        found = parse_json(data)
    except (ValueError, RecursionError) as error:
        raise MapperError(f"{path}: not valid JSON; compile the model again") from error
    if not isinstance(found, dict) or not isinstance(found.get("files"), dict):
        raise MapperError(f"{path}: not a manifest of a compiled model; compile the model again")
    if found.get("schema") != schema:
        raise MapperError(
            f"{path}: has version {shown(found.get('schema'))}, this mapper reads {schema}; "
            "compile the model again"
        )
    if found.pop(SEAL, None) != _seal(found):
        raise MapperError(
            f"{path}: was changed after compilation (its hash differs); compile again"
        )
    return found


def read_model_report(
    folder: Path, kind: str, about: str, require: Callable[[Any], None]
) -> dict[str, Any]:
    """Read report.json of a compiled model; raise `MapperError` if it is damaged.

    kind : its kind, `about` in words; require : raises `ValueError` naming an invalid field
    """
    path = folder / REPORT
    try:
        report = parse_json(read_input(path, MOST_JSON))
    except (ValueError, RecursionError) as error:
        raise MapperError(f"{path}: not valid JSON; compile the model again") from error
    if not isinstance(report, dict) or report.get("kind") != kind:
        raise MapperError(f"{path}: not a report of a {about}; compile the model again")
    try:
        require(report)
    except ValueError as error:
        raise MapperError(f"{path}: {error}; compile the model again") from error
    return report


def read_sealed(folder: Path, manifest: Mapping[str, Any]) -> dict[str, bytes]:
    """Read all files that a manifest names; raise `MapperError` naming one that has changed."""
    return {name: _unchanged(folder / name, wanted) for name, wanted in manifest["files"].items()}


def _unchanged(path: Path, wanted: str) -> bytes:
    data = read_input(path, MOST_FILE)
    if hashlib.sha256(data).hexdigest() != wanted:
        raise MapperError(
            f"{path}: was changed after compilation (its hash differs); compile again"
        )
    return data


def _seal(manifest: dict[str, Any]) -> str:
    """Return the hash of a manifest."""
    return hashlib.sha256(json_bytes(manifest)).hexdigest()


@contextmanager
def as_damage(folder: Path) -> Iterator[None]:
    """Report inconsistent files of a folder in one line.

    Hashes may match nevertheless, as they can be changed along with the files.
    """
    try:
        yield
    except (StorageError, ChipError, HwError, OSError, MemoryError):  # no damage, or said better
        raise
    except DAMAGE as error:
        raise MapperError(
            f"{folder}: its files are inconsistent; compile the model again"
        ) from error


def json_bytes(value: Any) -> bytes:
    """Return a value as an indented JSON text with sorted keys."""
    return (json.dumps(value, indent=1, sort_keys=True) + "\n").encode()
