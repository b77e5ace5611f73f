"""Distribution of a model over several cores: how its layers are cut, placed, and linked."""
