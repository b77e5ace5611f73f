"""Who looks at the rows of a graph: the threads of this process, or workers of many."""
