"""The integer and binary matrix processor of a core (NPU): what its programs compute."""
