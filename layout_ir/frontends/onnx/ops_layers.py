"""Layers: convolution, pooling, matrix products, normalizations, reductions."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from xdsl.ir import OpResult

from layout_ir.dialects import nn
from layout_ir.dialects.layout import ReshapeOp
from layout_ir.dialects.nn.windows import MOST_DIMS
from layout_ir.frontends.onnx.axes import normalize_axes, normalize_axis
from layout_ir.frontends.onnx.batch_norm import fold_into_convolution
from layout_ir.frontends.onnx.budget import STEPS_PER_ELEMENT
from layout_ir.frontends.onnx.constants import Constant, is_splat
from layout_ir.frontends.onnx.import_error import OnnxImportError, UnsupportedUse
from layout_ir.frontends.onnx.node import Node
from layout_ir.frontends.onnx.translation import Builder, Translate, Translation
from layout_ir.frontends.onnx.values import Value, shape_of
from layout_ir.frontends.onnx.window_attributes import auto_pad_of, window_of

# --- windows --------------------------------------------------------------------------------------------------


def _over_windows(translate: Translate) -> Translate:
    """The translation of an operator that moves windows over no more spatial dims than the ops of `nn` do. ONNX has no
    such limit."""

    def checked(builder: Builder, node: Node) -> Value | Sequence[Value | None]:
        rank = len(shape_of(node.input(0)))
        if rank > MOST_DIMS:
            raise UnsupportedUse(f"{rank - 2} spatial dims are more than {MOST_DIMS - 2}")
        return translate(builder, node)

    return checked


def _kernel_of(node: Node, w: Value) -> tuple[int, ...]:
    """The extents of the windows of a convolution: those of the weight, which `kernel_shape` may repeat."""
    kernel, declared = shape_of(w)[2:], node.ints("kernel_shape")
    if declared is not None and declared != kernel:
        raise OnnxImportError(
            f"kernel_shape {list(declared)} does not agree with the weight's {list(kernel)}"
        )
    return kernel


def _conv(builder: Builder, node: Node) -> Value:
    x, w = node.input(0), node.input(1)
    kernel = _kernel_of(node, w)
    group = node.get("group", 1)
    return builder.apply(nn.ConvOp, x, w, node.optional(2), group=group, **window_of(node, kernel))


def _conv_transpose(builder: Builder, node: Node) -> Value:
    x, w = node.input(0), node.input(1)
    kernel = _kernel_of(node, w)
    extents = shape_of(x)[2:]
    rank = len(extents)
    strides, dilations = node.ints("strides") or (1,) * rank, node.ints("dilations") or (1,) * rank
    longer = node.ints("output_padding") or (0,) * rank
    pads, auto = node.ints("pads") or (0, 0) * rank, auto_pad_of(node)
    wanted = node.ints("output_shape")
    lists = {"strides": strides, "dilations": dilations, "output_padding": longer, "output_shape": wanted}
    for name, values in lists.items():
        if values is not None and len(values) != rank:
            raise OnnxImportError(
                f"{name} {list(values)} does not fit {rank} spatial dims: {len(values)} != {rank}"
            )
    if auto == "VALID":
        pads = (0, 0) * rank
    if wanted is None and auto.startswith("SAME"):
        wanted = tuple(extent * stride for extent, stride in zip(extents, strides, strict=True))
    if wanted is not None:
        # What is too much is taken away on both sides, an odd one in front but for SAME_UPPER.
        totals = [
            (e - 1) * s + (k - 1) * d + 1 + more - out
            for e, s, k, d, more, out in zip(extents, strides, kernel, dilations, longer, wanted, strict=True)
        ]
        if node.ints("output_shape") is not None:
            longer = tuple(more - min(total, 0) for more, total in zip(longer, totals, strict=True))
        # What windows do not cover lies behind the last one where it is asked for; SAME does not ask.
        totals = [max(total, 0) for total in totals]
        less = [total // 2 for total in totals]
        more = [total - half for total, half in zip(totals, less, strict=True)]
        pads = (*less, *more) if auto == "SAME_UPPER" else (*more, *less)
    return builder.apply(
        nn.ConvTransposeOp, x, w, node.optional(2), strides=strides, pads=pads, dilations=dilations,
        output_padding=longer, group=node.get("group", 1),
    )  # fmt: skip


def _max_pool(builder: Builder, node: Node) -> Value:
    node.get("storage_order", 0)  # is about the second output, which is not supported
    kernel = node.required("kernel_shape", (0,))
    return builder.apply(
        nn.MaxPoolOp,
        node.input(0),
        kernel=kernel,
        ceil_mode=node.flag("ceil_mode"),
        **window_of(node, kernel),
    )


def _average_pool(builder: Builder, node: Node) -> Value:
    kernel = node.required("kernel_shape", (0,))
    return builder.apply(
        nn.AvgPoolOp,
        node.input(0),
        kernel=kernel,
        ceil_mode=node.flag("ceil_mode"),
        count_include_pad=node.flag("count_include_pad"),
        **window_of(node, kernel),
    )


def _global(op: type[nn.NNOp]) -> Translate:
    def translate(builder: Builder, node: Node) -> Value:
        return builder.apply(op, node.input(0))

    return translate


# --- matrix products ------------------------------------------------------------------------------------------


def _gemm(builder: Builder, node: Node) -> Value:
    return builder.apply(
        nn.GemmOp,
        node.input(0),
        node.input(1),
        node.optional(2),
        alpha=node.number("alpha", 1.0),
        beta=node.number("beta", 1.0),
        trans_a=node.flag("transA"),
        trans_b=node.flag("transB"),
    )


def _matmul(builder: Builder, node: Node) -> Value:
    return builder.apply(nn.MatmulOp, node.input(0), node.input(1))


# --- normalizations -------------------------------------------------------------------------------------------


def _batch_norm(builder: Builder, node: Node) -> Value:
    epsilon = node.number("epsilon", 1e-5)
    node.get("momentum", 0.9)  # is about training
    if node.flag("training_mode"):
        raise UnsupportedUse("training_mode = 1 is not supported, only inference is")
    if not node.flag("spatial", default=True):
        raise UnsupportedUse("spatial = 0 is not supported: statistics must be per channel")
    x, *parameters = (node.input(number) for number in range(5))
    folded = _fold_batch_norm(builder, node, x, parameters, epsilon)
    return builder.apply(nn.BatchNormOp, x, *parameters, epsilon=epsilon) if folded is None else folded


def _fold_batch_norm(
    builder: Builder, node: Node, x: Value, parameters: list[Value], epsilon: float
) -> Value | None:
    """The convolution that computes `x` with the normalization in its weights; None if they stay two ops."""
    if not (node.owns(0) and isinstance(x, OpResult) and isinstance(x.op, nn.ConvOp)):
        return None
    conv = x.op
    weight = builder.constant_of(conv.w)
    bias = builder.constant_of(conv.b) if conv.b is not None else None
    constants = [value.array for value in parameters if isinstance(value, Constant)]
    if weight is None or (conv.b is not None and bias is None) or len(constants) != 4:
        return None
    if any(array.shape != weight.array.shape[:1] for array in constants):
        return None  # not valid, as the op itself will say
    if not (is_splat(weight.array) and all(map(is_splat, constants))) and not node.affords(
        weight.array.nbytes, STEPS_PER_ELEMENT * weight.array.size
    ):
        return None
    old_bias = None if bias is None else bias.array
    folded = fold_into_convolution(weight.array, old_bias, constants, epsilon)
    if folded is None:
        return None
    new_weight, new_bias = folded
    name = weight.name
    builder.location = conv.location  # pyright: ignore[reportAttributeAccessIssue]
    # Nothing uses the old one now, so that it will be dropped.
    return builder.apply(
        nn.ConvOp,
        conv.x,
        Constant(new_weight, name),
        Constant(new_bias, f"{name}.bias" if bias is None else bias.name),
        strides=conv.strides,
        pads=conv.pads,
        dilations=conv.dilations,
        group=conv.group,
    )


def _lrn(builder: Builder, node: Node) -> Value:
    return builder.apply(
        nn.LrnOp,
        node.input(0),
        size=node.required("size", 0),
        alpha=node.number("alpha", 1e-4),
        beta=node.number("beta", 0.75),
        bias=node.number("bias", 1.0),
    )


def _softmax(op: type[nn.SoftmaxOp] | type[nn.LogSoftmaxOp]) -> Translate:
    def translate(builder: Builder, node: Node) -> Value:
        x = node.input(0)
        shape = shape_of(x)
        if node.opset >= 13:
            return builder.apply(op, x, axis=normalize_axis(node.get("axis", -1), len(shape)))
        # Up to opset 12 the op goes over all dims from `axis` on, as if they were one.
        axis = node.get("axis", 1)
        axis = len(shape) if axis == len(shape) else normalize_axis(axis, len(shape))
        many = [dim for dim in range(axis, len(shape)) if shape[dim] != 1]
        if len(many) <= 1 and axis < len(shape):
            return builder.apply(op, x, axis=many[0] if many else axis)
        flat = builder.emit(ReshapeOp(builder.operand(x), (prod(shape[:axis]), prod(shape[axis:]))))
        return builder.emit(ReshapeOp(builder.apply(op, flat, axis=1), shape))

    return translate


# --- reductions -----------------------------------------------------------------------------------------------

_PLAIN = frozenset((nn.ReduceMaxOp, nn.ReduceMeanOp, nn.ReduceMinOp, nn.ReduceProdOp, nn.ReduceSumOp))
"""The reductions that leave a single element as it is."""


def _reduce(op: type[nn.ReduceOp], axes_are_input_since: int) -> Translate:
    def translate(builder: Builder, node: Node) -> Value:
        x = node.input(0)
        rank = len(shape_of(x))
        axes = node.int_list("axes", 1, axes_are_input_since)
        keepdims = node.flag("keepdims", default=True)
        noop = node.flag("noop_with_empty_axes")
        if not axes and noop:
            if op in _PLAIN:
                return x
            # Each element for itself: what is done before and behind the reduction stays.
            alone = builder.emit(ReshapeOp(builder.operand(x), (*shape_of(x), 1)))
            return builder.apply(op, alone, axes=(rank,), keepdims=False)
        chosen = normalize_axes(axes, rank) if axes else tuple(range(rank))
        if op is nn.ReduceMeanOp and not all(shape_of(x)[axis] for axis in chosen):
            # The mean of none is undefined; here it is 0, as in ONNX Runtime.
            return builder.apply(nn.ReduceSumOp, x, axes=chosen, keepdims=keepdims)
        return builder.apply(op, x, axes=chosen, keepdims=keepdims)

    return translate


_OPS: dict[str, Translate] = {
    "AveragePool": _over_windows(_average_pool),
    "BatchNormalization": _batch_norm,
    "Conv": _over_windows(_conv),
    "ConvTranspose": _over_windows(_conv_transpose),
    "Gemm": _gemm,
    "GlobalAveragePool": _over_windows(_global(nn.GlobalAvgPoolOp)),
    "GlobalMaxPool": _over_windows(_global(nn.GlobalMaxPoolOp)),
    "LRN": _lrn,
    "LogSoftmax": _softmax(nn.LogSoftmaxOp),
    "MatMul": _matmul,
    "MaxPool": _over_windows(_max_pool),
    "ReduceL1": _reduce(nn.ReduceL1Op, 18),
    "ReduceL2": _reduce(nn.ReduceL2Op, 18),
    "ReduceLogSum": _reduce(nn.ReduceLogSumOp, 18),
    "ReduceLogSumExp": _reduce(nn.ReduceLogSumExpOp, 18),
    "ReduceMax": _reduce(nn.ReduceMaxOp, 18),
    "ReduceMean": _reduce(nn.ReduceMeanOp, 18),
    "ReduceMin": _reduce(nn.ReduceMinOp, 18),
    "ReduceProd": _reduce(nn.ReduceProdOp, 18),
    "ReduceSum": _reduce(nn.ReduceSumOp, 13),
    "ReduceSumSquare": _reduce(nn.ReduceSumSquareOp, 18),
    "Softmax": _softmax(nn.SoftmaxOp),
}

TRANSLATIONS: dict[str, Translation] = {name: Translation(translate) for name, translate in _OPS.items()}
