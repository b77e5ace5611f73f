"""Names of the netlist: plain, distinct, ports first."""

from __future__ import annotations

import re

import pytest

from hw.chip import ChipDesign
from hw.flow.names import plain_name, plain_names
from hw.flow.netlist import netlist
from hw.noc.mesh import Mesh
from tests.hw.networks import TINY

pytestmark = pytest.mark.jit  # hardware has no kernels
NAMES = re.compile(r'\\([^\s"\[\]{}]+)')


@pytest.mark.parametrize(
    ("name", "plain"),
    [
        ("local_in__0__payload", "local_in_0_payload"),
        ("local_in__payload$28", "local_in_payload_28"),
        ("chip.mesh", "chip_mesh"),
        ("plain_1", "plain_1"),
        ("__x", "_x"),
        ("0$a", "_0_a"),
    ],
)
def test_plain_name(name: str, plain: str) -> None:
    assert plain_name(name) == plain


def test_different_names_stay_different() -> None:
    text = "\\a__b \\a_b \\a.b \\a__b [3:0] \\a_b_2"
    assert plain_names(text) == "\\a_b_3 \\a_b \\a_b_4 \\a_b_3 [3:0] \\a_b_2"


def test_keywords_get_a_number() -> None:
    assert plain_names("\\before \\before_2 \\input__payload", ["input__payload"]) == (
        "\\before_3 \\before_2 \\input_payload"
    )


def test_names_that_come_first_keep_theirs() -> None:
    assert plain_names("\\a.b \\a__b", ["a__b"]) == "\\a_b_2 \\a_b"


def test_strings_stay_but_for_memories() -> None:
    text = (
        'parameter \\MEMID "\\\\the__rows"\nparameter \\FORMAT "a \\"b__c\\" \\n__d"\n\\the__rows'
    )
    expected = (
        'parameter \\MEMID "\\\\the_rows"\nparameter \\FORMAT "a \\"b__c\\" \\n__d"\n\\the_rows'
    )
    assert plain_names(text) == expected


@pytest.mark.heavy
@pytest.mark.sample(1)
@pytest.mark.parametrize("design", [Mesh(2, 1, 3, 2), ChipDesign(2, 1, TINY)], ids=["mesh", "chip"])
def test_no_name_of_a_design_needs_escaping(design: Mesh | ChipDesign) -> None:
    text = netlist(design, "top").text
    words = {word.lstrip("\\") for word in NAMES.findall(text)}
    assert not any("__" in word or re.search(r"\W", word, re.ASCII) for word in words)
    top = text[text.index("module \\top\n") :].split("\nmodule ")[0]
    ports = re.findall(r"(?:input|output) \d+ +\\(\w+)", top)
    paths = ("_".join(map(str, path)) for path, *_ in design.signature.flatten(design))
    assert sorted(ports) == sorted([*paths, "clk", "rst"])
