"""Networks of layers: linear maps, and ONNX models."""
