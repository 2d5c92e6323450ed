"""The reference semantics of every op in NumPy: slow, obvious, pads included.

tensor.py                  a value at run time: a buffer and its layout
operands.py                how ops read their operands, pads included
array_ops.py               matrix products, normalizations and moves of elements on plain arrays
grid_sample.py             sampling at computed positions
node_evaluation.py         ONNX nodes on values of any kind, by the onnx package
package_evaluator.py       that package's evaluator, with operators in place of its own
node_operators/            operators of ONNX in place of those of the onnx package
recurrent.py               RNN, GRU and LSTM
top_k.py                   TopK
window_ops.py              convolution, pooling and images of windows on plain arrays
conversions.py             reorders between element types
semantics.py               the table from op of `layout` and `nn` to its function
structured_evaluation.py   ops with loops and a scalar body (linalg, arith, math, tosa)
foreign_ops.py             the table from op of another dialect to its function
interpreter.py             both tables on xDSL's interpreter
"""
