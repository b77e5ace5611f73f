"""What a finished mapping is worth: metrics, simulation, verification."""
