"""The graph store: network files, written from a stream and read block by block."""
