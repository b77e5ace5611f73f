"""Progress, early end, threads and resource use of a run."""
