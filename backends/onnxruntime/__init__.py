"""ONNX models in the installed ONNX Runtime: inputs, sessions and their times, what it leaves of graphs."""
