"""Networks on disk: the graph store, importers, exporters, generators and scratch."""
