"""Instruction set of the NPU: table of fields, encoding of programs, and assembly text."""
