r"""Names for RTLIL that every tool keeps as they are.

Amaranth joins the parts of a name by two underscores (``local_in__0__payload``), and marks fields
and names that occur again by ``.`` and ``$``. Verilog has to escape the latter, and Verilator
rewrites all of them (``local_in___05F0___05Fpayload``). Here such a name becomes plain: letters,
digits, and single underscores. Keywords of SystemVerilog get a number.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

_TOKEN = re.compile(r'"(?P<text>(?:[^"\\]|\\.)*)"|\\(?P<name>[^\s"\[\]{}]+)')
"""A string, or a name that was given by someone: those that tools made up begin with a $."""
_PLAIN = re.compile(r"[A-Za-z_](?:_?[A-Za-z0-9])*_?", re.ASCII)
_MEMORY = re.compile(r"(\\\\)([^\s\\]+)")  # of a string that names a memory, as in "\\rows"

KEYWORDS = frozenset(
    re.findall(r"\w+", """
    accept_on alias always always_comb always_ff always_latch and assert assign assume automatic
    before begin bind bins binsof bit break buf bufif0 bufif1 byte case casex casez cell chandle
    checker class clocking cmos config const constraint context continue cover covergroup coverpoint
    cross deassign default defparam design disable dist do edge else end endcase endchecker endclass
    endclocking endconfig endfunction endgenerate endgroup endinterface endmodule endpackage
    endprimitive endprogram endproperty endspecify endsequence endtable endtask enum event
    eventually expect export extends extern final first_match for force foreach forever fork
    forkjoin function generate genvar global highz0 highz1 if iff ifnone ignore_bins illegal_bins
    implements implies import incdir include initial inout input inside instance int integer
    interconnect interface intersect join join_any join_none large let liblist library local
    localparam logic longint macromodule matches medium modport module nand negedge nettype new
    nexttime nmos nor noshowcancelled not notif0 notif1 null or output package packed parameter pmos
    posedge primitive priority program property protected pull0 pull1 pulldown pullup
    pulsestyle_ondetect pulsestyle_onevent pure rand randc randcase randsequence rcmos real realtime
    ref reg reject_on release repeat restrict return rnmos rpmos rtran rtranif0 rtranif1 s_always
    s_eventually s_nexttime s_until s_until_with scalared sequence shortint shortreal showcancelled
    signed small soft solve specify specparam static string strong strong0 strong1 struct super
    supply0 supply1 sync_accept_on sync_reject_on table tagged task this throughout time
    timeprecision timeunit tran tranif0 tranif1 tri tri0 tri1 triand trior trireg type typedef union
    unique unique0 unsigned until until_with untyped use uwire var vectored virtual void wait
    wait_order wand weak weak0 weak1 while wildcard wire with within wor xnor xor
    """)
)  # fmt: skip
"""Those of IEEE 1800-2017, annex B."""


def plain_names(text: str, first: Iterable[str] = ()) -> str:
    """RTLIL with plain names only, those of modules included; different ones stay different.

    first : names, such as those of ports, that become plain before others may take their place
    """
    found = [match["name"] or _memory(match["text"]) for match in _TOKEN.finditer(text)]
    names = dict.fromkeys([*first, *filter(None, found)])
    new = {name: name for name in names if name not in KEYWORDS and _PLAIN.fullmatch(name)}
    taken = {*new, *KEYWORDS}
    for name in names:
        if name not in new:
            new[name] = plain = _free(plain_name(name), taken)
            taken.add(plain)

    def replace(match: re.Match[str]) -> str:
        if match["name"]:
            return f"\\{new[match['name']]}"
        memory = _memory(match["text"])
        return f'"\\\\{new[memory]}"' if memory else match[0]

    return _TOKEN.sub(replace, text)


def plain_name(name: str) -> str:
    """A name in letters, digits, and single underscores."""
    plain = re.sub(r"[^A-Za-z0-9]+", "_", name, flags=re.ASCII)
    return f"_{plain}" if plain[0].isdecimal() else plain


def _memory(text: str | None) -> str:
    """The name of the memory that a string stands for, or nothing."""
    found = _MEMORY.fullmatch(text or "")
    return found[2] if found else ""


def _free(name: str, taken: set[str]) -> str:
    """The name, with a number if it is taken."""
    if name not in taken:
        return name
    return next(n for i in range(2, 10**9) if (n := f"{name}_{i}") not in taken)
