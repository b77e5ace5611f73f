"""Cost of a mapping while it is computed."""
