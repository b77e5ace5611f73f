"""Errors that the command line reports in one line."""

from __future__ import annotations

import io
import zipfile

import pytest

from mapper.errors import known_error, name_arguments


def test_errors_while_memory_runs_out_name_memory() -> None:
    """An archive that is closed in the middle of a member raises its own error."""
    archive = zipfile.ZipFile(io.BytesIO(), "w")
    member = archive.open("a", "w")
    with pytest.raises(ValueError) as caught, archive:
        member.write(b"a")
        raise MemoryError
    member.close()
    archive.close()
    said, code = known_error(caught.value) or ("", 0)
    assert (said.partition(";")[0], code) == ("out of memory", 1)


def test_other_errors_are_unknown() -> None:
    assert known_error(ValueError("a")) is None


def test_options_are_named_as_arguments() -> None:
    said = "x: exists; choose another folder with -o, or give --force; --max-loss 3 of a--b, a-o"
    assert name_arguments(said) == (
        "x: exists; choose another folder with output, or give force; max_loss 3 of a--b, a-o"
    )
