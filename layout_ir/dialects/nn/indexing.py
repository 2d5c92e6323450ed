"""Ops that choose elements by numbers computed at run time, or compute such numbers: gather, arg_max, arg_min."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from xdsl.dialects.builtin import TensorType, i64
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import irdl_op_definition, operand_def

from layout_ir.dialects.nn.attributes import flag, integer
from layout_ir.dialects.nn.nn_op import DimImages, NNOp
from layout_ir.dialects.nn.tensor_types import ELEMENTS, NUMBERS, Shape, check_axis, tensor_type
from layout_ir.errors import LayoutError

INDICES = ("i32", "i64")
"""Element types of indices."""


@irdl_op_definition
class GatherOp(NNOp):
    """The slices of x at `indices` along `axis`, which the dims of the indices take the place of.

    A negative index counts from the end. One that is outside of the dim is an error of the caller.
    """

    name = "nn.gather"
    ALLOWED: ClassVar[tuple[str, ...]] = ELEMENTS
    SAME_ELEMENT: ClassVar[bool] = False
    SAME_FORMAT: ClassVar[bool] = True

    x = operand_def(TensorType)
    indices = operand_def(TensorType)

    axis = integer(default=0)

    def infer(self) -> Shape:
        """The shape of x, with the extents of the indices for that of `axis`."""
        x, indices = self.shapes
        check_axis(self.axis, x)
        return (*x[: self.axis], *indices, *x[self.axis + 1 :])

    def check_elements(self) -> None:
        """Raises LayoutError unless x and the result have one element type, and the indices are integers."""
        self.check_allowed((self.x,))
        self.check_equal_elements((self.x, self.result))
        element = str(tensor_type(self.indices).element_type)
        if element not in INDICES:
            raise LayoutError(
                f"the indices of {self.name} have element type {element}, expected one of {', '.join(INDICES)}"
            )

    def formatted_operands(self) -> Sequence[SSAValue]:
        """x, where the result has its rank."""
        return (self.x,) if len(self.shapes[1]) == 1 else ()

    def dim_images(self) -> DimImages | None:
        """`axis` becomes the dims of the indices."""
        x, indices = self.shapes
        more = len(indices) - 1
        if not more:
            return None
        return tuple(
            tuple(range(d, d + len(indices))) if d == self.axis else (d if d < self.axis else d + more,)
            for d in range(len(x))
        )


class ArgReduceOp(NNOp):
    """The index along `axis` of an element; of equal ones the first, or the last with `select_last`.

    With `keepdims` the dim stays, with extent 1. Pads are not read: an index into them would be wrong.
    """

    ALLOWED: ClassVar[tuple[str, ...]] = NUMBERS
    SAME_ELEMENT: ClassVar[bool] = False
    SAME_FORMAT: ClassVar[bool] = True

    x = operand_def(TensorType)

    axis = integer(default=0)
    keepdims = flag(default=True)
    select_last = flag(default=False)

    def infer(self) -> Shape:
        """The shape of x with extent 1 in `axis`, or without that dim."""
        (x,) = self.shapes
        check_axis(self.axis, x)
        if not x[self.axis]:
            raise LayoutError(
                f"dim {self.axis} of operand 0 has no elements, of which none is the chosen one"
            )
        return (*x[: self.axis], *((1,) if self.keepdims else ()), *x[self.axis + 1 :])

    def infer_element(self) -> Attribute:
        """i64."""
        return i64

    def check_elements(self) -> None:
        """Raises LayoutError unless the elements of x are numbers and those of the result i64."""
        self.check_allowed((self.x,))
        element = tensor_type(self.result).element_type
        if element != i64:
            raise LayoutError(f"the result of {self.name} has element type {element}, expected i64")

    def formatted_operands(self) -> Sequence[SSAValue]:
        """x, where the result has its rank."""
        return (self.x,) if self.keepdims else ()

    def dim_images(self) -> DimImages | None:
        """The dim of the result that each dim of x becomes; `axis` becomes none without `keepdims`."""
        if self.keepdims:
            return None
        rank = len(self.shapes[0])
        return tuple(() if d == self.axis else (d - (d > self.axis),) for d in range(rank))


@irdl_op_definition
class ArgMaxOp(ArgReduceOp):
    """The index of the largest element along `axis`."""

    name = "nn.arg_max"


@irdl_op_definition
class ArgMinOp(ArgReduceOp):
    """The index of the smallest element along `axis`."""

    name = "nn.arg_min"
