"""The chip as logic: router, mesh and core in Amaranth, ready for simulation and synthesis."""
