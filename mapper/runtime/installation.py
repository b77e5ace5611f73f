"""What surrounds the installed package: folders that hide parts of it, a place for kernels, and
threads of numpy.

All are looked at before anything heavy is imported, so this module needs nothing but the standard
library.
"""

from __future__ import annotations

import os
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path

PACKAGES = ("storage", "chipsim", "hw")
"""Installed beside `mapper`, under names that users' own folders may have, too."""


def prepare() -> None:
    """Do both, before anything of `PACKAGES` or numba is imported by `mapper`."""
    check_packages()
    ensure_kernel_cache()


def bound_products() -> None:
    """Have numpy multiply matrices with one thread, unless the environment says otherwise.

    Programs are simulated frame by frame in threads; if each started one for every core, they would
    wait for each other more than they work. And sums may differ with the number of threads. Of the
    command line alone: what a caller's process does with numpy is its own choice.
    """
    for name in ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS"):
        os.environ.setdefault(name, "1")


def check_packages() -> None:
    """Raise `ImportError` in one line if a folder or file of the user's hides one of `PACKAGES`.

    Python looks for a package in the folder of the script, or the current one, first.
    """
    home = Path(__file__).resolve().parents[2]
    for name in PACKAGES:
        found = _location(name)
        if found is not None and found.resolve() != home / name:
            raise ImportError(
                f"{found} hides the package `{name}` of mapper; rename it, or start Python "
                "from another folder"
            )


def _location(name: str) -> Path | None:
    """Where Python would import a package from, or has; None if it finds none."""
    spec = sys.modules[name].__spec__ if name in sys.modules else find_spec(name)
    if spec is None:
        return None
    if spec.submodule_search_locations:  # a package, or any folder without __init__.py
        return Path(next(iter(spec.submodule_search_locations)))
    return None if spec.origin is None else Path(spec.origin)


def ensure_kernel_cache() -> Path | None:
    """Name a folder for compiled kernels where numba would find none, and raise.

    That is when the installation is read-only and there is no home folder, as in containers.
    Returns the folder, which is the user's own below that for temporary files; None if numba's
    choice (NUMBA_CACHE_DIR, beside the sources, the user's cache) works.
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
            raise FileExistsError(folder)  # another's: what is loaded from there is executed
    except OSError:
        folder = Path(tempfile.mkdtemp(prefix="mapper-kernels-"))
    os.environ["NUMBA_CACHE_DIR"] = str(folder)
    if "numba" in sys.modules:  # it has read the environment already
        sys.modules["numba"].config.CACHE_DIR = str(folder)
    return folder


def _is_writable(folder: Path) -> bool:
    """Whether the folder can be written to, or could be made."""
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    return folder.is_dir() and os.access(folder, os.W_OK | os.X_OK)
