"""The mesh as logic: packets, buffers, arbiters, routers."""
