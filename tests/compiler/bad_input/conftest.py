"""Command-line fixtures of the `mapper` tests."""

from tests.mapper.conftest import fails, folder, nowhere, run, tidy

__all__ = ["fails", "folder", "nowhere", "run", "tidy"]
