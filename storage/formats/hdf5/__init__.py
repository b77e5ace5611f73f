"""Networks in HDF5 files: SONATA and NIR."""
