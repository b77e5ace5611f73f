"""Progress and resource use of a run, and the context passed to its steps."""
