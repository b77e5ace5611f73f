"""RTLIL and Verilog of a component, and its cell counts.

Equal components become one module (`hw.flow.sharing`), so the time depends on the kinds of
components and not on the size of the mesh. Assertions are left out; they are for simulation and
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
from hw.flow.widths import BINARY_PORTS, techmap_rules
from hw.flow.widths import FILE as WIDTHS
from hw.flow.yosys import Note, quiet, run_yosys

# A memory's initial contents, a cell of a few lines, all zero.
_ZEROS = re.compile(
    r"^  cell \$meminit_v2 [^\n]*\n(?:    (?!connect \\DATA)[^\n]*\n)*"
    r"    connect \\DATA \d+'0*\n(?:    [^\n]*\n)*  end\n",
    re.MULTILINE,
)
# A register with its reset value, which some tools require as separate statements.
_INITIAL = re.compile(
    r"^(?P<reg>  reg (?:signed )?(?:\[[^\]]*\] )?(?P<name>\w+)) = (?P<value>[^;]*);$", re.MULTILINE
)
# A zero-width operand, such as a constant 0: Verilog does not allow these.
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
{BINARY_PORTS}endmodule
"""


@dataclass(frozen=True, slots=True)
class Netlist:
    """A design as RTLIL.

    Memories without initial contents are not initialised, instead of being set to zero: a reset
    would not restore zeros, and Yosys takes minutes to read them from Verilog.

    top : name of the top module
    modules : names of the shared modules, the top module last
    text : RTLIL of all modules
    """

    top: str
    modules: tuple[str, ...]
    text: str

    def part(self, module: str) -> str:
        """Return the RTLIL of a module and its private submodules."""
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
    """Return the design as Verilog 2005; raise `HwError` without Yosys."""
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
    """Cell counts of a module.

    module : its name
    count : instances in the design
    cells : gates and flip-flops per instance, without shared submodules
    flip_flops : flip-flops among these
    memory_bits : bits per instance of memories that are read synchronously, like block RAM, or by
        several ports
    multipliers : multipliers per instance; their gates are included in `cells` unless multipliers
        are kept
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
    """Return cell counts of every shared module after generic synthesis, the top module last.

    Cells are two-input gates, multiplexers and flip-flops: Yosys ``synth`` without a technology.
    Memories with one asynchronous read port, such as the buffers', become flip-flops; the others
    stay memories. Raises `HwError` without Yosys.

    keep_multipliers : do not map multipliers to gates, for chips with multiplier blocks
    known : cell counts of earlier runs, by RTLIL; these modules are not synthesised again
    """
    known = known or {}
    found = {
        name: known[design.part(name)] for name in design.modules if design.part(name) in known
    }
    if len(found) == len(design.modules):
        return _counted(design, found)
    whole = design
    if found:  # synthesise the remaining modules together
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
    """Return RTLIL of a module that instantiates every shared module except `without` once."""
    names = [name for name in design.modules if name not in without]
    cells = (f"  attribute \\keep 1\n  cell \\{name} \\{name}\n  end\n" for name in names)
    return f"{_PART.format(_SIDE_BY_SIDE)}module \\{_SIDE_BY_SIDE}\n{''.join(cells)}end\n"


def _counted(design: Netlist, found: Mapping[str, Cells]) -> list[Cells]:
    counts = _instances(design)
    return [replace(found[name], module=name, count=counts[name]) for name in design.modules]


_INSTANCE = re.compile(r"^ *cell \\(\S+) ", re.MULTILINE)


def _instances(design: Netlist) -> Counter[str]:
    """Return the number of instances of each module in the design."""
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
    """Return commands that load a design without its assertions."""
    return [
        "read_rtlil design.il",
        f"hierarchy -check -top {design.top}",
        "chformal -remove",
        "proc",
        "opt_clean",
    ]
