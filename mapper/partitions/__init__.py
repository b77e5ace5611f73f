"""Partitions of graphs: `mapper.partition` and `mapper partition`, without a chip."""
