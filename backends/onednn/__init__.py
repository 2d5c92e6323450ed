"""Networks executed by oneDNN in the layouts that were chosen.

library              the installed library, bound by ctypes: engine, streams, threads
memory_descriptors   layouts as its memory descriptors
primitives           primitive descriptors, their post-ops, and what they ask for
rewrites/            programs said in ops that there are kernels for
quantized_values     reorders that make real numbers of 8-bit integers, or integers of numbers
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
