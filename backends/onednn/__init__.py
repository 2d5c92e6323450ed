"""Networks executed by oneDNN in the layouts that were chosen.

library              the installed library, bound by ctypes: engine, streams, threads
memory_descriptors   layouts as its memory descriptors
primitives           primitive descriptors, their post-ops, and what they ask for
opaque_node          an opaque node that becomes ops, and what it is made of
inserted_ops         ops in front of another, to compute what it computes
node_decomposition   opaque nodes -> ops, with
  scatter_decomposition, gather_decomposition, resize_decomposition, recurrent_decomposition
prefix_sums          prefix sums -> sums of shifted tensors
transposed_convolutions with strides of 1 -> convolutions
channel_multipliers  convolutions with several output channels per channel -> depthwise ones
convolution_windows  windows far beyond the operand -> smaller ones
half_floats          f16 and bf16 -> f32, where the library has no kernels for them
equal_ops            equal ops on equal operands -> one
gather_views         gathers by one index -> slices
recognized_functions elementwise ops -> the one function that they are
transposition_sinking elementwise ops on both sides of a transposition -> on one
reorder_sinking      elementwise ops behind a reorder -> in front of it, where they join others
pad_folding          pads of their own -> pads of convolutions and pools
dequantization       moves of dequantized tensors -> moves of integers
op_primitives        one op -> the primitive that computes it in given layouts
integer_primitives   the same on the integers that operands are dequantized from
recurrent_primitives the same for LSTM and GRU nodes
post_op_fusion       which ops behind a primitive become its post-ops, and the bytes that are not moved
lifetime_plan        where in one arena each value lies while it lives
placement            which values lie in a part of another's memory: concats and slices
plan_steps           steps over buffers: what a plan is, without its program
execution_plan       a function -> such steps
saved_plan           a plan -> a file, and back
step_driver          steps run one after the other by machine code
plan_runner          a plan -> a callable on tensors
"""
