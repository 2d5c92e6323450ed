"""Nodes that ONNX Runtime's optimizer of transformers and its quantizer of weights write, as ops.

    MatMulNBits                 a product with a constant matrix, of which blocks of 4 or 8 bits are made floats
    EmbedLayerNormalization     rows of tables, added up and normalized

Others have functions (`function_bodies`).
"""

from __future__ import annotations

import numpy as np
from xdsl.ir import SSAValue

from layout_ir.backends.onednn.rewrites.opaque_node import OpaqueNode, Unsupported
from layout_ir.dialects import nn
from layout_ir.dialects.layout import dtype_of
from layout_ir.dialects.nn.tensor_types import shape_of
from layout_ir.elements.numpy_types import Array

_FLOATS = ("f32", "f16")


def product_with_bits(node: OpaqueNode) -> SSAValue:
    """A MatMulNBits: a row of the matrix is a column of the product, in blocks that each have a scale."""
    x, dtype = node.input(0), dtype_of(node.input(0).type)
    rows, columns = node.attribute("K", 0), node.attribute("N", 0)
    bits, size = node.attribute("bits", 4), node.attribute("block_size", 0)
    packed, scales, points = (node.constant_input(number) for number in (1, 2, 3))
    if dtype not in _FLOATS or packed is None or scales is None or node.optional(4) is not None:
        raise Unsupported
    if bits not in (4, 8) or size < 1 or packed.dtype != np.uint8:
        raise Unsupported
    blocks = -(-rows // size)
    levels = _unpacked(packed.reshape(columns, -1), bits).reshape(columns, blocks, size).astype(np.float32)
    if points is None:
        middle = np.full((columns, blocks), 1 << (bits - 1))
    elif points.dtype == np.uint8:
        middle = _unpacked(points.reshape(columns, -1), bits)[:, :blocks]
    else:
        middle = points.reshape(columns, blocks)
    real = (levels - middle[..., None].astype(np.float32)) * scales.reshape(columns, blocks, 1)
    matrix = node.constant(real.reshape(columns, -1)[:, :rows].T, dtype)
    product = node.apply(nn.MatmulOp, x, matrix)
    bias = node.optional(5)
    return product if bias is None else node.apply(nn.AddOp, product, bias)


def _unpacked(packed: Array, bits: int) -> Array:
    """The numbers in the bytes of each row, lower halves of bytes first."""
    if bits == 8:
        return packed
    return np.stack([packed & 15, packed >> 4], axis=-1).reshape(len(packed), -1)


def embedded(node: OpaqueNode) -> list[SSAValue | None]:
    """An EmbedLayerNormalization: its result, how many elements of each row are unmasked, and the sum of the rows."""
    tokens, mask, positions = node.input(0), node.optional(7), node.optional(8)
    batch, steps = shape_of(tokens)
    total = _rows(node, node.input(2), tokens)
    if positions is None:
        table = node.input(3)
        given = node.apply(nn.SliceOp, table, starts=(0, 0), sizes=(steps, shape_of(table)[1]))
    else:
        given = _rows(node, node.input(3), positions)
    total = node.apply(nn.AddOp, total, given)
    segments, segment_table = node.optional(1), node.optional(4)
    if segments is not None and segment_table is not None:
        total = node.apply(nn.AddOp, total, _rows(node, segment_table, segments))
    epsilon = node.attribute("epsilon", 1e-12)
    normal = node.apply(nn.LayerNormOp, total, node.input(5), node.input(6), axes=(2,), epsilon=epsilon)
    if mask is None:
        counts = node.constant(np.zeros(batch), "i32")
    else:
        counts = node.apply(nn.ReduceSumOp, mask, axes=(1,), keepdims=False)
    named = dict(
        zip((k for k, there in enumerate(node.op.given_outputs) if there), node.op.results, strict=True)
    )
    made = (normal, counts, total)
    return [made[k] if k == 0 or list(result.uses) else None for k, result in named.items()]


def _rows(node: OpaqueNode, table: SSAValue, indices: SSAValue) -> SSAValue:
    if dtype_of(indices.type) != "i64":
        indices = node.insert(nn.CastOp(indices, result_type=node.type_of("i64", shape_of(indices))))
    return node.apply(nn.GatherOp, table, indices, axis=0)
