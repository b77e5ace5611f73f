"""Readers of graph files: GML, GEXF, Pajek, node-link JSON, adjacency lists."""
