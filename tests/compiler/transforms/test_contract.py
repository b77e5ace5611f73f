"""R4.1, R4.3: every pass is complete, and listed in the command line and the documentation."""

from __future__ import annotations

import importlib.util
import inspect
import re

import pytest

from mapper.cli.compile_options import list_names
from mapper.compiler.transforms.base import Pass
from mapper.compiler.transforms.registry import ON_FLOATS, PASSES
from mapper.compiler.transforms.switches import CHANGES_NUMBERS, SWITCHES
from tests.docs.blocks import DOCS

ORDER = [
    "constants", "input-scale", "pad", "batchnorm", "dense", "siblings", "concat", "pool-first",
    "fuse", "few-channels", "split-groups", "share", "copy",
]  # fmt: skip
"""As in R4.3; after `dense` the graph is quantised."""


def test_passes_are_in_the_order_of_their_switches() -> None:
    """R4.3."""
    names = [one.name for one in PASSES]
    assert names == list(SWITCHES)
    assert [name for name in names if name in ORDER] == ORDER
    assert {one.name for one in ON_FLOATS} == set(ORDER[:5])
    of_steps = {"bias-correction"}
    assert {"constants", "input-scale", "pad", "batchnorm"} | of_steps == CHANGES_NUMBERS


@pytest.mark.parametrize("one", PASSES, ids=lambda one: one.name)
def test_every_pass_module_is_complete(one: Pass) -> None:
    """R4.1: legal, gain, apply, a switch, a line of the documentation."""
    parts = (one.sites, one.legal, one.gain, one.apply)
    module = inspect.getmodule(one.legal)
    assert module is not None
    assert {inspect.getmodule(part) for part in parts} == {module}
    assert [part.__name__ for part in parts] == ["sites", "legal", "gain", "apply"]
    assert module.__doc__
    for words in one.texts:
        assert words
        assert not words.endswith(".")
    row = rf"^  {one.name} +{re.escape(one.texts.about)}(\*?)$"
    (mark,) = re.findall(row, list_names(), re.MULTILINE)
    assert (mark == "*") == (one.name in CHANGES_NUMBERS)
    found = importlib.util.spec_from_file_location("generated", DOCS / "generated.py")
    assert found is not None
    assert found.loader is not None
    generated = importlib.util.module_from_spec(found)
    found.loader.exec_module(generated)
    page = generated.fill((DOCS / "compiler.md").read_text())
    assert f"| `{one.name}` | {one.texts.what}" in page
