"""Networks executed by oneDNN in the layouts that were chosen.

library              the installed library, bound by ctypes: engine, streams, threads
memory_descriptors   layouts as its memory descriptors
primitives           primitive descriptors, their post-ops, and what they ask for
rewrites/            programs said in ops that there are kernels for
op_primitives/       one op -> the primitive that computes it in given layouts
quantized_values     reorders that make real numbers of 8-bit integers, or integers of numbers
post_op_fusion       which ops behind a primitive become its post-ops, and the bytes that are not moved
op_loops             an op, or elementwise ones behind each other -> a compiled loop
elementwise_nodes    nodes that are no ops, as elementwise functions for such loops
loop_fusion          which elementwise ops one loop computes
byte_copy            moves that need no kernel
control_flow         If, Loop and Scan by plans of their subgraphs
placement            which values lie in a part of another's memory: concats and slices
lifetime_plan        where in one arena each value lies while it lives
plan_steps           steps over buffers: what a plan is, without its program
execution_plan       a function -> such steps
saved_plan           a plan -> a file, and back
step_driver          steps run one after the other by machine code
plan_runner          a plan -> a callable on tensors
op_timing            what an op takes, for measured prices
"""
