"""Results of a command without times: equal for equal work, however often it was disturbed."""

from __future__ import annotations

import csv
import hashlib
import io
import json
import stat
from pathlib import Path
from typing import Any

from scripts.torture.folder import Stamp, stamp, stamps

MEASURED = {"seconds", "stages", "resources", "command", "workers", "peak_anon_bytes"}
"""Keys and columns of measurements, of the command line, which has --resume or not, and of the
workers that were lost. A resumed run lists only its own stages."""
UNREAD = (".html", ".log")
"""Files with times in their text: only their presence counts."""
Results = dict[str, str]
"""Name of each file, and the digest of its content."""
CACHE = ".cache"
"""Folder of the cache and the catalogue, which are no results."""
MOST_DIGESTS = 10_000
_DIGESTS: dict[tuple[str, Stamp], str] = {}
"""Digests of files whose names and stamps have been seen."""


def results(path: Path) -> Results:
    """Return the digests of a file, or of all files in a folder but the cache; {} if it does not
    exist."""
    if path.is_dir() and not path.is_symlink():
        return {
            name: _digest(path / name, one)
            for name, one in stamps(path).items()
            if not stat.S_ISDIR(one.mode) and not name.startswith(f"{CACHE}/")
        }
    return {path.name: _digest(path, stamp(path.stat()))} if path.exists() else {}


def _digest(path: Path, state: Stamp) -> str:
    if path.is_symlink():
        return f"to {path.readlink()}"
    if path.suffix in UNREAD:
        return "present"  # a power cut may empty the log, which is not synced
    key = path.name, state
    if key not in _DIGESTS:
        if len(_DIGESTS) >= MOST_DIGESTS:
            _DIGESTS.clear()
        _DIGESTS[key] = _read(path)
    return _DIGESTS[key]


def _read(path: Path) -> str:
    data = path.read_bytes()
    if path.suffix == ".h5":
        data = _plain_hdf5(path)
    elif path.suffix == ".json":
        data = plain_json(data.decode(errors="replace")).encode()
    elif path.name == "sweep.csv":
        data = _plain_table(data.decode(errors="replace")).encode()
    return hashlib.sha256(data).hexdigest()[:16]


def _plain_hdf5(path: Path) -> bytes:
    """Return the content of an HDF5 file. The library leaves out the compression of blocks for
    which it cannot allocate memory, so that equal contents may have different bytes."""
    import h5py

    parts: list[str] = []

    def add(name: str, one: Any) -> None:
        attributes = {key: str(value) for key, value in sorted(one.attrs.items())}
        data = (one.dtype, one[()].tolist()) if isinstance(one, h5py.Dataset) else ()
        parts.append(repr((name, attributes, data)))

    try:
        with h5py.File(path) as file:
            add("/", file)
            file.visititems(add)
    except OSError:  # torn
        return path.read_bytes()
    return "\n".join(parts).encode()


def plain_json(text: str) -> str:
    """Return JSON without measurements; other text unchanged."""
    try:
        return json.dumps(_plain(json.loads(text)), indent=0, sort_keys=True)
    except ValueError:
        return text


def _plain(found: Any) -> Any:
    if isinstance(found, dict):
        return {key: _plain(value) for key, value in found.items() if key not in MEASURED}
    return [_plain(one) for one in found] if isinstance(found, list) else found


def _plain_table(text: str) -> str:
    rows = csv.DictReader(io.StringIO(text))
    return json.dumps([{k: v for k, v in row.items() if k not in MEASURED} for row in rows])


def different(found: Results, right: Results) -> str:
    """Return the names of files that differ, or ""."""
    names = [name for name in sorted(found | right) if found.get(name) != right.get(name)]
    kinds = [
        "missing" if n not in found else "extra" if n not in right else "differs" for n in names
    ]
    return ", ".join(f"{name} ({kind})" for name, kind in zip(names, kinds, strict=True))
