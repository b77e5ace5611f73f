"""The command line in these tests, as those of `mapper` have it."""

from tests.mapper.conftest import fails, folder, nowhere, run, tidy

__all__ = ["fails", "folder", "nowhere", "run", "tidy"]
