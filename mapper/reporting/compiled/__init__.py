"""The report page of a compiled model."""
