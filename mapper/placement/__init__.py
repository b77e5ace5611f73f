"""Steps 6 to 8: choice of a region, initial placement, refinement of the placement."""
