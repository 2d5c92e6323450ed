"""Programs said in ops that there are kernels for.

pipeline             all of these in their order
opaque_node          an opaque node that becomes ops, and what it is made of
inserted_ops         ops in front of another, to compute what it computes
node_decomposition   opaque nodes -> ops, with
  scatter_decomposition, gather_decomposition, resize_decomposition, recurrent_decomposition, grid_decomposition,
  fourier_decomposition, einsum_decomposition, integer_recurrence, dynamic_quantization, function_bodies (what ONNX
  defines by a function); computed_index, for the first two
prefix_sums          prefix sums -> sums of shifted tensors
column_addends       columns that a Gemm adds -> an addition behind it
transposed_convolutions with strides of 1 -> convolutions
channel_multipliers  convolutions with several output channels per channel -> depthwise ones
convolution_windows  windows far beyond the operand -> smaller ones
half_floats          f16 and bf16 -> f32, where the library has no kernels for them
chosen_layouts       layouts without kernels -> others, between reorders
equal_ops            equal ops on equal operands -> one
gather_views         gathers by one index -> slices
recognized_functions elementwise ops -> the one function that they are
operand_scales       a scale of one operand of a product -> of the smaller one
transposition_sinking elementwise ops on both sides of a transposition -> on one
pad_folding          pads of their own -> pads of convolutions and pools
dequantization_sinking moves of dequantized tensors -> moves of integers
reorder_sinking      elementwise ops behind a reorder -> in front of it, where they join others
"""
