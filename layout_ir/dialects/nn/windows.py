"""Arithmetic of sliding windows, shared by convolution and pooling."""

from __future__ import annotations

from layout_ir.dialects.nn.nn_op import NNOp
from layout_ir.dialects.nn.tensor_types import Shape, shape_of
from layout_ir.errors import LayoutError, shape_text


def ones(op: NNOp) -> tuple[int, ...]:
    """One per spatial dim."""
    return (1,) * spatial_rank(op)


def no_pads(op: NNOp) -> tuple[int, ...]:
    """Zero at the begin and the end of each spatial dim."""
    return (0, 0) * spatial_rank(op)


def spatial_rank(op: NNOp) -> int:
    """Number of dims of the first operand behind batch and channels."""
    return max(len(shape_of(op.operands[0])) - 2, 0)


MOST_DIMS = 5
"""Dims of the largest operand that windows are moved over: (N, C, 3 spatial dims)."""


def check_rank(op: str, shape: Shape) -> None:
    """Raises LayoutError unless `shape` is (N, C, 1 to 3 spatial dims)."""
    if not 3 <= len(shape) <= MOST_DIMS:
        raise LayoutError(
            f"{op} works on rank 3 to 5 (batch, channels, 1 to 3 spatial dims), "
            f"but operand 0 is {shape_text(shape)}: rank {len(shape)}"
        )


def check_weight(x: Shape, w: Shape) -> None:
    """Raises LayoutError unless the weight of a convolution has as many dims as its input."""
    if len(w) != len(x):
        raise LayoutError(
            f"rank mismatch between input {shape_text(x)} and weight {shape_text(w)}: {len(x)} != {len(w)}"
        )


def check_bias(bias: Shape, w: Shape, outputs: int) -> None:
    """Raises LayoutError unless the bias of a convolution has one element per output channel of its weight."""
    if bias != (outputs,):
        raise LayoutError(
            f"shape mismatch between bias {shape_text(bias)} and "
            f"output channels of weight {shape_text(w)}: {shape_text(bias)} != {outputs}"
        )


def same_pads(extents: Shape, kernel: Shape, strides: Shape, dilations: Shape, *, upper: bool) -> Shape:
    """The pads, begins before ends, with which there is a window for every stride that an extent begins; of an odd
    number of them, one more at the end with `upper`, else at the begin."""
    less: list[int] = []
    more: list[int] = []
    for extent, size, stride, dilation in zip(extents, kernel, strides, dilations, strict=True):
        steps = -(-extent // stride)
        total = max((steps - 1) * stride + (size - 1) * dilation + 1 - extent, 0)
        less.append(total // 2)
        more.append(total - total // 2)
    return (*less, *more) if upper else (*more, *less)


def resolved_pads(
    automatic: str | None,
    given: Shape | None,
    extents: Shape,
    kernel: Shape,
    strides: Shape,
    dilations: Shape,
) -> Shape:
    """The pads of windows where ONNX's attribute `auto_pad` is `automatic`, begins before ends.

    SAME_UPPER and SAME_LOWER ask for those of `same_pads`, VALID for none, any other word for those that are `given`,
    which are none by default.
    """
    if automatic in ("SAME_UPPER", "SAME_LOWER"):
        return same_pads(extents, kernel, strides, dilations, upper=automatic == "SAME_UPPER")
    return (given if automatic != "VALID" else None) or (0, 0) * len(extents)


def window_shape(
    extents: Shape,
    kernel: Shape,
    *,
    strides: Shape,
    pads: Shape,
    dilations: Shape,
    ceil_mode: bool = False,
) -> Shape:
    """Number of window positions per spatial dim.

    `pads` has the begins of all dims, then the ends. With `ceil_mode` the last window may end after the padding, but
    not start in the padding at the end. Raises LayoutError where a list has the wrong length or a negative entry, or
    no window fits.
    """
    rank = len(extents)
    for name, values, low in (
        ("kernel", kernel, 1),
        ("strides", strides, 1),
        ("dilations", dilations, 1),
        ("pads", pads, 0),
    ):
        wanted = 2 * rank if name == "pads" else rank
        if len(values) != wanted:
            raise LayoutError(
                f"{name} = {list(values)} does not fit {rank} spatial dims: {len(values)} != {wanted} entries"
            )
        if any(value < low for value in values):
            raise LayoutError(f"{name} = {list(values)} has an entry below {low}")
    result: list[int] = []
    for dim in range(rank):
        padded = extents[dim] + pads[dim] + pads[rank + dim]
        dilated = (kernel[dim] - 1) * dilations[dim] + 1
        steps, rest = divmod(padded - dilated, strides[dim])
        if ceil_mode:
            steps += bool(rest)
            # As in ONNX and torch: a last window that starts in the high padding is dropped, a full one too.
            steps -= steps * strides[dim] >= extents[dim] + pads[dim] > 0
        if steps < 0:
            raise LayoutError(
                f"window and extent do not fit in spatial dim {dim}: kernel {kernel[dim]} dilated to {dilated} > "
                f"extent {extents[dim]} padded to {padded}"
            )
        result.append(steps + 1)
    return tuple(result)
