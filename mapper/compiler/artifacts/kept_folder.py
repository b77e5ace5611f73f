"""Compiled folders in the cache: all files, the report and the outcome.

The report says how a command was called and how long it took, so the report and its page are
written again. A folder was checked and judged before it was put into the cache.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from mapper.cache.cache import Slot
from mapper.compiler.artifacts.report import Report, write_report
from mapper.compiler.outcome import CompileOutcome
from mapper.reporting.make import PAGE
from mapper.results.output_folder import REPORT
from storage.files import RESERVED, write_file

KIND = "compiled"


class KeptFolder(NamedTuple):
    """A folder in the cache. files : content by path; report : as JSON"""

    files: dict[str, bytes]
    report: bytes
    outcome: CompileOutcome

    def write(self, folder: Path, changed: dict[str, Any]) -> Report:
        """Write the files into an empty folder; return the report.

        changed : values of the report that differ
        """
        for name, data in self.files.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            write_file(path, data)
        report: Report = json.loads(self.report) | changed
        write_report(folder, report)
        return report


def kept_folder(slot: Slot) -> KeptFolder | None:
    """Return a folder from the cache; None if it is not there."""
    data = slot.get()
    return None if data is None else msgspec.msgpack.decode(data, type=KeptFolder)


def keep_folder(slot: Slot, folder: Path, report: Report, outcome: CompileOutcome) -> None:
    """Put a folder into the cache, without lock files that could not be removed."""
    if not slot.is_on:
        return
    files = {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name not in (REPORT, PAGE) and not path.name.endswith(RESERVED)
    }
    text = json.dumps(report).encode()
    slot.put(msgspec.msgpack.encode(KeptFolder(files, text, outcome)))
