"""Ops that move elements to other indices: concat, pad, slice, tile, resize."""

from __future__ import annotations

import math
from typing import ClassVar

from xdsl.dialects.builtin import TensorType
from xdsl.irdl import irdl_op_definition, operand_def, var_operand_def

from layout_ir.dialects.nn.attributes import floats, integer, ints, keyword, number
from layout_ir.dialects.nn.nn_op import NNOp
from layout_ir.dialects.nn.tensor_types import ELEMENTS, NUMBERS, Shape, check_axis
from layout_ir.errors import LayoutError, shape_text

COORDINATES = ("half_pixel", "pytorch_half_pixel", "tf_half_pixel_for_nn", "asymmetric", "align_corners")
"""How the indices of a resized dim stand for positions of the operand: the names that ONNX has for it."""


@irdl_op_definition
class ConcatOp(NNOp):
    """The operands joined along `axis`, in order."""

    name = "nn.concat"
    ALLOWED: ClassVar[tuple[str, ...]] = ELEMENTS
    SAME_FORMAT: ClassVar[bool] = True

    inputs = var_operand_def(TensorType)

    axis = integer()

    def infer(self) -> Shape:
        """The shape of operand 0, with the extents along `axis` added up."""
        if not self.operands:
            raise LayoutError(f"{self.name} takes at least 1 operand, not 0")
        first = self.shapes[0]
        check_axis(self.axis, first)
        for position, shape in enumerate(self.shapes):
            if len(shape) != len(first) or _without(shape, self.axis) != _without(first, self.axis):
                raise LayoutError(
                    f"shape mismatch between operand 0 and operand {position} outside axis {self.axis}: "
                    f"{shape_text(first)} != {shape_text(shape)}"
                )
        extent = sum(shape[self.axis] for shape in self.shapes)
        return (*first[: self.axis], extent, *first[self.axis + 1 :])


def _without(shape: Shape, dim: int) -> Shape:
    return (*shape[:dim], *shape[dim + 1 :])


@irdl_op_definition
class PadOp(NNOp):
    """x with `pads` more elements at the begins of all dims, then the ends; a negative number takes away.

    They are `value` (mode constant), the elements mirrored at the border element (reflect), the border element
    (edge), or the elements from the other side (wrap). These elements are part of the logical shape and have
    nothing to do with the pads of a format.
    """

    name = "nn.pad"
    ALLOWED: ClassVar[tuple[str, ...]] = ELEMENTS
    SAME_FORMAT: ClassVar[bool] = True

    x = operand_def(TensorType)

    pads = ints()
    mode = keyword(("constant", "reflect", "edge", "wrap"))
    value = number(default=0.0)

    def infer(self) -> Shape:
        """The shape of x, each extent changed by its two entries of `pads`."""
        (x,) = self.shapes
        rank, pads = len(x), self.pads
        if len(pads) != 2 * rank:
            raise LayoutError(
                f"pads = {list(pads)} does not fit {shape_text(x)}: {len(pads)} != {2 * rank} entries"
            )
        result: list[int] = []
        for dim, extent in enumerate(x):
            begin, end = pads[dim], pads[rank + dim]
            if extent + begin + end < 0:
                raise LayoutError(
                    f"pads {begin} and {end} take more than dim {dim} of {shape_text(x)} has: "
                    f"{-begin - end} > {extent}"
                )
            most = {
                "reflect": extent - 1,
                "edge": math.inf if extent else 0,
                "wrap": math.inf if extent else 0,
            }
            if max(begin, end) > most.get(self.mode, math.inf):
                raise LayoutError(
                    f"{self.mode} pads {begin} and {end} reach beyond dim {dim} of {shape_text(x)}: "
                    f"{max(begin, end)} > {max(most[self.mode], 0)}"
                )
            result.append(extent + begin + end)
        return tuple(result)


def _unit_steps(op: NNOp) -> tuple[int, ...]:
    return (1,) * len(op.shapes[0])


@irdl_op_definition
class SliceOp(NNOp):
    """Elements starts, starts + steps, ... of each dim, `sizes` of them; steps may be negative. A copy.

    The view of the same name is `layout.slice`.
    """

    name = "nn.slice"
    ALLOWED: ClassVar[tuple[str, ...]] = ELEMENTS
    SAME_FORMAT: ClassVar[bool] = True

    x = operand_def(TensorType)

    starts = ints()
    sizes = ints()
    steps = ints(default=_unit_steps)

    def infer(self) -> Shape:
        """The shape of the result, `sizes`."""
        (x,) = self.shapes
        for name, values in (("starts", self.starts), ("sizes", self.sizes), ("steps", self.steps)):
            if len(values) != len(x):
                raise LayoutError(
                    f"{name} = {list(values)} does not fit {shape_text(x)}: {len(values)} != {len(x)} entries"
                )
        for dim, (extent, start, size, step) in enumerate(
            zip(x, self.starts, self.sizes, self.steps, strict=True)
        ):
            if step == 0:
                raise LayoutError(f"steps = {list(self.steps)} has a 0 in dim {dim}")
            if size < 0:
                raise LayoutError(f"sizes = {list(self.sizes)} has an entry below 0 in dim {dim}")
            last = start + (size - 1) * step
            if size and not (0 <= start < extent and 0 <= last < extent):
                raise LayoutError(
                    f"slice reaches outside dim {dim} of {shape_text(x)}: "
                    f"elements {start} to {last} are not in 0..{extent - 1}"
                )
        return self.sizes


@irdl_op_definition
class TileOp(NNOp):
    """x repeated `repeats` times along each dim."""

    name = "nn.tile"
    ALLOWED: ClassVar[tuple[str, ...]] = ELEMENTS
    SAME_FORMAT: ClassVar[bool] = True

    x = operand_def(TensorType)

    repeats = ints()

    def infer(self) -> Shape:
        """The extents of x, each times its entry of `repeats`."""
        (x,) = self.shapes
        if len(self.repeats) != len(x):
            raise LayoutError(
                f"repeats = {list(self.repeats)} does not fit {shape_text(x)}: {len(self.repeats)} != {len(x)} entries"
            )
        if any(count < 0 for count in self.repeats):
            raise LayoutError(f"repeats = {list(self.repeats)} has an entry below 0")
        return tuple(extent * count for extent, count in zip(x, self.repeats, strict=True))


@irdl_op_definition
class ResizeOp(NNOp):
    """x at other extents, by `scales` per dim or to `sizes`.

    Scales give the result extent floor(extent * scale), in double precision as ONNX has it since 1.22: 10 * 0.7f is
    6, where ONNX Runtime and older releases of ONNX multiply in single precision and get 7.

    A result index i reads position p of x:

        half_pixel            (i + 0.5) / scale - 0.5
        pytorch_half_pixel    the same, 0 where the result extent is 1
        tf_half_pixel_for_nn  (i + 0.5) / scale
        asymmetric            i / scale
        align_corners         i * (extent - 1) / (result extent - 1)

    clamped to x; with `sizes` the scale is result extent / extent. Mode nearest rounds p as `nearest_mode` says,
    mode linear interpolates linearly in each dim.
    """

    name = "nn.resize"
    ALLOWED: ClassVar[tuple[str, ...]] = NUMBERS
    SAME_FORMAT: ClassVar[bool] = True

    x = operand_def(TensorType)

    scales = floats(default=())
    sizes = ints(default=())
    mode = keyword(("nearest", "linear"))
    coordinates = keyword(COORDINATES)
    nearest_mode = keyword(("round_prefer_floor", "round_prefer_ceil", "floor", "ceil"))

    def infer(self) -> Shape:
        """`sizes`, or the extents of x times `scales`, rounded down."""
        (x,) = self.shapes
        if bool(self.scales) == bool(self.sizes) and x:
            raise LayoutError(
                f"{self.name} needs either scales or sizes, "
                f"not scales = {list(self.scales)} and sizes = {list(self.sizes)}"
            )
        name, values = ("sizes", self.sizes) if self.sizes else ("scales", self.scales)
        if len(values) != len(x):
            raise LayoutError(
                f"{name} = {list(values)} does not fit {shape_text(x)}: {len(values)} != {len(x)} entries"
            )
        if not all(value > 0 for value in values):
            raise LayoutError(f"{name} = {list(values)} has an entry that is not above 0")
        if self.sizes:
            return self.sizes
        extents = [extent * scale for extent, scale in zip(x, self.scales, strict=True)]
        if not all(map(math.isfinite, extents)):
            raise LayoutError(f"scales = {list(values)} of {shape_text(x)} give extents without an end")
        return tuple(map(math.floor, extents))
