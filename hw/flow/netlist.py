"""Hardware as text: RTLIL and Verilog of a component, and the cells that it takes.

Equal components are one module each (`hw.flow.sharing`), so that the time goes by the kinds of
components and not by the size of the mesh. Assertions are left out; they are for simulation and
proofs.
"""

from __future__ import annotations

import json
import re
import tempfile
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from amaranth.back import rtlil

from hw.flow.names import plain_names
from hw.flow.sharing import SharedModules
from hw.flow.widths import FILE as WIDTHS
from hw.flow.widths import techmap_rules
from hw.flow.yosys import Note, quiet, run_yosys

# A memory's initial contents, a few lines of a cell, all of them zero.
_ZEROS = re.compile(
    r"^  cell \$meminit_v2 [^\n]*\n(?:    (?!connect \\DATA)[^\n]*\n)*"
    r"    connect \\DATA \d+'0*\n(?:    [^\n]*\n)*  end\n",
    re.MULTILINE,
)


@dataclass(frozen=True, slots=True)
class Netlist:
    """A design as RTLIL.

    Memories without contents of their own have none here, instead of zeros: a reset would not bring
    these back, and Yosys takes minutes to read them from Verilog.

    top : name of the top module
    modules : names of the modules that components share, the top module last
    text : RTLIL of all modules
    """

    top: str
    modules: tuple[str, ...]
    text: str


def netlist(component: Any, top: str) -> Netlist:
    """Convert a component, each kind of its shared components once."""
    platform = SharedModules(top)
    platform.definition = component
    texts = [rtlil.convert(component, name=top, platform=platform, emit_src=False)]
    names = [top]
    while platform.waiting:
        name, definition = platform.waiting.pop(0)
        platform.definition = definition
        texts.append(rtlil.convert(definition, name=name, platform=platform, emit_src=False))
        names.append(name)
    text = "\n".join(_ZEROS.sub("", text) for text in reversed(texts))
    ports = ["__".join(map(str, path)) for path, *_ in component.signature.flatten(component)]
    return Netlist(top, tuple(reversed(names)), plain_names(text, [*names, *ports]))


def verilog(design: Netlist, note: Note = quiet) -> str:
    """The design as Verilog 2005; raises `HwError` without a Yosys."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder)
        (path / "design.il").write_text(design.text)
        (path / WIDTHS).write_text(techmap_rules())
        script = [*_read(design), f"techmap -map {WIDTHS}", "opt_clean", "memory_collect"]
        run_yosys([*script, "write_verilog -noattr design.v"], path, note)
        return (path / "design.v").read_text()


@dataclass(frozen=True, slots=True)
class Cells:
    """What a module takes.

    module : its name
    count : instances in the design
    cells : gates and flip-flops of one, without those of shared modules within
    flip_flops : of these, flip-flops
    memory_bits : of one's memories that are read synchronously, as block RAM is
    """

    module: str
    count: int
    cells: int
    flip_flops: int
    memory_bits: int


def cells(design: Netlist, note: Note = quiet) -> list[Cells]:
    """Cells of every shared module after generic synthesis, the top module last.

    Gates of two inputs, multiplexers and flip-flops: what Yosys calls ``synth`` without a
    technology. Memories that are read asynchronously, as the buffers' are, become flip-flops; the
    others stay memories. Raises `HwError` without a Yosys.
    """
    keep = [f"setattr -mod -set keep_hierarchy 1 {name}" for name in design.modules]
    script = [*_read(design), *keep, f"synth -flatten -top {design.top} -run begin:fine"]
    script += ["memory_map t:$mem_v2 r:RD_CLK_ENABLE=1'0 %i", "opt -fast -full"]
    script += ["techmap", "opt -fast", "abc -g simple", "opt -fast"]
    script += ["memory_unpack", "tee -q -o stat.json stat -json"]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder)
        (path / "design.il").write_text(design.text)
        run_yosys(script, path, note)
        found = json.loads((path / "stat.json").read_text())["modules"]
    modules = {name.removeprefix("\\"): one for name, one in found.items()}
    types = {name: one["num_cells_by_type"] for name, one in modules.items()}
    counts = _instances(design.top, types)
    result = []
    for name in design.modules:
        own = {kind: n for kind, n in types[name].items() if kind.startswith("$_")}
        flip_flops = sum(n for kind, n in own.items() if "DFF" in kind or "DLATCH" in kind)
        memory_bits = modules[name]["num_memory_bits"]
        result.append(Cells(name, counts[name], sum(own.values()), flip_flops, memory_bits))
    return result


def _instances(top: str, types: dict[str, dict[str, int]]) -> Counter[str]:
    """How often each module is in the design."""
    counts: Counter[str] = Counter()

    def add(name: str, times: int) -> None:
        counts[name] += times
        for kind, n in types[name].items():
            if kind in types:
                add(kind, times * n)

    add(top, 1)
    return counts


def _read(design: Netlist) -> list[str]:
    """Commands that load a design without its assertions."""
    return [
        "read_rtlil design.il",
        f"hierarchy -check -top {design.top}",
        "chformal -remove",
        "proc",
        "opt_clean",
    ]
