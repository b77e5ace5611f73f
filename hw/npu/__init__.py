"""The NPU core for integer and binary networks: instruction set and hardware."""
