"""How passes run over shards of a graph: the interface, and its implementation in this process."""
