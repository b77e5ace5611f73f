"""C driver: programs, an interpreter for them, and the host steps, as C sources."""
