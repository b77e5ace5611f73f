"""Equal components become one module; others of the kind get their own name."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from amaranth.hdl import Module
from amaranth.lib import wiring

from hw.chip import ChipDesign
from hw.core.shape import DestinationTable
from hw.flow.netlist import netlist
from hw.noc.buffer import Buffer
from hw.noc.mesh import Mesh
from hw.noc.packet import packet_layout
from hw.noc.router import Router
from hw.tables import make_tables
from tests.hw.networks import TINY, ring


class Buffers(wiring.Component):
    """Three unused buffers, two of them equal."""

    def __init__(self) -> None:
        super().__init__({})

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        layout = packet_layout(1, 1, 1)
        m.submodules += [Buffer(layout, 2), Buffer(layout, 3), Buffer(layout, 2)]
        return m


def count(text: str, line: str) -> int:
    return sum(found.strip().startswith(line) for found in text.splitlines())


def test_a_mesh_is_instances_of_one_router() -> None:
    design = netlist(Mesh(3, 2), "mesh")
    assert design.top == "mesh"
    arbiters = {"arbiter_2": 2, "arbiter_4": 2, "arbiter_5": 1}
    assert set(design.modules) == {"mesh", "router", "buffer", *arbiters}
    assert count(design.text, "module \\router") == 1
    assert count(design.text, "cell \\router") == 6
    assert count(design.text, "cell \\buffer ") == 5
    assert {name: count(design.text, f"cell \\{name} ") for name in arbiters} == arbiters


@pytest.mark.heavy
def test_memories_are_uninitialised_by_default() -> None:
    shape = replace(TINY, x_bits=1)
    assert "meminit" not in netlist(ChipDesign(1, 1, shape), "chip").text
    network = ring(4)
    network = replace(network, threshold=9, weight=np.full(4, 9), potential=network.potential // 10)
    tables = make_tables(network, np.zeros(4, int), 1, 1, shape)
    text = netlist(ChipDesign(1, 1, shape, tables=tables), "chip").text
    assert (
        count(text, "cell $meminit_v2") == len(DestinationTable) - 2
    )  # USED is a register, all SUMS are 0


def test_other_parameters_make_another_module() -> None:
    design = netlist(Buffers(), "top")
    assert set(design.modules) == {"top", "buffer", "buffer_2"}
    assert count(design.text, "cell \\buffer ") == 2
    assert count(design.text, "cell \\buffer_2 ") == 1


def test_a_shared_module_can_be_the_top() -> None:
    design = netlist(Router(packet_layout(1, 1, 1)), "router")
    assert design.modules[-1] == "router"
    assert count(design.text, "module \\router") == 1


def test_the_same_mesh_gives_the_same_text() -> None:
    assert netlist(Mesh(2, 2), "mesh") == netlist(Mesh(2, 2), "mesh")


def test_a_shared_module_gets_another_name_than_the_top() -> None:
    design = netlist(Buffers(), "buffer")
    assert set(design.modules) == {"buffer", "buffer_2", "buffer_3"}
    assert design.modules[-1] == "buffer"
