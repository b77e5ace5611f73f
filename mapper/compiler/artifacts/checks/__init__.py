"""Independent checks of compiled programs: the memory that each instruction reads and writes."""
