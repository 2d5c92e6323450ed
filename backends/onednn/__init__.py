"""Networks executed by oneDNN in the layouts that were chosen.

library              the installed library, bound by ctypes: engine, streams, threads
memory_descriptors   layouts as its memory descriptors
primitives           primitive descriptors, their post-ops, and what they ask for
op_primitives        one op -> the primitive that computes it in given layouts
post_op_fusion       which ops behind a primitive become its post-ops, and the bytes that are not moved
lifetime_plan        where in one arena each value lies while it lives
execution_plan       a function -> steps over buffers
step_driver          steps run one after the other by machine code
plan_runner          a plan -> a callable on tensors
"""
