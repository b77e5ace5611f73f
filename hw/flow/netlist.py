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
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from amaranth.back import rtlil

from hw.flow.memories import unchecked, with_attributes
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
# A register and its value after reset, which some tools want apart from each other.
_INITIAL = re.compile(
    r"^(?P<reg>  reg (?:signed )?(?:\[[^\]]*\] )?(?P<name>\w+)) = (?P<value>[^;]*);$", re.MULTILINE
)
# An operand without bits, as a constant 0 is: Verilog has none of these.
_NO_BITS = re.compile(
    r"^(    parameter \\[AB]_WIDTH) 0$|^(    connect \\[AB]) \{\s*\}$", re.MULTILINE
)


def _one_bit(found: re.Match[str]) -> str:
    return f"{found[1]} 1" if found[1] else f"{found[2]} 1'0"


_SIDE_BY_SIDE = "side_by_side"
_PART_BEGINS = "# module "
_PART = _PART_BEGINS + "{}\n"
MULTIPLIER = "kept_multiplier"
_MULTIPLIERS = f"""\
(* blackbox *)
module {MULTIPLIER} (A, B, Y);
  parameter A_SIGNED = 0;
  parameter B_SIGNED = 0;
  parameter A_WIDTH = 1;
  parameter B_WIDTH = 1;
  parameter Y_WIDTH = 1;
  input [A_WIDTH-1:0] A;
  input [B_WIDTH-1:0] B;
  output [Y_WIDTH-1:0] Y;
endmodule
"""


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

    def part(self, module: str) -> str:
        """RTLIL of a module, and of what is its own."""
        return self.text.partition(_PART.format(module))[2].partition(_PART_BEGINS)[0]


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
    parts = zip(reversed(names), reversed(texts), strict=True)
    text = "".join(_PART.format(name) + _ZEROS.sub("", text) + "\n" for name, text in parts)
    text = _NO_BITS.sub(_one_bit, text)
    ports = ["__".join(map(str, path)) for path, *_ in component.signature.flatten(component)]
    return Netlist(top, tuple(reversed(names)), plain_names(text, [*names, *ports]))


def verilog(design: Netlist, note: Note = quiet) -> str:
    """The design as Verilog 2005; raises `HwError` without a Yosys."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder)
        (path / "design.il").write_text(design.text)
        (path / WIDTHS).write_text(techmap_rules())
        script = [*_read(design), "pmuxtree", f"techmap -map {WIDTHS}"]
        script += ["opt_clean -purge", "memory_collect"]
        run_yosys([*script, "write_verilog -noattr design.v"], path, note)
        text = _INITIAL.sub(
            r"\g<reg>;\n  initial \g<name> = \g<value>;", (path / "design.v").read_text()
        )
        return with_attributes(text, design.text)


@dataclass(frozen=True, slots=True)
class Cells:
    """What a module takes.

    module : its name
    count : instances in the design
    cells : gates and flip-flops of one, without those of shared modules within
    flip_flops : of these, flip-flops
    memory_bits : of one's memories that are read synchronously, as block RAM is, or by several
        ports
    multipliers : of one; their gates are cells, or not if multipliers are kept
    """

    module: str
    count: int
    cells: int
    flip_flops: int
    memory_bits: int
    multipliers: int = 0


def cells(
    design: Netlist,
    note: Note = quiet,
    keep_multipliers: bool = False,
    known: Mapping[str, Cells] | None = None,
) -> list[Cells]:
    """Cells of every shared module after generic synthesis, the top module last.

    Gates of two inputs, multiplexers and flip-flops: what Yosys calls ``synth`` without a
    technology. Memories that are read asynchronously by one port, as the buffers' are, become
    flip-flops; the others stay memories. Raises `HwError` without a Yosys.

    keep_multipliers : do without their gates, as where a chip has blocks for them
    known : what modules take that were counted before, by their RTLIL; they are not made again
    """
    known = known or {}
    found = {
        name: known[design.part(name)] for name in design.modules if design.part(name) in known
    }
    if len(found) == len(design.modules):
        return _counted(design, found)
    whole = design
    if found:  # those that are left, side by side
        text = design.text + _side_by_side(design, found)
        design = replace(design, top=_SIDE_BY_SIDE, text=text)
    keep = [f"setattr -mod -set keep_hierarchy 1 {name}" for name in design.modules]
    script = [f"read_verilog {MULTIPLIER}.v", *_read(design), *keep]
    script += [f"blackbox {name}" for name in found]
    script += ["flatten", "design -save whole", "opt -full", "wreduce", "opt_clean"]
    script += ["tee -q -o multipliers.json stat -json"]
    script += [f"chtype -set {MULTIPLIER} t:$mul"] if keep_multipliers else ["design -load whole"]
    script += [f"synth -flatten -top {design.top} -run begin:fine"]
    script += ["memory_map t:$mem_v2 r:RD_CLK_ENABLE=1'0 %i", "opt -fast -full"]
    script += ["techmap", "opt -fast", "abc -g simple", "opt -fast"]
    script += ["memory_unpack", "tee -q -o stat.json stat -json"]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder)
        (path / "design.il").write_text(unchecked(design.text))
        (path / f"{MULTIPLIER}.v").write_text(_MULTIPLIERS)
        run_yosys(script, path, note)
        modules, multipliers = (
            {
                name.removeprefix("\\"): one
                for name, one in json.loads((path / file).read_text())["modules"].items()
            }
            for file in ("stat.json", "multipliers.json")
        )
    for name in design.modules:
        if name not in found:
            own = modules[name]["num_cells_by_type"]
            gates = {kind: n for kind, n in own.items() if kind.startswith("$_")}
            flip_flops = sum(n for kind, n in gates.items() if "DFF" in kind or "DLATCH" in kind)
            products = multipliers[name]["num_cells_by_type"].get("$mul", 0)
            found[name] = Cells(
                name, 0, sum(gates.values()), flip_flops, modules[name]["num_memory_bits"], products
            )
    return _counted(whole, found)


def _side_by_side(design: Netlist, without: Iterable[str]) -> str:
    """A module with one of every shared module but some, as RTLIL."""
    names = [name for name in design.modules if name not in without]
    cells = (f"  attribute \\keep 1\n  cell \\{name} \\{name}\n  end\n" for name in names)
    return f"{_PART.format(_SIDE_BY_SIDE)}module \\{_SIDE_BY_SIDE}\n{''.join(cells)}end\n"


def _counted(design: Netlist, found: Mapping[str, Cells]) -> list[Cells]:
    counts = _instances(design)
    return [replace(found[name], module=name, count=counts[name]) for name in design.modules]


_INSTANCE = re.compile(r"^ *cell \\(\S+) ", re.MULTILINE)


def _instances(design: Netlist) -> Counter[str]:
    """How often each module is in the design."""
    shared = set(design.modules)
    within = {name: Counter(_INSTANCE.findall(design.part(name))) for name in design.modules}
    counts: Counter[str] = Counter()

    def add(name: str, times: int) -> None:
        counts[name] += times
        for kind, n in within[name].items():
            if kind in shared:
                add(kind, times * n)

    add(design.top, 1)
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
