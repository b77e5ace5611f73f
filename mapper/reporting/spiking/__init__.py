"""The page of a compiled spiking model."""
