"""Command-line fixtures of the `mapper` tests, and a compiled model."""

from tests.compiler.bad_input.conftest import fails, folder, nowhere, run, spread, tidy

__all__ = ["fails", "folder", "nowhere", "run", "spread", "tidy"]
