"""The version of the installed package."""

from __future__ import annotations

from functools import cache


@cache
def version() -> str:
    # a third of the time of `import mapper`
    from importlib.metadata import PackageNotFoundError
    from importlib.metadata import version as installed_version

    from storage.extras import DISTRIBUTION

    try:
        return installed_version(DISTRIBUTION)
    except PackageNotFoundError:  # run from a source tree that is not installed
        return "0+unknown"
