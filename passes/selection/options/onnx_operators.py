"""The ONNX standard as a target: in which orders of dims its operators compute what an op says.

    every value                         a permutation of its dims; no blocks, no pads
    convolutions, pools, batch_norm,    batch, channels, space, as the operator defines it; weights with output channels
    group_norm, lrn, global pools,      outermost, of a transposed convolution with input channels
    resize
    layer_norm, rms_norm                the dims that they normalize over innermost, in order, as LayerNormalization has
                                        them; or row-major, which may be a few operators
    matrix products                     row-major; of two matrices either may be transposed, as Gemm has a flag for each
    everything else                     any permutation in which its model offers it: the axes are rewritten

Whatever is chosen here can be written as a model (`convert-layout-to-physical`, `li.to_onnx`): a reorder becomes one
Transpose. Costs are those of a machine that runs convolutions at one rate, so that Transposes alone differ.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from xdsl.ir import Operation, SSAValue

from layout_ir.algebra.format import Format
from layout_ir.algebra.physical import physical_tensor
from layout_ir.dialects import nn
from layout_ir.dialects.layout import has_layout
from layout_ir.errors import LayoutError
from layout_ir.interfaces import LayoutOption
from layout_ir.passes.selection.options.conv_kernels import ConvKernel, ConvShape, Target, row_major_kernel
from layout_ir.passes.selection.options.tensor_formats import bound, row_major, shape_of

_IN_ORDER = (
    nn.ConvOp, nn.ConvTransposeOp, nn.MaxPoolOp, nn.AvgPoolOp, nn.GlobalAvgPoolOp, nn.GlobalMaxPoolOp, nn.BatchNormOp,
    nn.GroupNormOp, nn.LrnOp, nn.ResizeOp,
)  # fmt: skip
"""Ops whose operators know batch, channels and space by their positions."""

_RATE = 60


def target() -> Target:
    """The target `onnx`."""
    return Target(
        "onnx",
        "permutations of dims, as ONNX operators take them",
        _conv_kernels,
        _refine,
        refines_locally=True,
    )


def _conv_kernels(conv: ConvShape) -> Iterator[ConvKernel]:
    yield row_major_kernel(conv, _RATE)


def _refine(op: Operation, options: Iterable[LayoutOption]) -> Iterable[LayoutOption]:
    return [option for option in options if _can_be_written(op, option)]


def _can_be_written(op: Operation, option: LayoutOption) -> bool:
    operands = [value for value in op.operands if has_layout(value.type)]
    results = [value for value in op.results if has_layout(value.type)]
    ins = [(value, fmt) for value, fmt in zip(operands, option.ins, strict=True) if fmt is not None]
    outs = list(zip(results, option.outs, strict=True))
    if isinstance(op, _IN_ORDER):
        return all(_is_row_major(*pair) for pair in (*ins, *outs))
    if isinstance(op, nn.MatmulOp | nn.GemmOp):
        matrices = all(len(shape_of(value)) == 2 for value in operands[:2])
        free = ins[:2] if matrices else []
        return all(_is_permuted(*pair) for pair in free) and all(
            _is_row_major(*pair) for pair in (*ins[len(free) :], *outs)
        )
    if not all(_is_permuted(*pair) for pair in (*ins, *outs)):
        return False
    if isinstance(op, nn.LayerNormOp | nn.RmsNormOp):
        return _is_row_major(*outs[0]) or _ends_in(_order(*outs[0]), op.axes, shape_of(op.result))
    if isinstance(op, nn.ReduceOp) and not op.keepdims:
        # The dims that stay are in the order that they had: any other would be a Transpose of the result.
        order = [dim - sum(axis < dim for axis in op.axes) for dim in _order(*ins[0]) if dim not in op.axes]
        return order == _order(*outs[0])
    return True


def _is_row_major(value: SSAValue, fmt: Format) -> bool:
    layout, plain = bound(fmt, value), bound(row_major(value), value)
    return layout is not None and plain is not None and layout.same_map(plain) and not layout.is_padded


def _is_permuted(value: SSAValue, fmt: Format) -> bool:
    """Whether a tensor in `fmt` is dense and has each of its dims whole, in some order."""
    layout = bound(fmt, value)
    if layout is None or layout.is_padded:
        return False
    try:
        tensor = physical_tensor(layout)
    except LayoutError:
        return False
    return all(len(tensor.places(dim)) <= 1 for dim in range(layout.rank))


def _ends_in(order: Sequence[int], axes: Sequence[int], extents: Sequence[int]) -> bool:
    """Whether the innermost dims in `order`, which has none of extent 1, are `axes` from the lowest to the highest."""
    innermost = [axis for axis in sorted(axes) if extents[axis] != 1]
    return list(order[len(order) - len(innermost) :]) == innermost


def _order(value: SSAValue, fmt: Format) -> list[int]:
    """The dims of a tensor in a permuted `fmt` from the outermost to the innermost, without those of extent 1."""
    tensor = physical_tensor(fmt.bind(shape_of(value)))
    return [place.dim for place in tensor.dims if place.count != 1]
