"""Compiled kernels are kept, and forgotten when they may be stale."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = """
import os
from pathlib import Path
import numpy as np
from mapper.kernels import forget_kernels
from storage.packed import pack
cache = Path(os.environ["NUMBA_CACHE_DIR"])
pack(np.arange(300, dtype=np.int32))
print(len(list(cache.rglob("packed.*.nb?"))))
(cache / "other").mkdir()
(cache / "other" / "packed.mine.nbi").touch()
forget_kernels()
print(*(path.name for path in cache.rglob("*.nb?")))
"""


@pytest.mark.jit
def test_forgetting_kernels(tmp_path: Path) -> None:
    """All compiled kernels of these packages go, and nothing else."""
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    root = Path(__file__).resolve().parents[2]
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", SCRIPT],
        cwd=root,
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    count, left = done.stdout.splitlines()
    assert int(count) > 0
    assert left == "packed.mine.nbi"
