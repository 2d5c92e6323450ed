"""Tests of ONNX import."""
