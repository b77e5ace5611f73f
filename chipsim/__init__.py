"""The chip: its model, its metrics, its simulators."""
