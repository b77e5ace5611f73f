"""Workers in other processes that run passes over shards of a graph, and their driver."""
