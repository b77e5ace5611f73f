"""Every limit of a core, kept together: what parts use, repair of parts that use too much."""
