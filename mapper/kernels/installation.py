"""Checks of the installation: shadowed packages, kernel cache, BLAS threads.

These run before any heavy import, so this module uses only the standard library and the errors.
"""

from __future__ import annotations

import os
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path

from mapper.errors import HiddenPackageError

PACKAGES = ("storage", "chipsim", "hw")
"""Top-level packages installed with `mapper`, whose names a user's folder may share."""


def prepare() -> None:
    """Check packages and kernel cache before `mapper` imports any of `PACKAGES` or numba."""
    check_packages()
    ensure_kernel_cache()


def bound_products() -> None:
    """Limit BLAS libraries of numpy to one thread, unless the environment sets a number.

    Programs are simulated in one thread per frame; BLAS threads per frame would compete for the
    cores, and sums could differ with the number of threads. Used by the command line only: in a
    library call, the process belongs to the caller.
    """
    for name in ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS"):
        os.environ.setdefault(name, "1")


def check_packages() -> None:
    """Raise `HiddenPackageError` if a folder or file of the user shadows one of `PACKAGES`.

    Python searches the folder of the script, or the current folder, first.
    """
    home = Path(__file__).resolve().parents[2]
    for name in PACKAGES:
        found = _location(name)
        if found is not None and found.resolve() != home / name:
            raise HiddenPackageError(
                f"{found} hides the package `{name}` of mapper; rename it, or start Python "
                "from another folder"
            )


def _location(name: str) -> Path | None:
    """Return the path that Python imports a package from, or has; None if there is none."""
    spec = sys.modules[name].__spec__ if name in sys.modules else find_spec(name)
    if spec is None:
        return None
    if spec.submodule_search_locations:  # a package, or any folder without __init__.py
        return Path(next(iter(spec.submodule_search_locations)))
    return None if spec.origin is None else Path(spec.origin)


def ensure_kernel_cache() -> Path | None:
    """Set a folder for compiled kernels if numba would not find a writable one and raise.

    This happens if the installation is read-only and there is no home folder, as in containers.
    Returns a private folder of the user below the temporary folder, or None if numba's default
    (NUMBA_CACHE_DIR, next to the sources, or the user's cache) works.
    """
    if os.environ.get("NUMBA_CACHE_DIR") or _is_writable(Path(__file__).parent / "__pycache__"):
        return None
    cache = os.environ.get("XDG_CACHE_HOME") or str(Path("~/.cache").expanduser())
    if Path(cache).is_absolute() and _is_writable(Path(cache) / "numba"):
        return None
    user = getattr(os, "getuid", lambda: "user")()
    folder = Path(tempfile.gettempdir()) / f"mapper-kernels-{user}"
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        if folder.is_symlink() or (hasattr(os, "getuid") and folder.stat().st_uid != user):
            # owned by another user: files loaded from there are executed
            raise FileExistsError(folder)
    except OSError:
        folder = Path(tempfile.mkdtemp(prefix="mapper-kernels-"))
    os.environ["NUMBA_CACHE_DIR"] = str(folder)
    if "numba" in sys.modules:  # numba has read the environment already
        sys.modules["numba"].config.CACHE_DIR = str(folder)
    return folder


def _is_writable(folder: Path) -> bool:
    """Return whether the folder is writable or can be created."""
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    return folder.is_dir() and os.access(folder, os.W_OK | os.X_OK)
