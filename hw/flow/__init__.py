"""Tool flow: Verilog, names, cell counts, Yosys."""
