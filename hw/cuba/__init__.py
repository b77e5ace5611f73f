"""Second spiking core: currents, decays with fraction bits, delays, shared synapse lists."""
