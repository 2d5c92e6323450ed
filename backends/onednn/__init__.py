"""Networks executed by oneDNN in the layouts that were chosen.

library              the installed library, bound by ctypes: engine, streams, threads
memory_descriptors   layouts as its memory descriptors
primitives           primitive descriptors, their post-ops, and what they ask for
rewrites/            programs said in ops that there are kernels for
op_primitives/       one op -> the primitive that computes it in given layouts
quantized_values     reorders that make real numbers of 8-bit integers, or integers of numbers
op_group             ops that are computed together
absorbed_constants   which constants behind a primitive it takes among its own: weights, a bias, a factor
post_op_fusion       which ops behind a primitive become its post-ops, and the bytes that are not moved
op_loops             an op, or elementwise ones behind each other -> a compiled loop
loop_space           the tensors of such a loop: where each index finds its element
choice_loops         loops that only choose elements, or update some
elementwise_nodes    nodes that are no ops, as elementwise functions for such loops
node_kernels         machine code for nodes whose loops NumPy takes longest for
loop_fusion          which elementwise ops one loop computes
row_folds            folds over rows that a subgraph chooses by numbers
byte_copy            moves that need no kernel
control_flow         If, Loop and Scan by plans of their subgraphs
subgraph_plans       a subgraph -> a plan for each shape of its inputs
repeated_plan        the body of a Loop or Scan, run again and again by machine code
nested_flow          loops and branches within a plan as records of it
placement            which values lie in a part of another's memory: concats and slices
value_memory         a value -> its buffer; constants, packed as they are asked for
lifetime_plan        where in one arena each value lies while it lives
result_memory        memory of large results, which earlier ones had
plan_steps           steps over buffers: what a plan is, without its program
execution_plan       a function -> such steps
saved_plan           a plan -> a file, and back
execution_context    what one call at a time needs: arena, memory objects, records
step_driver          steps run one after the other by machine code
trip_driver          iterations of a loop run one after the other by machine code
plan_runner          a plan -> a callable on tensors
op_timing            what an op takes, for measured prices
"""
