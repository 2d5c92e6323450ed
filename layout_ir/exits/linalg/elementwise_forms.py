"""Elementwise ops as one `linalg.generic` each, whose body is the definition in `dialects/nn/elementwise.py`."""

from __future__ import annotations

from typing import Any, cast

from layout_ir.dialects import nn
from layout_ir.dialects.layout import ReorderOp, dtype_of
from layout_ir.elements.element_types import element_type
from layout_ir.errors import LayoutError
from layout_ir.exits.linalg.linalg_builder import LinalgBuilder, TensorValue
from layout_ir.exits.linalg.scalar_body import Scalar, converted, divided


def write_elementwise(build: LinalgBuilder, op: nn.ElementwiseOp, operands: list[TensorValue]) -> TensorValue:
    """The definition of the op at every element."""
    return build.elementwise(op.compute, *operands, shape=op.infer(), dtype=dtype_of(op.result.type))


def write_expand(build: LinalgBuilder, op: nn.ExpandOp, operands: list[TensorValue]) -> TensorValue:
    """The elements of x wherever they are broadcast to; the bits stay."""
    return build.elementwise(lambda np, x: x, operands[0], shape=op.infer(), stores=True)


def write_where(build: LinalgBuilder, op: nn.WhereOp, operands: list[TensorValue]) -> TensorValue:
    """A choice of stored elements; the bits stay."""
    return build.elementwise(
        op.compute, *operands, shape=op.infer(), dtype=dtype_of(op.result.type), stores=True
    )


def write_division(build: LinalgBuilder, op: nn.DivOp, operands: list[TensorValue]) -> TensorValue:
    """The quotient; of integers one that does not trap."""
    if element_type(operands[0].dtype).is_float:
        return write_elementwise(build, op, operands)
    return build.elementwise(divided, *operands, shape=op.infer())


def write_power(build: LinalgBuilder, op: nn.PowOp, operands: list[TensorValue]) -> TensorValue:
    """The power; that of integers has a definition of its own."""
    return build.elementwise(lambda np, x, y: np.power(x, y), *operands, shape=op.infer())


def write_cast(build: LinalgBuilder, op: nn.CastOp, operands: list[TensorValue]) -> TensorValue:
    """A conversion as C's, but that out of range saturates."""
    dtype, source = dtype_of(op.result.type), operands[0].dtype
    return build.elementwise(
        lambda np, x: _converted(x, source, dtype, "truncate"), operands[0], dtype=dtype, stores=True
    )


def _converted(x: Scalar, source: str, dtype: str, rounding: str) -> Scalar:
    """A stored element as a stored element of another type."""
    wide = x.body.widened(x.value, source) if source in ("f16", "bf16") and dtype != source else x
    return converted(wide, dtype, rounding=rounding)


def write_conversion(build: LinalgBuilder, op: ReorderOp, operands: list[TensorValue]) -> TensorValue:
    """A reorder that keeps the layout and converts elements: the steps of `layout_ir.elements.quantization`."""
    conversion, (x,) = op.conversion, operands
    for dtype in (conversion.src, conversion.dst):
        if element_type(dtype).is_packed:
            raise LayoutError(f"elements of {dtype} are two in a byte, which tensors of linalg do not have")
    if not conversion.parameters:
        return build.elementwise(
            lambda np, v: _converted(v, conversion.src, conversion.dst, "nearest"),
            x,
            dtype=conversion.dst,
            stores=True,
        )
    wide = conversion.computes
    parameters: list[TensorValue] = []
    names = list(conversion.parameters)
    if "beta" in names:
        raise LayoutError("it adds to what the destination holds, which a value of linalg has not")
    for name in names:
        value: Any = conversion.parameters[name]
        if isinstance(value, str):
            raise LayoutError(f"its {name} is a runtime parameter")
        if isinstance(value, tuple):
            assert conversion.dim is not None
            shape = [1] * len(x.shape)
            shape[conversion.dim] = x.shape[conversion.dim]
            parameters.append(build.numbers(shape, wide, cast("tuple[float, ...]", value)))
        else:
            parameters.append(build.numbers((), wide, (value,)))

    def compute(np: Any, stored: Scalar, *values: Scalar) -> Scalar:
        given = dict(zip(names, values, strict=True))
        y = _converted(stored, conversion.src, wide, "truncate")
        if "src_zero" in given:
            y = y - given["src_zero"]
        if "src_scale" in given:
            y = y * given["src_scale"]
        if "dst_scale" in given:
            y = y / given["dst_scale"]
        if "dst_zero" in given:
            y = np.rint(y) + given["dst_zero"]
        return converted(y, conversion.dst, rounding="nearest")

    return build.elementwise(compute, x, *parameters, dtype=conversion.dst, stores=True)
