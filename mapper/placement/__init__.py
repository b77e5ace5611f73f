"""Steps 6 to 8: a region of the chip, an initial placement, force-directed refinement."""
