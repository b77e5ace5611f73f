"""Core limits: resource use of parts, and repair of parts that exceed a limit."""
