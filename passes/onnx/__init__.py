"""The choice of layouts for a model that stays an ONNX model: its nodes on other orders of dims, its Transposes gone."""
