"""Functional and cycle-accurate simulation of the integer and binary matrix processor (NPU)."""
