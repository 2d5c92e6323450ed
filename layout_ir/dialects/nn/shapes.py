"""Arithmetic of shapes, shared by several families."""

from __future__ import annotations

from layout_ir.dialects.nn.tensors import Shape
from layout_ir.errors import LayoutError, shape_text


def broadcast(left: Shape, right: Shape) -> Shape:
    """NumPy's broadcast of two shapes. Raises LayoutError if an extent differs and neither is 1."""
    rank = max(len(left), len(right))
    a, b = ((1,) * (rank - len(shape)) + shape for shape in (left, right))
    for dim, (x, y) in enumerate(zip(a, b, strict=True)):
        if x != y and 1 not in (x, y):
            raise LayoutError(
                f"shapes {shape_text(left)} and {shape_text(right)} do not broadcast: {x} != {y} in dim {dim}"
            )
    return tuple(y if x == 1 else x for x, y in zip(a, b, strict=True))


def check_dim(name: str, dim: int, shape: Shape) -> None:
    """Raise LayoutError unless `dim`, the value of attribute `name`, is a dim of `shape`, from 0."""
    if not 0 <= dim < len(shape):
        raise LayoutError(f"{name} = {dim} is no dim of {shape_text(shape)}: not in 0..{len(shape) - 1}")
