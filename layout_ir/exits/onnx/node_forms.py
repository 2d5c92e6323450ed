"""How each op is written: the operator, the first version that has what the op uses, and its inputs and attributes.

What a version has is a matter of its schemas (`operator_versions`); here stands what they do not say: when lists moved
from attributes to inputs, when an axis got its meaning of today. Elementwise ops and reductions have the names of their
operators, and elementwise ones their operands and attributes, but for those below.

Where the operator of an op is young, or takes less than the op, older operators compute the same: a form of several
nodes (`composed_nodes`) stands behind the first one, and a model keeps its version.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import zip_longest
from math import inf, prod
from operator import lt
from typing import Any, cast

from xdsl.dialects.builtin import AnyFloat
from xdsl.ir import Operation

from layout_ir.dialects import nn
from layout_ir.dialects.layout import PermuteOp, ReorderOp, ReshapeOp, dtype_of
from layout_ir.dialects.layout.types import tensor_type
from layout_ir.dialects.layout.view_ops import SliceOp
from layout_ir.dialects.nn.tensor_types import int_range
from layout_ir.errors import LayoutError
from layout_ir.exits.onnx import composed_nodes
from layout_ir.exits.onnx.conversion_nodes import write_conversion
from layout_ir.exits.onnx.node_writer import NodeWriter
from layout_ir.exits.onnx.operator_versions import DATA_TYPES, OLDEST, first_version

Write = Callable[[NodeWriter, Any], object]


def _any_version(op: Any) -> int | None:
    return OLDEST


@dataclass(frozen=True, slots=True)
class NodeForm:
    """The form of an op in ONNX."""

    op_type: str
    """The operator whose schema says which element types there are."""
    write: Write
    """Writes the node, or nodes, of an op."""
    since: Callable[[Any], int | None] = _any_version
    """The first version in which `write` can write an op, whatever its element types; None where none can."""
    otherwise: NodeForm | None = None
    """The form of the op where this one does not exist."""

    def first_version(self, op: Operation) -> int | None:
        """The first version in which the op can be written in any of its forms; None where there is none."""
        rest = None if self.otherwise is None else self.otherwise.first_version(op)
        return min(
            (version for version in (self._own_version(op), rest) if version is not None), default=None
        )

    def write_in(self, write: NodeWriter, op: Operation) -> None:
        """Writes `op` in the first of its forms that the version of `write` has, which one of them exists in."""
        own = self._own_version(op)
        if self.otherwise is None or (own is not None and own <= write.opset):
            self.write(write, op)
        else:
            self.otherwise.write_in(write, op)

    def _own_version(self, op: Operation) -> int | None:
        since = self.since(op)
        return None if since is None else first_version(self.op_type, op.operands, op.results, since)


# --- one operator with the operands of the op ----------------------------------------------------------------------


def _node(op_type: str, attributes: Callable[[Any], dict[str, Any]] = lambda op: {}) -> Write:
    return lambda write, op: write.node(op, op_type, write.names_of(op.operands), **attributes(op))


def _stored(op: nn.NNOp) -> dict[str, Any]:
    """The attributes of an op that are not at their defaults, which are those of the operator."""
    values = {name: getattr(op, name) for name in op.__fields__}
    stored = {name: x for name, x in values.items() if x != op.__fields__[name].default_of(op)}
    return {name: int(x) if isinstance(x, bool) else x for name, x in stored.items()}


def _elementwise(op: type[nn.ElementwiseOp]) -> NodeForm:
    name = op.__name__.removesuffix("Op")
    return NodeForm(name, _node(name, _stored))


def _cast(op: nn.CastOp) -> dict[str, Any]:
    return {"to": DATA_TYPES[dtype_of(op.result.type)]}


def _identity(write: NodeWriter, op: Operation) -> None:
    write.node(op, "Identity", write.names_of(op.operands))


def _clip(write: NodeWriter, op: nn.ClipOp) -> None:
    element = tensor_type(op.x.type).element_type
    ends = ((op.min, -inf), (op.max, inf))
    bounds: list[float | None] = [None if bound == end else bound for bound, end in ends]
    if not isinstance(element, AnyFloat):
        low, high = int_range(element)
        bounds = [None if b is None else (low if b < low else high if b > high else int(b)) for b in bounds]
    if write.opset < 11:
        write.node(op, "Clip", write.names_of(op.operands), min=bounds[0], max=bounds[1])
        return
    given = [
        "" if bound is None else write.number(bound, dtype_of(op.x.type), name)
        for bound, name in zip(bounds, ("min", "max"), strict=True)
    ]
    write.node(op, "Clip", [*write.names_of(op.operands), *given])


def _expand(write: NodeWriter, op: nn.ExpandOp) -> None:
    write.node(op, "Expand", [write.name_of(op.x), write.ints(op.shape, "shape")])


# --- windows, matrices, normalizations ------------------------------------------------------------------------------


def _conv(op: nn.ConvOp | nn.ConvTransposeOp) -> dict[str, Any]:
    return _stored(op) | {"kernel_shape": op.shapes[1][2:]}


def _conv_transpose_since(op: nn.ConvTransposeOp) -> int | None:
    """`output_padding` tells apart the extents of which a convolution makes one: it is below the stride."""
    return OLDEST if all(map(lt, op.output_padding, op.strides)) else None


def _layer_norm_since(op: nn.LayerNormOp) -> int | None:
    return 17 if composed_nodes.normalizes_innermost(op) else None


def _rms_norm_since(op: nn.RmsNormOp) -> int | None:
    return 23 if composed_nodes.normalizes_innermost(op) else None


def _instance_norm_since(op: nn.GroupNormOp) -> int | None:
    """The operator has one group per channel, and at least one spatial dim."""
    return OLDEST if op.group_size == 1 and len(op.shapes[0]) > 2 else None


def _stored_epsilon(op: nn.GroupNormOp) -> dict[str, Any]:
    return {"epsilon": op.epsilon}


def _group_norm(op: nn.GroupNormOp) -> dict[str, Any]:
    return {"num_groups": op.groups, "epsilon": op.epsilon} | composed_nodes.stash_type(op.x)


def _pool(op: nn.MaxPoolOp | nn.AvgPoolOp) -> dict[str, Any]:
    values = _stored(op)
    values["kernel_shape"] = values.pop("kernel")
    growth = _growth(op)
    if op.ceil_mode and (not any(growth) or None in growth):
        # Versions differ about a last window that starts in the padding; windows that need no rounding tell them.
        rank = len(op.kernel)
        ends = [end + (more or 0) for end, more in zip(op.pads[rank:], growth, strict=True)]
        values["ceil_mode"] = None
        values["pads"] = (*op.pads[:rank], *ends) if any(op.pads) or any(ends) else None
    return values


def _growth(op: nn.MaxPoolOp | nn.AvgPoolOp) -> list[int | None]:
    """Per spatial dim, by how much the last window reaches beyond the padding at the end; None where rounding up would
    give one more window, which the op does not have. Raises LayoutError where that cannot be said by padding."""
    rank = len(op.kernel)
    result: list[int | None] = []
    for dim, (extent, count) in enumerate(zip(op.shapes[0][2:], op.infer()[2:], strict=True)):
        padded = extent + op.pads[dim] + op.pads[rank + dim]
        reach = (count - 1) * op.strides[dim] + (op.kernel[dim] - 1) * op.dilations[dim] + 1
        result.append(None if op.ceil_mode and reach < padded else max(reach - padded, 0))
    if None in result and any(result) and isinstance(op, nn.AvgPoolOp) and op.count_include_pad:
        raise LayoutError(
            "ceil_mode drops a window in one dim and adds one in another, with padding that counts"
        )
    return result


def _max_pool_since(op: nn.MaxPoolOp) -> int:
    return 10 if op.ceil_mode or max(op.dilations) > 1 else OLDEST


def _avg_pool_since(op: nn.AvgPoolOp) -> int:
    return 19 if max(op.dilations) > 1 else 10 if op.ceil_mode else OLDEST


def _gemm(write: NodeWriter, op: nn.GemmOp) -> None:
    inputs = write.names_of(op.operands)
    if op.c is None and write.opset < 11:
        inputs.append(write.number(0.0, dtype_of(op.a.type), "zero"))
    flags = {"transA": int(op.trans_a) or None, "transB": int(op.trans_b) or None}
    scales = {name: value for name, value in _stored(op).items() if name in ("alpha", "beta")}
    write.node(op, "Gemm", inputs, **flags, **scales)


def _lrn(op: nn.LrnOp) -> dict[str, Any]:
    return {"size": op.size, "alpha": op.alpha, "beta": op.beta, "bias": op.bias}


def _softmax_since(op: nn.SoftmaxOp | nn.LogSoftmaxOp) -> int:
    """Before version 13 all dims from the axis on were one."""
    return OLDEST if prod(op.shapes[0][op.axis + 1 :]) == 1 else 13


def _axis(op: nn.SoftmaxOp | nn.LogSoftmaxOp | nn.ConcatOp | nn.GatherOp) -> dict[str, Any]:
    return {"axis": op.axis}


# --- reductions -----------------------------------------------------------------------------------------------------


def _reduction(op: type[nn.ReduceOp]) -> NodeForm:
    op_type = op.__name__.removesuffix("Op")
    axes_are_input_since = 13 if op is nn.ReduceSumOp else 18

    def write_it(write: NodeWriter, op: nn.ReduceOp) -> None:
        x = write.name_of(op.x)
        keepdims = None if op.keepdims else 0
        if not op.axes:
            write.node(op, "Identity", [x])  # no axes would be all
        elif write.opset < axes_are_input_since:
            write.node(op, op_type, [x], axes=op.axes, keepdims=keepdims)
        else:
            write.node(op, op_type, [x, write.ints(op.axes, "axes")], keepdims=keepdims)

    return NodeForm(op_type, write_it)


def _cum_sum(write: NodeWriter, op: nn.CumSumOp) -> None:
    flags: dict[str, Any] = {"exclusive": int(op.exclusive) or None, "reverse": int(op.reverse) or None}
    write.node(op, "CumSum", [write.name_of(op.x), write.number(op.axis, "i64", "axis")], **flags)


def _arg_reduction_since(op: nn.ArgMaxOp | nn.ArgMinOp) -> int:
    """The first version that takes the element asked for of equal ones: those before 12 take the first."""
    return 12 if op.select_last else OLDEST


def _arg_reduction(op: nn.ArgMaxOp | nn.ArgMinOp) -> dict[str, Any]:
    last = {"select_last_index": 1} if op.select_last else {}
    return {"axis": op.axis, "keepdims": None if op.keepdims else 0, **last}


# --- other indices --------------------------------------------------------------------------------------------------


def _pad(write: NodeWriter, op: nn.PadOp) -> None:
    x = write.name_of(op.x)
    mode = None if op.mode == "constant" else op.mode
    value = op.value if op.value != 0 and mode is None else None
    if not op.pads:
        _identity(write, op)
    elif write.opset < 11:
        write.node(op, "Pad", [x], pads=op.pads, mode=mode, value=value)
    else:
        number = "" if value is None else write.number(value, dtype_of(op.x.type), "value")
        write.node(op, "Pad", [x, write.ints(op.pads, "pads"), number], mode=mode)


def _pad_since(op: nn.PadOp) -> int:
    return 19 if op.mode == "wrap" else OLDEST


def _slice(write: NodeWriter, op: nn.SliceOp | SliceOp) -> None:
    x, shape = op.operands[0], tensor_type(op.operands[0].type).get_shape()
    if isinstance(op, nn.SliceOp):
        starts, sizes, steps = op.starts, op.sizes, op.steps
    else:
        starts, sizes, steps = op.ints("starts"), op.ints("sizes"), (1,) * len(shape)
    cuts: list[tuple[int, int, int, int]] = []
    for dim, (extent, start, size, step) in enumerate(zip(shape, starts, sizes, steps, strict=True)):
        if size == 0 < extent:
            cuts.append((0, 0, dim, 1))
        elif size != extent or (step != 1 and size > 1):
            end = start + size * step
            # An end below 0 would count from the end of the dim.
            cuts.append((start, end if end >= 0 else -extent - 1, dim, step))
    if not cuts:
        _identity(write, op)
        return
    begins, ends, axes, strides = zip(*cuts, strict=True)
    if write.opset < 10:
        write.node(op, "Slice", [write.name_of(x)], starts=begins, ends=ends, axes=axes)
        return
    lists = [write.ints(begins, "starts"), write.ints(ends, "ends"), write.ints(axes, "axes")]
    lists += [write.ints(strides, "steps")] if any(step != 1 for step in strides) else []
    write.node(op, "Slice", [write.name_of(x), *lists])


def _slice_since(op: nn.SliceOp) -> int:
    return 10 if any(step != 1 for step in op.steps) else OLDEST


def _tile(write: NodeWriter, op: nn.TileOp) -> None:
    write.node(op, "Tile", [write.name_of(op.x), write.ints(op.repeats, "repeats")])


def _resize(write: NodeWriter, op: nn.ResizeOp) -> None:
    x = write.name_of(op.x)
    if not op.scales and not op.sizes:
        _identity(write, op)
        return
    if write.opset < 11:
        scales = write.floats(op.scales, "scales")
        write.node(op, "Resize", [x, scales], mode=_stored(op).get("mode"))
        return
    # Version 11 has the inputs before the sizes as empty lists, later ones leave them out.
    none = "" if write.opset >= 13 else write.floats((), "none")
    scales = write.floats(op.scales, "scales") if op.scales else none
    inputs = [x, none, scales, *([write.ints(op.sizes, "sizes")] if op.sizes else [])]
    values = _stored(op)
    write.node(
        op,
        "Resize",
        inputs,
        mode=values.get("mode"),
        coordinate_transformation_mode=values.get("coordinates"),
        nearest_mode=values.get("nearest_mode") if op.mode == "nearest" else None,
    )


def _resize_since(op: nn.ResizeOp) -> int:
    """Version 10 knows positions i / scale, rounded down to enlarge and up to shrink."""
    grows, shrinks = all(scale >= 1 for scale in op.scales), all(scale <= 1 for scale in op.scales)
    rounding = op.mode == "linear" or op.nearest_mode == ("floor" if grows else "ceil")
    if op.sizes or op.coordinates != "asymmetric" or not rounding or not (grows or shrinks):
        return 11
    return 10


# --- views ----------------------------------------------------------------------------------------------------------


def _reshape(write: NodeWriter, op: ReshapeOp) -> None:
    """Squeeze or Unsqueeze where dims of extent 1 go or come, which runtimes see through; else Reshape."""
    x = write.name_of(op.input)
    old, new = op.source_type.get_shape(), op.result_type.get_shape()
    gone, come = _units_between(old, new), _units_between(new, old)
    if gone is None and come is None:
        allow = 1 if 0 in new and write.opset >= 14 else None
        write.node(op, "Reshape", [x, write.ints(new, "shape")], allowzero=allow)
        return
    op_type, axes = ("Squeeze", gone) if gone is not None else ("Unsqueeze", come or [])
    if not axes:
        _identity(write, op)
    elif write.opset < 13:
        write.node(op, op_type, [x], axes=axes)
    else:
        write.node(op, op_type, [x, write.ints(axes, "axes")])


def _reshape_since(op: ReshapeOp) -> int:
    """An extent of 0 in a shape copied that of the operand before version 14."""
    old, new = op.source_type.get_shape(), op.result_type.get_shape()
    copied = all(b != 0 or a == 0 for a, b in zip_longest(old, new, fillvalue=1))
    return OLDEST if copied else 14


def _units_between(longer: tuple[int, ...], shorter: tuple[int, ...]) -> list[int] | None:
    """The dims of extent 1 without which `longer` is `shorter`; None where there are no such."""
    left_out: list[int] = []
    rest = list(shorter)
    for dim, extent in enumerate(longer):
        if rest and rest[0] == extent:
            rest.pop(0)
        elif extent == 1:
            left_out.append(dim)
        else:
            return None
    return None if rest else left_out


FORMS: dict[type[Operation], NodeForm] = {
    **{cast("type[Operation]", op): _elementwise(op) for op in nn.NN.operations if issubclass(op, nn.ElementwiseOp)},
    nn.CastOp: NodeForm("Cast", _node("Cast", _cast)),
    nn.ClipOp: NodeForm("Clip", _clip),
    nn.ExpandOp: NodeForm("Expand", _expand),
    nn.SwishOp: NodeForm("Swish", _node("Swish", _stored), otherwise=NodeForm("Mul", composed_nodes.write_swish)),
    nn.CeluOp: NodeForm("Celu", _node("Celu", _stored), otherwise=NodeForm("Mul", composed_nodes.write_celu)),
    nn.ConvOp: NodeForm("Conv", _node("Conv", _conv)),
    nn.ConvTransposeOp: NodeForm(
        "ConvTranspose", _node("ConvTranspose", _conv), _conv_transpose_since,
        NodeForm("ConvTranspose", composed_nodes.write_longer_conv_transpose),
    ),
    nn.MaxPoolOp: NodeForm("MaxPool", _node("MaxPool", _pool), _max_pool_since),
    nn.AvgPoolOp: NodeForm("AveragePool", _node("AveragePool", _pool), _avg_pool_since),
    nn.GlobalAvgPoolOp: NodeForm("GlobalAveragePool", _node("GlobalAveragePool")),
    nn.GlobalMaxPoolOp: NodeForm("GlobalMaxPool", _node("GlobalMaxPool")),
    nn.MatmulOp: NodeForm("MatMul", _node("MatMul")),
    nn.GemmOp: NodeForm("Gemm", _gemm),
    nn.BatchNormOp: NodeForm("BatchNormalization", _node("BatchNormalization", _stored)),
    nn.LayerNormOp: NodeForm(
        "LayerNormalization", composed_nodes.write_innermost_norm, _layer_norm_since,
        NodeForm("Mul", composed_nodes.write_axes_norm),
    ),
    nn.RmsNormOp: NodeForm(
        "RMSNormalization", composed_nodes.write_innermost_norm, _rms_norm_since,
        NodeForm("Mul", composed_nodes.write_axes_norm),
    ),
    nn.GroupNormOp: NodeForm(
        "InstanceNormalization", _node("InstanceNormalization", _stored_epsilon), _instance_norm_since,
        NodeForm(
            "GroupNormalization", _node("GroupNormalization", _group_norm), lambda op: 21,
            NodeForm("InstanceNormalization", composed_nodes.write_group_norm),
        ),
    ),
    nn.LrnOp: NodeForm("LRN", _node("LRN", _lrn)),
    nn.SoftmaxOp: NodeForm("Softmax", _node("Softmax", _axis), _softmax_since),
    nn.LogSoftmaxOp: NodeForm("LogSoftmax", _node("LogSoftmax", _axis), _softmax_since),
    **{cast("type[Operation]", op): _reduction(op) for op in nn.NN.operations if issubclass(op, nn.ReduceOp)},
    nn.CumSumOp: NodeForm("CumSum", _cum_sum),
    nn.ArgMaxOp: NodeForm("ArgMax", _node("ArgMax", _arg_reduction), _arg_reduction_since),
    nn.ArgMinOp: NodeForm("ArgMin", _node("ArgMin", _arg_reduction), _arg_reduction_since),
    # Indices below 0 are of version 11, but models of older versions have none.
    nn.GatherOp: NodeForm("Gather", _node("Gather", _axis)),
    nn.ConcatOp: NodeForm("Concat", _node("Concat", _axis)),
    nn.PadOp: NodeForm("Pad", _pad, _pad_since),
    nn.SliceOp: NodeForm("Slice", _slice, _slice_since),
    nn.TileOp: NodeForm("Tile", _tile),
    nn.ResizeOp: NodeForm("Resize", _resize, _resize_since),
    PermuteOp: NodeForm("Transpose", _node("Transpose", lambda op: {"perm": op.ints("perm")})),
    ReshapeOp: NodeForm("Reshape", _reshape, _reshape_since),
    SliceOp: NodeForm("Slice", _slice),
    ReorderOp: NodeForm("Cast", write_conversion, lambda op: 13),
}  # fmt: skip
"""Every op of `nn` but constants and opaque ops, and what a physical program has of `layout`."""
