"""Where the spikes of a mapped network go, and the metrics that follow."""
