"""The formats of MegEngine's CUDA kernels as a target: which element type runs in which.

    NCHW     any element type
    NCHW4    8-bit; channels in fours, groups and channel-wise convolutions too
    CHWN4    8-bit, one group; batch innermost but for the four channels
    NCHW32   8-bit, one group; channels in blocks of 32
    NCHW64   4-bit, one group; channels in blocks of 64
    NHWC     8-bit convolutions, and everything 4-bit; one group

Its formats do not pad: channels are whole blocks or the kernel is not there. Elementwise ops and pools run in the
same formats as convolutions of their element type; concat, slices and everything else need NCHW. Rates are whole
multiples of the row-major kernel's: what they rank is by vector loads (4) and by matrix units (32, 64).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from xdsl.ir import Operation, SSAValue

from layout_ir.algebra.factors import Factor
from layout_ir.algebra.format import Format
from layout_ir.dialects import nn
from layout_ir.dialects.layout import ReorderOp, ViewOp, dtype_of, is_tensor
from layout_ir.elements.element_types import bits_of, element_type
from layout_ir.interfaces import LayoutOption
from layout_ir.passes.selection.options.conv_kernels import (
    ConvKernel,
    ConvShape,
    activation,
    row_major_kernel,
    weight,
)
from layout_ir.passes.selection.options.tensor_formats import shape_of

_RATE = 5000
"""Operations per ns of the row-major kernels: a GPU with 5 TFLOP/s; the rest relative to it, by lanes."""


def _chwn4() -> Format:
    """The batch outside the four channels: [c, h, w, n, c:4]."""
    return Format(
        ("n", "c", "h", "w"), (Factor(1), Factor(2), Factor(3), Factor(0), Factor(1, 4)), pad="zero"
    )


def activations(dtype: str) -> dict[str, Format]:
    """The formats of activations with elements of `dtype`, by MegEngine's name; NCHW is always there."""
    blocks = {8: (4, 32), 4: (64,)}.get(bits_of(dtype), ())
    if element_type(dtype).is_float:
        blocks = ()
    found = {"NCHW": activation(2, "ncS")}
    found |= {f"NCHW{block}": activation(2, "ncS", ("c", block)) for block in blocks}
    if 4 in blocks:
        found["CHWN4"] = _chwn4()
    if 64 in blocks:
        found["NHWC"] = activation(2, "nSc")
    return found


def conv_kernels(conv: ConvShape) -> Iterator[ConvKernel]:
    """The CUDA kernels for a convolution, by element type, and the row-major one."""
    if conv.spatial_rank == 2:
        for name, x in activations(conv.dtype).items():
            if name != "NCHW" and (w := _weights(conv, name)) is not None:
                yield ConvKernel(x, w, x, _RATE * {"NCHW4": 4, "CHWN4": 4, "NCHW32": 16}.get(name, 32))
        if bits_of(conv.dtype) == 8 and not element_type(conv.dtype).is_float and _dense(conv, 4):
            last = activation(2, "nSc")
            yield ConvKernel(last, weight(2, "oSi"), last, _RATE * 16)
    yield row_major_kernel(conv, _RATE)


def _dense(conv: ConvShape, block: int) -> bool:
    return conv.group == 1 and conv.channels % block == 0 and conv.outputs % block == 0


def _weights(conv: ConvShape, name: str) -> Format | None:
    """The weights of the kernel in format `name`, or None where it does not take the convolution."""
    block = {"NCHW4": 4, "CHWN4": 4, "NCHW32": 32, "NCHW64": 64, "NHWC": 8}[name]
    if conv.is_depthwise:
        fits = name == "NCHW4" and conv.channels % 4 == 0
        return weight(2, "oiS", ("o", 4)) if fits else None
    if conv.group > 1:
        fits = name == "NCHW4" and conv.inputs_per_group % 4 == 0 and conv.outputs_per_group % 4 == 0
        return weight(2, "oiS", ("i", 4)) if fits else None
    if not _dense(conv, block):
        return None
    match name:
        case "NHWC":
            return weight(2, "oSi")
        case "CHWN4":
            return weight(2, "iSo", ("i", 4))
        case _:
            return weight(2, "oiS", ("i", block))


_FOLLOW = (nn.ElementwiseOp, nn.MaxPoolOp, nn.AvgPoolOp)


def refine(op: Operation, options: Iterable[LayoutOption]) -> Iterable[LayoutOption]:
    """Pools and elementwise ops in the formats of their element type; row-major for what has no other kernel."""
    if isinstance(op, nn.ConstantOp | ReorderOp | ViewOp | nn.ConvOp) or not isinstance(op, nn.NNOp):
        return options
    return [option for option in options if _accepts(op, option)]


def _accepts(op: nn.NNOp, option: LayoutOption) -> bool:
    values = [*(v for v in op.operands if is_tensor(v.type)), *op.results]
    for value, fmt in zip(values, (*option.ins, *option.outs), strict=True):
        shape = shape_of(value)
        if fmt is None or fmt.bind(shape).same_map(Format.row_major(fmt.names).bind(shape)):
            continue
        if not isinstance(op, _FOLLOW) or len(shape) != 4 or not _fits(fmt, value, shape):
            return False
    return True


def _fits(fmt: Format, value: SSAValue, shape: tuple[int, ...]) -> bool:
    layout = fmt.bind(shape)
    known = (known.bind(shape) for known in activations(dtype_of(value.type)).values())
    return any(layout.same_map(other) and not other.is_padded for other in known)
