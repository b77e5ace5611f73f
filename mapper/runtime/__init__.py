"""What surrounds the algorithms: threads, monitor, checkpoints, memory plan, resources, tables."""
