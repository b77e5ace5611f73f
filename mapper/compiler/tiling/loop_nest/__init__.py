"""General search of loop orders and tile sizes with external memory; only a benchmark runs it."""
