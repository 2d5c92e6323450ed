"""In which orders of dims each ONNX operator can run, and what its node is then: one file per kind of operator."""
