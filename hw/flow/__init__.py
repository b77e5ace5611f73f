"""From logic to tools: Verilog, names, cells, simulation."""
