"""Routes around broken links, recomputed for `verify` by independent code."""
