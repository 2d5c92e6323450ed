"""Ops about shapes: constants, views (which keep constants constants), and ops that move elements."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from layout_ir.dialects import nn
from layout_ir.dialects.layout import PermuteOp, ReshapeOp
from layout_ir.elements.elementwise_formulas import broadcast
from layout_ir.frontends.onnx.axes import normalize_axes, normalize_axis
from layout_ir.frontends.onnx.budget import STEPS_PER_ELEMENT
from layout_ir.frontends.onnx.constants import Constant, collapsed, is_splat, splat
from layout_ir.frontends.onnx.import_error import OnnxImportError, UnsupportedUse
from layout_ir.frontends.onnx.node import Node
from layout_ir.frontends.onnx.ops_norms import grouped_behind_reshape
from layout_ir.frontends.onnx.tensor_protos import check_shape
from layout_ir.frontends.onnx.translation import Builder, Translate, Translation
from layout_ir.frontends.onnx.values import Value, dtype_of, shape_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

# --- constants ------------------------------------------------------------------------------------------------


def _constant(builder: Builder, node: Node) -> Value:
    for name, like, dtype in (
        ("value_float", 0.0, np.float32),
        ("value_floats", (0.0,), np.float32),
        ("value_int", 0, np.int64),
        ("value_ints", (0,), np.int64),
    ):
        if node.has(name):
            return Constant(np.array(node.get(name, like), dtype), node.output)
    tensor = node.tensor("value")
    if tensor is None:
        raise OnnxImportError(
            "the constant has no value of a supported kind (tensor, float, int and lists of them)"
        )
    return Constant(tensor, node.output)


def _constant_of_shape(builder: Builder, node: Node) -> Value:
    shape = node.constant_ints(0)
    if shape is None:
        raise OnnxImportError("input 0 is missing")
    if any(extent < 0 for extent in shape):
        raise OnnxImportError(f"shape {list(shape)} has a negative extent")
    tensor = node.tensor("value")
    value = np.zeros(1, np.float32) if tensor is None else tensor
    if value.size != 1:
        raise OnnxImportError(f"attribute value has {value.size} elements, expected 1")
    return Constant(splat(value, shape), node.output)


def _shape(builder: Builder, node: Node) -> Value:
    shape = shape_of(node.input(0))
    start = node.get("start", 0)
    end = node.get("end", len(shape))
    return Constant(np.array(shape[start:end], np.int64), node.output)


def _size(builder: Builder, node: Node) -> Value:
    return Constant(np.array(prod(shape_of(node.input(0))), np.int64), node.output)


# --- views ----------------------------------------------------------------------------------------------------


def reshaped(builder: Builder, node: Node, value: Value, shape: Sequence[int]) -> Value:
    """`value` under another shape: a constant, or an op. Raises OnnxImportError for another number of elements."""
    shape = tuple(shape)
    if prod(shape) != prod(shape_of(value)):
        raise OnnxImportError(
            f"cannot reshape {list(shape_of(value))} to {list(shape)}: "
            f"{prod(shape_of(value))} != {prod(shape)} elements"
        )
    check_shape(shape, dtype_of(value), "the result")
    if shape == shape_of(value):
        return value
    if isinstance(value, Constant) and node.affords_copy(value.array):
        array = value.array
        return Constant(
            splat(collapsed(array), shape) if is_splat(array) else array.reshape(shape), node.output
        )
    return builder.emit(ReshapeOp(builder.operand(value), shape))


def _reshape(builder: Builder, node: Node) -> Value:
    x, wanted = node.input(0), node.constant_ints(1)
    if wanted is None:
        raise OnnxImportError("input 1 is missing")
    old = shape_of(x)
    keep_zero = node.flag("allowzero")
    shape = list(wanted)
    for dim, extent in enumerate(shape):
        if extent == 0 and not keep_zero:
            if dim >= len(old):
                raise OnnxImportError(
                    f"shape {list(wanted)} copies dim {dim}, which {list(old)} does not have"
                )
            shape[dim] = old[dim]
    if shape.count(-1) > 1 or any(extent < -1 for extent in shape):
        raise OnnxImportError(f"shape {list(wanted)} is not valid: one entry may be -1, others not negative")
    if -1 in shape:
        known = prod(extent for extent in shape if extent != -1)
        if not known or prod(old) % known:
            raise OnnxImportError(
                f"cannot reshape {list(old)} to {list(wanted)}: {known} does not divide {prod(old)}"
            )
        shape[shape.index(-1)] = prod(old) // known
    grouped = grouped_behind_reshape(builder, node, x, tuple(shape))
    return reshaped(builder, node, x, shape) if grouped is None else grouped


def _flatten(builder: Builder, node: Node) -> Value:
    x = node.input(0)
    shape = shape_of(x)
    axis = node.get("axis", 1)
    axis = len(shape) if axis == len(shape) else normalize_axis(axis, len(shape))
    return reshaped(builder, node, x, (prod(shape[:axis]), prod(shape[axis:])))


def _squeeze(builder: Builder, node: Node) -> Value:
    x, axes = node.input(0), node.int_list("axes", 1, since=13)
    shape = shape_of(x)
    if axes is None:
        return reshaped(builder, node, x, [extent for extent in shape if extent != 1])
    chosen = normalize_axes(axes, len(shape))
    for axis in chosen:
        if shape[axis] != 1:
            raise OnnxImportError(f"cannot squeeze dim {axis} of {list(shape)}: {shape[axis]} != 1")
    return reshaped(builder, node, x, [extent for dim, extent in enumerate(shape) if dim not in chosen])


def _unsqueeze(builder: Builder, node: Node) -> Value:
    x, axes = node.input(0), node.int_list("axes", 1, since=13)
    if axes is None:
        raise OnnxImportError("axes are missing")
    shape = list(shape_of(x))
    for axis in normalize_axes(axes, len(shape) + len(axes)):
        shape.insert(axis, 1)
    return reshaped(builder, node, x, shape)


def _transpose(builder: Builder, node: Node) -> Value:
    x = node.input(0)
    rank = len(shape_of(x))
    perm = node.ints("perm") or tuple(reversed(range(rank)))
    if sorted(perm) != list(range(rank)):
        raise OnnxImportError(f"perm {list(perm)} is no permutation of {rank} dims")
    if perm == tuple(range(rank)):
        return x
    if isinstance(x, Constant) and node.affords_copy(x.array):
        return Constant(x.array.transpose(perm), node.output)
    return builder.emit(PermuteOp(builder.operand(x), perm))


def _identity(builder: Builder, node: Node) -> Value:
    return node.input(0)


def _dropout(builder: Builder, node: Node) -> Value:
    node.get("ratio", 0.5)
    node.get("seed", 0)
    node.optional(1)
    training = node.constant(2)
    if training is not None and training.any():
        raise UnsupportedUse("training_mode = true is not supported, only inference is")
    return node.input(0)


def _expand(builder: Builder, node: Node) -> Value:
    x, wanted = node.input(0), node.constant_ints(1)
    if wanted is None:
        raise OnnxImportError("input 1 is missing")
    dtype = dtype_of(x)
    check_shape(wanted, dtype, "input 1")
    shape = check_shape(broadcast(shape_of(x), wanted), dtype, "the result")
    if shape == shape_of(x):
        return x
    if isinstance(x, Constant):
        expanded = np.broadcast_to(x.array, shape)
        if node.affords_copy(expanded):
            return Constant(expanded, node.output)
    return builder.apply(nn.ExpandOp, x, shape=shape)


def _depth_to_space(builder: Builder, node: Node) -> Value:
    """Blocks of channels as views: a digit of the channels goes behind each dim of space."""
    x, block = node.input(0), _block_size(node)
    n, c, h, w = _image(x)
    if c % block**2:
        raise OnnxImportError(f"{block} * {block} does not divide the {c} channels of {[n, c, h, w]}")
    depth = c // block**2
    mode = node.get("mode", "DCR")
    if mode not in ("DCR", "CRD"):
        raise OnnxImportError(f"mode = {mode} is unknown, expected one of DCR, CRD")
    digits, perm = ((n, block, block, depth, h, w), (0, 3, 4, 1, 5, 2))
    if mode == "CRD":
        digits, perm = ((n, depth, block, block, h, w), (0, 1, 4, 2, 5, 3))
    return _rearranged(builder, x, digits, perm, (n, depth, h * block, w * block))


def _space_to_depth(builder: Builder, node: Node) -> Value:
    x, block = node.input(0), _block_size(node)
    n, c, h, w = _image(x)
    if h % block or w % block:
        raise OnnxImportError(f"{block} does not divide the extents {h} and {w} of space")
    digits = (n, c, h // block, block, w // block, block)
    return _rearranged(builder, x, digits, (0, 3, 5, 1, 2, 4), (n, c * block**2, h // block, w // block))


def _block_size(node: Node) -> int:
    block = node.required("blocksize", 0)
    if block < 1:
        raise OnnxImportError(f"blocksize = {block} is below 1")
    return block


def _image(x: Value) -> tuple[int, int, int, int]:
    shape = shape_of(x)
    if len(shape) != 4:
        raise OnnxImportError(f"input 0 has {len(shape)} dims, expected the 4 of N, C, H, W")
    return shape


def _rearranged(
    builder: Builder, x: Value, digits: Sequence[int], perm: Sequence[int], shape: Sequence[int]
) -> Value:
    split = builder.emit(ReshapeOp(builder.operand(x), tuple(digits)))
    return builder.emit(ReshapeOp(builder.emit(PermuteOp(split, perm)), tuple(shape)))


def _tile(builder: Builder, node: Node) -> Value:
    x, repeats = node.input(0), node.constant_ints(1)
    if repeats is None:
        raise OnnxImportError("input 1 is missing")
    if len(repeats) == len(shape_of(x)) and all(count == 1 for count in repeats):
        return x
    return builder.apply(nn.TileOp, x, repeats=repeats)


def _cum_sum(builder: Builder, node: Node) -> Value:
    x, axis = node.input(0), node.constant_ints(1)
    if axis is None or len(axis) != 1:
        raise OnnxImportError(f"axis = {axis} is not one number")
    return builder.apply(
        nn.CumSumOp,
        x,
        axis=normalize_axis(axis[0], len(shape_of(x))),
        exclusive=node.flag("exclusive"),
        reverse=node.flag("reverse"),
    )


def _trilu(builder: Builder, node: Node) -> Value:
    """A choice between x and 0 by a constant matrix of truth values."""
    x, diagonal = node.input(0), node.constant_ints(1)
    shape, upper = shape_of(x), node.flag("upper", default=True)
    if len(shape) < 2:
        raise OnnxImportError(f"input 0 has shape {list(shape)}, expected matrices")
    if diagonal is not None and len(diagonal) != 1:
        raise OnnxImportError(f"k = {list(diagonal)} is not one number")
    height, width = shape[-2:]
    if not node.affords(height * width, STEPS_PER_ELEMENT * height * width):
        raise OnnxImportError(f"its matrix of {height}x{width} truth values is too large; {node.not_folded}")
    k = min(max(0 if diagonal is None else diagonal[0], -height - 1), width + 1)
    distance = np.arange(width) - np.arange(height)[:, None]
    kept = distance >= k if upper else distance <= k
    zero = Constant(np.zeros((), dtype_of(x)), f"{node.output}.zero")
    return builder.apply(nn.WhereOp, Constant(kept, f"{node.output}.kept"), x, zero)


# --- moving elements ------------------------------------------------------------------------------------------


def _concat(builder: Builder, node: Node) -> Value:
    values = node.inputs
    if not values:
        raise OnnxImportError("the node has no inputs, expected 1 or more")
    axis = normalize_axis(node.required("axis", 0), len(shape_of(values[0])))
    return builder.apply(nn.ConcatOp, *values, axis=axis) if len(values) > 1 else values[0]


def _gather(builder: Builder, node: Node) -> Value:
    x = node.input(0)
    axis = normalize_axis(node.get("axis", 0), len(shape_of(x)))
    return builder.apply(nn.GatherOp, x, node.input(1), axis=axis)


def _compress(builder: Builder, node: Node) -> Value:
    """The elements, or with an axis the slices, at whose places a condition that is constant is true.

    The standard wants a list. Exporters write conditions of the shape of the data as well, which ONNX Runtime takes
    flat.
    """
    x, condition = node.input(0), node.constant(1)
    if condition is None or condition.dtype != np.bool_:
        raise OnnxImportError("input 1 is no constant of truth values")
    axis = normalize_axis(node.get("axis", 0), len(shape_of(x))) if node.has("axis") else 0
    if not node.has("axis"):
        x = reshaped(builder, node, x, (prod(shape_of(x)),))
    # It may be shorter than the dim: what lies behind it is left out.
    places = np.flatnonzero(condition.reshape(-1)[: shape_of(x)[axis]]).astype(np.int64)
    return builder.apply(nn.GatherOp, x, Constant(places, f"{node.output}.places"), axis=axis)


def _arg_reduce(op: type[nn.ArgMaxOp] | type[nn.ArgMinOp]) -> Translate:
    def translate(builder: Builder, node: Node) -> Value:
        x = node.input(0)
        return builder.apply(
            op,
            x,
            axis=normalize_axis(node.get("axis", 0), len(shape_of(x))),
            keepdims=node.flag("keepdims", default=True),
            select_last=node.flag("select_last_index"),
        )

    return translate


def _sliced(
    builder: Builder, node: Node, x: Value, starts: Sequence[int], sizes: Sequence[int], steps: Sequence[int]
) -> Value:
    if tuple(sizes) == shape_of(x) and all(
        step == 1 or size < 2 for step, size in zip(steps, sizes, strict=True)
    ):
        return x
    if isinstance(x, Constant):
        if is_splat(x.array) and prod(sizes):
            return Constant(splat(collapsed(x.array), sizes), node.output)
        if node.affords(prod(sizes) * x.array.itemsize, STEPS_PER_ELEMENT * prod(sizes)):
            ends = (start + step * size for start, size, step in zip(starts, sizes, steps, strict=True))
            # An end before the first element is None: -1 would be the last one.
            part = tuple(
                slice(start, end if end >= 0 else None, step) if size else slice(0)
                for start, end, step, size in zip(starts, ends, steps, sizes, strict=True)
            )
            return Constant(x.array[part], node.output)
    return builder.apply(nn.SliceOp, x, starts=starts, sizes=sizes, steps=steps)


def _slice(builder: Builder, node: Node) -> Value:
    x = node.input(0)
    shape = shape_of(x)
    starts, ends = node.int_list("starts", 1, since=10), node.int_list("ends", 2, since=10)
    if starts is None or ends is None or len(starts) != len(ends):
        raise OnnxImportError(f"starts {starts} and ends {ends} do not fit")
    axes = node.int_list("axes", 3, since=10)
    axes = tuple(range(len(starts))) if axes is None else axes
    steps = (node.constant_ints(4) if node.opset >= 10 else None) or (1,) * len(starts)
    if not len(starts) == len(axes) == len(steps):
        raise OnnxImportError(f"{len(starts)} starts, {len(axes)} axes and {len(steps)} steps do not fit")
    ranges = [range(extent) for extent in shape]
    for axis, start, end, step in zip(axes, starts, ends, steps, strict=True):
        if step == 0:
            raise OnnxImportError(f"steps {list(steps)} has a 0")
        dim = normalize_axis(axis, len(shape))
        if step < 0 and shape[dim]:
            start = max(start, -shape[dim])  # not in front of the first element, where NumPy's begin
        ranges[dim] = range(*slice(start, end, step).indices(shape[dim]))
    return _sliced(
        builder, node, x, [r.start for r in ranges], [len(r) for r in ranges], [r.step for r in ranges]
    )


def _split(builder: Builder, node: Node) -> list[Value]:
    x = node.input(0)
    shape = shape_of(x)
    axis = normalize_axis(node.get("axis", 0), len(shape))
    count = node.get("num_outputs", len(node.proto.output))
    if count != len(node.proto.output):
        raise OnnxImportError(f"num_outputs = {count}, but the node has {len(node.proto.output)} outputs")
    if not count:
        raise OnnxImportError("the node has no outputs, expected 1 or more")
    sizes = node.int_list("split", 1, since=13)
    if sizes is None:
        size = -(-shape[axis] // count)
        sizes = tuple(min(size, max(shape[axis] - size * part, 0)) for part in range(count))
    if sum(sizes) != shape[axis]:
        raise OnnxImportError(
            f"parts {list(sizes)} do not fill dim {axis} of {list(shape)}: {sum(sizes)} != {shape[axis]}"
        )
    if len(sizes) != count or min(sizes, default=0) < 0:
        raise OnnxImportError(f"parts {list(sizes)} do not fit: expected {count} of them, none negative")
    results: list[Value] = []
    start = 0
    for size in sizes:
        starts = [start if dim == axis else 0 for dim in range(len(shape))]
        extents = [size if dim == axis else extent for dim, extent in enumerate(shape)]
        results.append(_sliced(builder, node, x, starts, extents, [1] * len(shape)))
        start += size
    return results


def _pad(builder: Builder, node: Node) -> Value:
    x = node.input(0)
    rank = len(shape_of(x))
    pads = node.int_list("pads", 1, since=11)
    if pads is None:
        raise OnnxImportError("pads are missing")
    value = node.get("value", 0.0) if node.opset < 11 else _number(node.constant(2))
    axes = node.constant_ints(3)
    if axes is not None:
        if len(pads) != 2 * len(axes):
            raise OnnxImportError(
                f"{len(pads)} pads do not fit {len(axes)} axes: {len(pads)} != {2 * len(axes)}"
            )
        normalize_axes(axes, rank)  # none is there twice
        full = [0] * (2 * rank)
        for position, axis in enumerate(axes):
            dim = normalize_axis(axis, rank)
            full[dim], full[rank + dim] = pads[position], pads[len(axes) + position]
        pads = tuple(full)
    mode = node.get("mode", "constant")
    if len(pads) != 2 * rank:
        raise OnnxImportError(f"{len(pads)} pads do not fit {rank} dims: {len(pads)} != {2 * rank}")
    if not any(pads):
        return x
    if mode == "wrap" and min(pads) < 0 < max(pads):
        # ONNX Runtime takes away first, and wraps what is left: the standard does not say.
        x = builder.apply(nn.PadOp, x, pads=tuple([min(pad, 0) for pad in pads]), mode=mode, value=value)
        pads = tuple([max(pad, 0) for pad in pads])
    return builder.apply(nn.PadOp, x, pads=pads, mode=mode, value=value)


def _number(array: NDArray[Any] | None) -> float:
    if array is None:
        return 0.0
    if array.size != 1:
        raise OnnxImportError(f"constant_value has shape {list(array.shape)}, expected a scalar")
    return float(array.reshape(()))


_VIEWS: dict[str, Translate] = {
    "Constant": _constant,
    "ConstantOfShape": _constant_of_shape,
    "Dropout": _dropout,
    "Expand": _expand,
    "Flatten": _flatten,
    "Identity": _identity,
    "Reshape": _reshape,
    "Shape": _shape,
    "Size": _size,
    "Slice": _slice,
    "Split": _split,
    "Squeeze": _squeeze,
    "Transpose": _transpose,
    "Unsqueeze": _unsqueeze,
}
_OPS: dict[str, Translate] = {
    "ArgMax": _arg_reduce(nn.ArgMaxOp),
    "ArgMin": _arg_reduce(nn.ArgMinOp),
    "Compress": _compress,
    "Concat": _concat,
    "CumSum": _cum_sum,
    "DepthToSpace": _depth_to_space,
    "Gather": _gather,
    "Pad": _pad,
    "SpaceToDepth": _space_to_depth,
    "Tile": _tile,
    "Trilu": _trilu,
}

TRANSLATIONS: dict[str, Translation] = {
    **{name: Translation(translate, takes_constants=True) for name, translate in _VIEWS.items()},
    **{name: Translation(translate) for name, translate in _OPS.items()},
}
