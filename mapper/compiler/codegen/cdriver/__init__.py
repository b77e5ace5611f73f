"""The driver in C: programs, an interpreter of them, and the host's work around it, as sources."""
