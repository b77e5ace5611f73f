"""The load unit: feature maps and parameters to buffers, and the window unit."""
