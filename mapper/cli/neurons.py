"""Options of neuron parameters, for simulations and exports."""

from __future__ import annotations

import argparse
from collections.abc import Callable

from mapper.cli import options as common
from mapper.cli.options import above_zero, number


def add_neurons(group: argparse._ArgumentGroup, takers: Callable[[str], str]) -> None:
    """Add the options of neuron parameters.

    takers : function from an option to the formats that have it, as the end of its help
    """
    group.add_argument(
        "--threshold",
        type=number,
        metavar="V",
        help=f"firing threshold of every neuron{takers('threshold')}",
    )
    group.add_argument(
        "--leak",
        type=common.natural,
        metavar="N",
        help="leak: potential / 2^N per tick (default: 0)" + takers("leak"),
    )
    group.add_argument(
        "--bias",
        type=number,
        metavar="V",
        help=f"bias per tick (default: 0){takers('bias')}",
    )
    group.add_argument(
        "--reset",
        choices=("zero", "subtract"),
        metavar="zero|subtract",
        help=f"reset to value, or subtract (default: zero){takers('reset')}",
    )
    group.add_argument(
        "--tick-length",
        type=above_zero,
        metavar="T",
        help="tick length, unit of the time constants" + takers("tick_length"),
    )
    group.add_argument(
        "--quantise",
        action="store_const",
        const=True,
        help="round parameters to core integers" + takers("quantise"),
    )
    group.add_argument(
        "--magnitudes",
        action="store_const",
        const=True,
        help=f"use traffic as synaptic weights{takers('magnitudes')}",
    )
