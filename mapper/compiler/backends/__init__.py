"""Further forms of a compiled model: C driver and loop listings."""
