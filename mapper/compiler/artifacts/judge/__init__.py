"""Check of compiled models: maps and outputs compared with the model in ONNX Runtime."""
