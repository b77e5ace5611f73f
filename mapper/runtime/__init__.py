"""Runtime services of the algorithms: threads, progress, checkpoints, memory plan, resources."""
