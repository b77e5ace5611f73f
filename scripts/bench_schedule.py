"""Cycles of published networks on `ref32`: the tile search compared with fixed rules.

python scripts/bench_schedule.py               the table
python scripts/bench_schedule.py --layers      also every layer
python scripts/bench_schedule.py --clock 100   clock in MHz, for frames per second
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from chipsim.chip.npu_shape import NPU_SHAPES
from mapper.compiler.tiling.loop_nest.external import simulated
from mapper.compiler.tiling.loop_nest.fixed import RULES, fixed
from mapper.compiler.tiling.loop_nest.search import Found, search_all
from mapper.compiler.tiling.loop_nest.steps import network_cost, steps_of
from mapper.compiler.tiling.loop_nest.traffic import (
    DEPENDS,
    LoopNest,
    layer_of,
    partial_sums,
    replacements,
)
from tests.compiler.tiling.loop_nest.topologies import NETWORKS


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--layers", action="store_true", help="print every layer")
    parser.add_argument("--clock", type=float, default=100, metavar="MHZ", help="default: 100")
    options = parser.parse_args()
    shape = NPU_SHAPES["ref32"]
    print(f"{'network':12} {'numbers':7} {'cycles':>10} {'fps':>6} {'stalls':>7} {'search':>7} "
          f"{'model off':>10} {'simulated':>10} "
          + " ".join(f"{rule:>8}" for rule in RULES))  # fmt: skip
    for name, forms in NETWORKS.items():
        for numbers in ("pairs", "int16"):
            layers = [layer_of(form, shape, numbers) for form in forms()]
            began = time.perf_counter()
            found = search_all(layers, shape)
            seconds = time.perf_counter() - began
            cycles = sum(one.cost.cycles for one in found)
            tiled = [(layer, one.tiling) for layer, one in zip(layers, found, strict=True)]
            stop = network_cost([steps_of(*one, shape) for one in tiled], shape)
            stalls = stop.stalls / stop.cycles
            off = max(abs(one.modelled / one.cost.cycles - 1) for one in found)
            apart = max(
                abs(simulated([tile], shape).cycles / one.cost.cycles - 1)
                for tile, one in zip(tiled, found, strict=True)
            )
            less = []
            for rule in RULES:
                others = sum(fixed(rule, layer, shape).cost.cycles for layer in layers)
                less.append(f"{cycles / others - 1:8.1%}")
            print(f"{name:12} {numbers:7} {cycles:10,} {options.clock * 1e6 / cycles:6.1f} "
                  f"{stalls:7.2%} {seconds:6.2f}s {off:10.3%} {apart:10.3%} "
                  + " ".join(less))  # fmt: skip
            if options.layers:
                _print_layers(layers, found)


def _print_layers(layers: list[LoopNest], found: list[Found]) -> None:
    """Print each layer; replacements are of input, weights, output and bias."""
    for layer, one in zip(layers, found, strict=True):
        outer = " ".join(f"{loop}*{count}" for loop, count in one.tiling.outer(layer)) or "-"
        brought = [replacements(one.tiling, layer, name) for name in DEPENDS]
        print(f"    {'x'.join(map(str, layer.counts)):>18} kernel {layer.kernel[0]}  tile "
              f"{'x'.join(map(str, one.tiling.sizes)):16} {outer:24} {one.cost.cycles:9,} cycles "
              f"{one.cost.stalls:8,} stalls; replaced {brought}"
              f"{', input held' * one.tiling.held}"
              f"{', partial sums leave' * partial_sums(one.tiling, layer)}")  # fmt: skip


if __name__ == "__main__":
    main()
