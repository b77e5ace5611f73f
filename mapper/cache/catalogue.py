"""The catalogue: every finished run, compilation and sweep of a user, with figures and folder.

Rows are added in transactions by any number of processes, and never changed.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import msgspec

from mapper.cache.database import Database, DatabaseError
from mapper.cache.location import catalogue_folder, note, reason_against
from mapper.errors import MapperError
from mapper.version import version
from storage.files import real_path

FILE = "runs.mdb"
FILE_BYTES = 1 << 30
"""Bytes of the file, for about a million rows."""
PATIENCE = 60.0
"""Seconds to wait for other processes."""
ROW = b"r"

Kind = Literal["run", "compile", "sweep"]


class Row(msgspec.Struct, frozen=True):
    """A finished command.

    id : name in the catalogue; when : seconds since 1970; kind : of command
    input : path of the network or model, or of the sweep file; folder : its output
    chip : name of the chip; settings : settings that were given or chosen, by name
    figures : numbers of the result, by name; seconds : duration of the command
    """

    id: str
    when: float
    kind: Kind
    input: str
    folder: str
    chip: str
    settings: dict[str, Any]
    figures: dict[str, float]
    seconds: float
    version: str


class Catalogue:
    """The rows of a user; none where its file cannot be used."""

    def __init__(self, folder: Path | None) -> None:
        self._database = None if folder is None else Database(folder / FILE, FILE_BYTES, PATIENCE)

    @classmethod
    def of_user(cls) -> Catalogue:
        folder = catalogue_folder()
        return cls(None if reason_against(folder) else folder)

    def add(
        self, kind: Kind, given: Path, folder: Path, chip: str, settings: Mapping[str, Any],
        figures: Mapping[str, float | None], seconds: float,
    ) -> None:  # fmt: skip
        """Add a finished command. An error does not affect the command: it gets a note.

        given : path of its network, model or sweep file
        """
        if self._database is None:
            return
        found = {name: float(value) for name, value in figures.items() if value is not None}
        row = Row(
            secrets.token_hex(4), time.time(), kind, str(real_path(given)), str(real_path(folder)),
            chip, dict(settings), found, seconds, version(),
        )  # fmt: skip
        key = ROW + int(row.when * 1e6).to_bytes(8, "big") + row.id.encode()
        try:
            with self._database.writing() as view:
                view.put(key, msgspec.json.encode(row))
        except DatabaseError as error:
            note(f"the run is not in the catalogue: {error}")

    def rows(self) -> list[Row]:
        """Return all rows, the oldest first; raise `MapperError` if they cannot be read.

        A note says how many rows are damaged, and missing.
        """
        if self._database is None:
            raise MapperError(f"there is no catalogue: {reason_against(catalogue_folder())}")
        try:
            with self._database.reading() as view:
                rows = [msgspec.json.decode(content, type=Row) for _, content in view.entries(ROW)]
        except DatabaseError as error:
            raise MapperError(str(error)) from error
        except msgspec.MsgspecError as error:
            raise MapperError(f"{self._database.path}: a row is damaged: {error}") from error
        if view.damaged:
            many = "1 row is" if view.damaged == 1 else f"{view.damaged:,} rows are"
            note(f"{self._database.path}: {many} damaged and not listed")
        return rows

    def folder_of(self, id: str) -> Path:
        """Return the folder of a row, given by its id or the first characters of it.

        Raises `MapperError` if no row, or several, have it.
        """
        found = [row for row in self.rows() if row.id.startswith(id)]
        if len(found) != 1:
            many = f"{len(found)} runs have it" if found else "no run has it"
            raise MapperError(f"run {id!r}: {many}; `mapper runs` lists them")
        return Path(found[0].folder)
