"""MLIR export: a physical program in linalg, tensor and arith, for stock `mlir-opt`.

In a physical program (`convert-layout-to-physical`) every value is a dense row-major tensor, which is what a tensor of
MLIR without encoding is. An op of `nn` becomes one `linalg.generic` or a few, of which those that compute what a named
op computes are that named op.
"""
