"""Which primitive computes an op on operands in given layouts.

candidates           the primitives for an op, the one that is expected to be fastest first
primitive_operands   what they are asked with: layouts, element types, constants of values
convolutions, matrix_products, pools (and reductions), resizes, normalizations, elementwise_functions
                     one file per kind of op
integer_primitives   the same on the integers that operands are dequantized from
recurrent_primitives the same for nodes that are LSTM, GRU or RNN

A descriptor with pads promises zeros there, so an operand with pads is taken where its type promises them too, and a
result with pads, in which the library writes zeros, where its type promises zeros or nothing. Elementwise ops on
tensors that lie alike have no such bound: they are computed on the whole buffers, pads included, as the reference does.
"""
