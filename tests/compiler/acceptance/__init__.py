"""The acceptance list of the compiler: each mechanism, and tests that show it.

`test_acceptance.py` checks the list against the existing tests. Rows without a test are listed in
`OPEN`, which may only get shorter.
"""

from __future__ import annotations

from tests.compiler.acceptance import binary, convolution, memories, quantised

ROWS = {**convolution.ROWS, **binary.ROWS, **memories.ROWS, **quantised.ROWS}
OPEN: frozenset[str] = frozenset()
"""Rows without a test."""
