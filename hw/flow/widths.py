"""Extend operands to the width of the operation, so that linters accept the Verilog.

Amaranth and Yosys cut operands to the bits that matter, and leave the extension to the rules of
Verilog. That is correct, but linters warn about it (Verilator: WIDTH). This module extends operands
in the netlist by Yosys's ``techmap``; the logic stays the same.
"""

from __future__ import annotations

FILE = "widths.v"
BINARY_PORTS = """\
  parameter A_SIGNED = 0;
  parameter B_SIGNED = 0;
  parameter A_WIDTH = 1;
  parameter B_WIDTH = 1;
  parameter Y_WIDTH = 1;
  input [A_WIDTH-1:0] A;
  input [B_WIDTH-1:0] B;
  output [Y_WIDTH-1:0] Y;
"""
"""Parameters and ports of a cell with two operands."""

_EXTENDED = """\
  localparam WIDTH = {width};
  wire signed [A_WIDTH-1:0] a = A;
  wire signed [B_WIDTH-1:0] b = B;
  wire [WIDTH-1:0] wide_a, wide_b;
  generate
    if (A_SIGNED && B_SIGNED) begin
      assign wide_a = a;
      assign wide_b = b;
    end else begin
      assign wide_a = A;
      assign wide_b = B;
    end
  endgenerate
  wire _TECHMAP_FAIL_ = A_WIDTH == WIDTH && B_WIDTH == WIDTH;
"""
_BINARY = """\
(* techmap_celltype = "{cell}" *)
module widen{number} (A, B, Y);
{ports}{extended}\
  \\{cell} #(.A_SIGNED(A_SIGNED && B_SIGNED), .B_SIGNED(A_SIGNED && B_SIGNED), .A_WIDTH(WIDTH),
    .B_WIDTH(WIDTH), .Y_WIDTH(Y_WIDTH)) _TECHMAP_REPLACE_ (.A(wide_a), .B(wide_b), .Y(Y));
endmodule
"""
_LOGIC_NOT = """\
(* techmap_celltype = "$logic_not" *)
module none_of (A, Y);
  parameter A_SIGNED = 0;
  parameter A_WIDTH = 1;
  parameter Y_WIDTH = 1;
  input [A_WIDTH-1:0] A;
  output [Y_WIDTH-1:0] Y;
  wire _TECHMAP_FAIL_ = A_WIDTH == 1;
  assign Y = !(|A);
endmodule
"""
_SHIFTED = """\
(* techmap_celltype = "{cell}" *)
module widen{number} (A, B, Y);
{ports}  localparam WIDTH = A_WIDTH > Y_WIDTH ? A_WIDTH : Y_WIDTH;
  wire signed [A_WIDTH-1:0] a = A;
  wire [WIDTH-1:0] wide_a, wide_y;
  generate
    if (A_SIGNED)
      assign wide_a = a;
    else
      assign wide_a = A;
  endgenerate
  wire _TECHMAP_FAIL_ = A_WIDTH == Y_WIDTH;
  \\{cell} #(.A_SIGNED(A_SIGNED), .B_SIGNED(B_SIGNED), .A_WIDTH(WIDTH), .B_WIDTH(B_WIDTH),
    .Y_WIDTH(WIDTH)) _TECHMAP_REPLACE_ (.A(wide_a), .B(B), .Y(wide_y));
  assign Y = wide_y;
endmodule
"""
_SHIFTS = ("$shl", "$shr", "$sshl", "$sshr", "$shift", "$shiftx")
"""Cells whose first operand and result have the same width."""
_RESULT = ("$add", "$sub", "$mul", "$and", "$or", "$xor")
"""Cells whose result modulo 2^width depends only on the low bits of the operands."""
_COMPARED = ("$eq", "$ne", "$lt", "$le", "$gt", "$ge", "$divfloor", "$modfloor")


def techmap_rules() -> str:
    """Return the rules for ``techmap``, in Verilog."""

    def rule(text: str, cell: str, extended: str = "") -> str:
        number = cell.replace("$", "_")
        return text.format(cell=cell, number=number, ports=BINARY_PORTS, extended=extended)

    rules = [_LOGIC_NOT]
    wider = "A_WIDTH > B_WIDTH ? A_WIDTH : B_WIDTH"
    for width, cells in (("Y_WIDTH", _RESULT), (wider, _COMPARED)):
        rules += [rule(_BINARY, cell, _EXTENDED.format(width=width)) for cell in cells]
    return "\n".join([*rules, *(rule(_SHIFTED, cell) for cell in _SHIFTS)])
