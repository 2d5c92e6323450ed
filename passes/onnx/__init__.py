"""The choice of layouts for a model that stays an ONNX model: orders of dims for its nodes, its Transposes gone."""
