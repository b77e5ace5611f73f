"""Jobs that the command line and the Python interface share: one module for each command."""
