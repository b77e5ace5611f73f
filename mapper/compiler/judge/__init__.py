"""The judge of compiled models: the model itself in ONNX Runtime, beside what the cores make."""
