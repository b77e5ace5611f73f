"""NPU cores on a mesh with hosts, cycle by cycle."""
