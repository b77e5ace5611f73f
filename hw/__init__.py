"""Hardware of the chip in Amaranth: routers, mesh and cores, for simulation and synthesis."""
