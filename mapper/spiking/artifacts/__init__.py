"""The folder of a compiled spiking model: written, read, simulated and verified."""
