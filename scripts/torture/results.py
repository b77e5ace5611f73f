"""Results of a command without times: equal for equal work, however often it was disturbed."""

from __future__ import annotations

import csv
import hashlib
import io
import json
from pathlib import Path
from typing import Any

MEASURED = {"seconds", "stages", "resources", "command", "peak_anon_bytes"}
"""Keys and columns of measurements, and of the command line, which has --resume or not. A resumed
run lists only its own stages."""
UNREAD = (".html", ".log")
"""Files with times in their text: only their presence counts."""
Results = dict[str, str]
"""Name of each file, and the digest of its content."""


def results(path: Path) -> Results:
    """Return the digests of a file, or of all files in a folder; {} if it does not exist."""
    if path.is_dir() and not path.is_symlink():
        return {
            str(one.relative_to(path)): _digest(one)
            for one in sorted(path.rglob("*"))
            if one.is_symlink() or not one.is_dir()
        }
    return {path.name: _digest(path)} if path.exists() else {}


def _digest(path: Path) -> str:
    if path.is_symlink():
        return f"to {path.readlink()}"
    if path.suffix in UNREAD:
        return "present"  # a power cut may empty the log, which is not synced
    data = path.read_bytes()
    if path.suffix == ".json":
        data = plain_json(data.decode(errors="replace")).encode()
    elif path.name == "sweep.csv":
        data = _plain_table(data.decode(errors="replace")).encode()
    return hashlib.sha256(data).hexdigest()[:16]


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
