"""Hardware of the mesh: packets, buffers, arbiters, routers."""
