"""A mesh without cores has its local ports as module ports, whose bits are limited."""

from __future__ import annotations

import pytest

from hw.errors import HwError
from hw.flow.netlist import netlist
from hw.noc.mesh import Mesh

pytestmark = pytest.mark.jit  # hardware has no kernels


@pytest.mark.heavy
@pytest.mark.sample(0.25)
def test_too_many_bits_are_rejected_early() -> None:
    with pytest.raises(HwError, match="mesh: its local ports have 82800 input bits, more than"):
        netlist(Mesh(45, 40, axon_bits=32), "mesh")
