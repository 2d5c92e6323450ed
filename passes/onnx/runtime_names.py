"""Names of constants that ONNX Runtime cannot load a model with, once it finds something new to fuse.

Where it makes a Gemm of a MatMul and an Add on more than two dims, it puts Reshapes around it, whose shapes it calls
`gemm_input_shape` and `gemm_output_shape`, and from the second on `gemm_input_shape_token_3` and the like. It looks
whether a node has that name, not whether a constant has (1.32), and in what it saved, constants do. As it was saved
nothing is left to fuse; in other orders of dims something may be, and the session is not made ("attempt to replace the
existing tensor").

Where it makes one Reshape of several, it calls the shape after the first of them, `first_new_shape`; nodes without
names are all alike to it.
"""

from __future__ import annotations

import re
from collections.abc import Container
from typing import TYPE_CHECKING

from layout_ir.frontends.onnx.functions import fresh_name
from layout_ir.frontends.onnx.subgraphs import rename_values
from layout_ir.passes.onnx.names_in_use import names_of

if TYPE_CHECKING:
    import onnx

_TAKEN = re.compile(r"gemm_(input|output)_shape(_token_\d+)?")


def rename_shapes(graph: onnx.GraphProto, kept: Container[str]) -> None:
    """Gives constants that have such a name another one, in place, but for inputs, results and `kept`."""
    constants = {tensor.name for tensor in graph.initializer}
    constants.update(node.output[0] for node in graph.node if node.op_type == "Constant")
    constants.difference_update(value.name for value in (*graph.input, *graph.output))
    joined = {f"{node.name}_new_shape" for node in graph.node if node.op_type == "Reshape"}
    found = sorted(
        name for name in constants if (name in joined or _TAKEN.fullmatch(name)) and name not in kept
    )
    if found:
        taken = names_of(graph)
        rename_values(graph, {name: fresh_name(f"{name}_given", taken) for name in found})
