"""The order in which a program is rewritten before its layouts are chosen, and after.

Opaque nodes become ops first, since all else looks at ops, and floats are widened before equal ops are looked for:
widening makes equal conversions. What is replaced by ops of other shapes is replaced only where layouts are open.
"""

from __future__ import annotations

from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp

from layout_ir.backends.onednn.library import library
from layout_ir.backends.onednn.op_primitives.integer_primitives import state_integer_options
from layout_ir.backends.onednn.rewrites.biases_apart import take_biases_apart
from layout_ir.backends.onednn.rewrites.channel_multipliers import split_channel_multipliers
from layout_ir.backends.onednn.rewrites.chosen_layouts import move_ops_without_kernels
from layout_ir.backends.onednn.rewrites.column_addends import split_column_addends
from layout_ir.backends.onednn.rewrites.convolution_windows import shrink_windows
from layout_ir.backends.onednn.rewrites.depthwise_volumes import split_depthwise_volumes
from layout_ir.backends.onednn.rewrites.dequantization_sinking import sink_dequantizations
from layout_ir.backends.onednn.rewrites.equal_ops import merge_equal_ops
from layout_ir.backends.onednn.rewrites.gather_views import replace_gathers
from layout_ir.backends.onednn.rewrites.half_floats import widen_half_floats, widen_ops_without_kernels
from layout_ir.backends.onednn.rewrites.long_products import cut_long_products
from layout_ir.backends.onednn.rewrites.merged_groups import merge_groups
from layout_ir.backends.onednn.rewrites.node_decomposition import decompose_nodes
from layout_ir.backends.onednn.rewrites.operand_scales import move_operand_scales
from layout_ir.backends.onednn.rewrites.pad_folding import fold_pads
from layout_ir.backends.onednn.rewrites.parallel_convolutions import merge_parallel_convolutions
from layout_ir.backends.onednn.rewrites.prefix_sums import decompose_prefix_sums
from layout_ir.backends.onednn.rewrites.quantized_products import replace_quantized_products
from layout_ir.backends.onednn.rewrites.recognized_functions import recognize_functions
from layout_ir.backends.onednn.rewrites.reorder_sinking import sink_reorders
from layout_ir.backends.onednn.rewrites.repeated_matrices import share_repeated_matrices
from layout_ir.backends.onednn.rewrites.resize_decomposition import decompose_resizes
from layout_ir.backends.onednn.rewrites.transposed_convolutions import replace_transposed_convolutions
from layout_ir.backends.onednn.rewrites.transposition_sinking import (
    compose_transpositions,
    sink_transpositions,
)
from layout_ir.passes.selection.translation.from_ir import is_open


def rewrite_before_selection(module: ModuleOp, function: FuncOp) -> None:
    """Says the program, in place, in ops that there are kernels for, before layouts are chosen for them."""
    decompose_nodes(module)
    widen_half_floats(function, library())
    merge_equal_ops(module)
    if is_open(module):
        replace_gathers(module)
        recognize_functions(module)
        move_operand_scales(module)
        share_repeated_matrices(module)
        sink_transpositions(module)
        fold_pads(module)
        replace_transposed_convolutions(module)
        merge_parallel_convolutions(module)
        shrink_windows(module, library())
        split_channel_multipliers(module)
        split_depthwise_volumes(module)
        merge_groups(module, library())
        decompose_prefix_sums(module)
        split_column_addends(module)
        decompose_resizes(module)
        sink_dequantizations(module)
        replace_quantized_products(module, library())
        compose_transpositions(module)
        state_integer_options(module, library())


def rewrite_after_selection(module: ModuleOp, function: FuncOp, fuse: bool) -> None:
    """Prepares the program, in place, whose layouts are chosen, for its plan; `fuse` says whether ops are to join."""
    if fuse:
        sink_reorders(module)
    widen_ops_without_kernels(function, library())
    move_ops_without_kernels(function, library())
    if fuse:
        cut_long_products(function, library())
    take_biases_apart(function, library())
