"""The directory of a zip archive as read by Python's `zipfile`, one object per member."""

from __future__ import annotations

import zipfile
from pathlib import Path

from storage.store.index import Member


def members(path: Path) -> dict[str, Member] | str:
    """Return all members by name, or the error text."""
    try:
        with zipfile.ZipFile(path) as archive:
            found = {}
            for info in archive.infolist():
                coding = "utf-8" if info.flag_bits & 0x800 else "cp437"
                found[info.orig_filename] = Member(
                    info.orig_filename.encode(coding),
                    min(info.header_offset, 2**62),
                    min(info.compress_size, 2**62),
                    min(info.file_size, 2**62),
                    info.CRC,
                    min(info.compress_type, 255),
                )
            return found
    except (zipfile.BadZipFile, NotImplementedError, ValueError) as error:
        return str(error)
