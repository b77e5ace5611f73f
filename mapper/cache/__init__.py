"""What earlier commands computed and where: the cache of results, and the catalogue of runs."""
