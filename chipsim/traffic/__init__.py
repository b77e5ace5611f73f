"""Traffic of a mapped network on a chip, and its metrics."""
