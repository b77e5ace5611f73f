"""Sphinx configuration of the documentation site; `sh scripts/docs.sh` builds it."""

from __future__ import annotations

import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent)]

from mapper.version import version as tool_version  # noqa: E402

project = "mapper"
author = "the authors of mapper"
version = release = tool_version()
language = "en"

extensions = ["myst_parser", "generated"]
exclude_patterns = ["__pycache__"]
nitpicky = True

myst_enable_extensions = ["colon_fence"]
myst_heading_anchors = 4  # anchors of headings as on GitHub
suppress_warnings: list[str] = []

html_theme = "furo"
html_title = "mapper"
html_copy_source = False
html_show_sphinx = False
html_show_copyright = False
# Pictures in <picture> elements, which Sphinx does not parse.
html_extra_path = ["noc-latency-light.svg", "noc-latency-dark.svg"]
html_theme_options = {"footer_icons": []}
pygments_style = "tango"
pygments_dark_style = "monokai"
highlight_language = "none"
