"""Planning of a run: strategy, memory, processor time and traffic of workers, before it starts."""
