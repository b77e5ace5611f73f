"""Options that say what the neurons of a network do, for what computes with them."""

from __future__ import annotations

import argparse
from collections.abc import Callable

from mapper.cli import options as common
from mapper.cli.numbers import above_zero, number


def add_neurons(group: argparse._ArgumentGroup, takers: Callable[[str], str]) -> None:
    """takers : which formats take an option, to be added to its help; empty if all do"""
    group.add_argument(
        "--threshold",
        type=number,
        metavar="V",
        help=f"potential at which every neuron spikes{takers('threshold')}",
    )
    group.add_argument(
        "--leak",
        type=common.natural,
        metavar="N",
        help="every neuron loses potential / 2^N per tick (default: no leak)" + takers("leak"),
    )
    group.add_argument(
        "--bias",
        type=number,
        metavar="V",
        help=f"added to every potential per tick (default: 0){takers('bias')}",
    )
    group.add_argument(
        "--reset",
        choices=("zero", "subtract"),
        metavar="zero|subtract",
        help="a spike sets the potential to its reset value, or takes the threshold off it "
        f"(default: zero){takers('reset')}",
    )
    group.add_argument(
        "--tick-length",
        type=above_zero,
        metavar="T",
        help="length of a tick, in the unit of the network's time constants"
        + takers("tick_length"),
    )
    group.add_argument(
        "--quantise",
        action="store_const",
        const=True,
        help="round weights, leaks and thresholds that cores cannot hold as they are"
        + takers("quantise"),
    )
    group.add_argument(
        "--magnitudes",
        action="store_const",
        const=True,
        help="use the network's weights as synaptic weights, although they are magnitudes or "
        f"firing rates{takers('magnitudes')}",
    )
