"""`plugins` lists what other packages add."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mapper.jobs.plugins import InstalledPlugin


def plugins() -> list[InstalledPlugin]:
    """Return the formats, placers, chips and exports of other packages, as `mapper plugins` does.

    Packages add them as entry points; `mapper.extend` has the interfaces.
    """
    from mapper.jobs.plugins import installed_plugins

    return installed_plugins()
